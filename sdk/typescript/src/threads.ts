// All conversations this device knows of, each once. What is at hand of those nobody looks at is bounded here.

import { Thread } from "./thread.ts";

/** Conversations whose messages are kept at hand, and how many of each that nobody looks at. */
const KEPT_TIMELINES = 50;
const CLOSED_TIMELINE = 100;

export class Threads {
  #byId = new Map<string, Thread>();
  /** Those with messages at hand; the one that was quiet for longest is the first. */
  #used = new Set<Thread>();
  readonly userId: string;

  constructor(userId: string) {
    this.userId = userId;
  }

  get(id: string): Thread {
    let thread = this.#byId.get(id);
    if (!thread) {
      thread = new Thread(id, this.userId);
      this.#byId.set(id, thread);
    }
    return thread;
  }

  known(id: string): Thread | undefined {
    return this.#byId.get(id);
  }

  all(): IterableIterator<Thread> {
    return this.#byId.values();
  }

  /** Something was put into its timeline. Each cut pays for as many messages as it takes away. */
  used(thread: Thread): void {
    this.#used.delete(thread);
    this.#used.add(thread);
    const { timeline, openCount } = thread;
    if (openCount === 0 && timeline.messages.length > 2 * CLOSED_TIMELINE && timeline.trim(CLOSED_TIMELINE, "newer")) thread.touch();
    if (this.#used.size <= KEPT_TIMELINES) return;
    for (const oldest of this.#used) {
      if (oldest.openCount > 0) continue;
      this.#used.delete(oldest);
      oldest.timeline.clear();
      oldest.isRestored = false;
      oldest.touch();
      if (this.#used.size <= KEPT_TIMELINES) return;
    }
  }

  /** Nobody looks at it any more. Away from the newest messages there is nothing worth keeping. */
  cut(thread: Thread): void {
    const { timeline } = thread;
    if (timeline.isLive) timeline.trim(CLOSED_TIMELINE, "newer");
    else timeline.clear();
    if (timeline.messages.length === 0) thread.isRestored = false;
    thread.touch();
  }

  clear(): void {
    for (const thread of this.#byId.values()) thread.reset();
    this.#used.clear();
  }
}
