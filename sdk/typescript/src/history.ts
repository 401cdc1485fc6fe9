// Brings pages of messages into the window of a conversation, one at a time, and keeps it fresh while somebody looks.

import type { Api } from "./api.ts";
import type { Cache } from "./cache.ts";
import type { Changes } from "./changes.ts";
import { codeOf, messageOf } from "./errors.ts";
import type { PageBody } from "./generated.ts";
import type { Outbox } from "./outbox.ts";
import type { Signals } from "./signals.ts";
import type { Sync } from "./sync.ts";
import type { Thread } from "./thread.ts";
import type { Threads } from "./threads.ts";
import { runOf } from "./timeline.ts";

const PAGE = 50;
/** Of larger groups, who is there is not asked for. */
const PRESENCE_MEMBERS = 100;
/** Where much arrives, the end moves while its page is read. */
const CHASE_PAGES = 20;

export interface HistoryPorts {
  readonly api: Api;
  readonly threads: Threads;
  readonly changes: Changes;
  readonly cache: Cache;
  readonly signals: Signals;
  readonly sync: Sync;
  readonly outbox: Outbox;
  isOnline(): boolean;
  onGone(conversationId: string): void;
}

export class History {
  #ports: HistoryPorts;
  #loading = new Map<Thread, Promise<void>>();

  constructor(ports: HistoryPorts) {
    this.#ports = ports;
  }

  // Looking

  open(thread: Thread): () => void {
    thread.openCount += 1;
    void this.bringUpToDate(thread);
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      thread.openCount -= 1;
      if (thread.openCount > 0) return;
      this.#ports.threads.cut(thread);
      this.#ports.changes.markConversation(thread.id);
    };
  }

  /** Of what is looked at; also after every pause. */
  async bringUpToDate(thread: Thread): Promise<void> {
    const { cache, sync, isOnline, changes, outbox } = this.#ports;
    await cache.restore(thread);
    // The answer to what waits may be among what was remembered.
    outbox.noteStoredByServer(thread.timeline.messages);
    changes.markConversation(thread.id);
    if (!isOnline() || thread.openCount === 0) return;
    sync.noticed(thread.id);
    if (!thread.entry || !thread.isListed) sync.refreshSoon(thread);
    void this.#askPresence(thread);
    sync.bringTicksUpToDate(thread);
    const { timeline, window } = thread;
    if (!timeline.isLive || (timeline.messages.length < PAGE && !window.reachesStart)) await this.loadNewest(thread);
  }

  bringAllUpToDate(): void {
    for (const thread of this.#ports.threads.all()) if (thread.openCount > 0) void this.bringUpToDate(thread);
  }

  /** The window lost the end although somebody looks at it. */
  follow(thread: Thread): void {
    if (thread.openCount > 0 && !this.#loading.has(thread)) void this.loadNewer(thread);
  }

  /** The server tells of the latest conversations by itself; of others it has to be asked. */
  async #askPresence(thread: Thread): Promise<void> {
    const { api, signals, changes } = this.#ports;
    if ((thread.entry?.member_count ?? 2) > PRESENCE_MEMBERS) return;
    try {
      for (const presence of (await api.presence(thread.id)).members) signals.notePresence(presence);
      changes.markConversation(thread.id);
    } catch {
      // Then it is not known.
    }
  }

  // Pages

  loadNewest(thread: Thread): Promise<void> {
    return this.#load(thread, async () => {
      const page = await this.#page(thread, { limit: PAGE });
      thread.timeline.takeNewest(page, Math.max(page.head_seq, thread.headSeq));
      this.#took(thread, page);
      await this.#chase(thread);
    });
  }

  loadOlder(thread: Thread): Promise<void> {
    const { fromSeq, reachesStart } = thread.window;
    if (fromSeq === 0) return this.loadNewest(thread);
    if (reachesStart || this.#loading.has(thread)) return this.#loading.get(thread) ?? Promise.resolve();
    return this.#load(thread, async () => {
      const page = await this.#page(thread, { before_seq: thread.timeline.fromSeq, limit: PAGE });
      thread.timeline.takeOlder(page);
      this.#took(thread, page);
    });
  }

  loadNewer(thread: Thread): Promise<void> {
    if (thread.timeline.messages.length === 0) return this.loadNewest(thread);
    if (thread.timeline.isLive || this.#loading.has(thread)) return this.#loading.get(thread) ?? Promise.resolve();
    return this.#load(thread, () => this.#newer(thread));
  }

  async showAround(thread: Thread, seq: number): Promise<void> {
    const { fromSeq, toSeq } = thread.window;
    if (fromSeq > 0 && fromSeq <= seq && seq <= toSeq) return;
    await this.#load(thread, async () => {
      const page = await this.#page(thread, { before_seq: seq + PAGE / 2 + 1, limit: PAGE });
      const run = runOf(page);
      thread.timeline.replace(run, page.next_before_seq === null, (run.at(-1)?.seq ?? 0) >= Math.max(page.head_seq, thread.headSeq));
      this.#took(thread, page);
    });
  }

  showLatest(thread: Thread): boolean {
    const { timeline, window, headSeq } = thread;
    if (window.reachesHead) return true;
    if (!timeline.showTail(headSeq)) return false;
    thread.error = thread.errorCode = null;
    thread.touch();
    this.#ports.changes.markConversation(thread.id);
    return true;
  }

  trim(thread: Thread, max: number, keep: "newer" | "older"): void {
    if (!thread.timeline.trim(Math.max(1, max), keep)) return;
    thread.touch();
    this.#ports.changes.markConversation(thread.id);
  }

  async #newer(thread: Thread): Promise<void> {
    const { timeline } = thread;
    const page = await this.#page(thread, { after_seq: timeline.toSeq, limit: PAGE });
    const headSeq = Math.max(page.head_seq, thread.headSeq);
    const run = runOf(page);
    // A page that does not follow on says that one may not see what lies between.
    if ((run[0]?.seq ?? 0) > timeline.toSeq + 1) timeline.replace(run, true, (run.at(-1)?.seq ?? 0) >= headSeq);
    else timeline.takeNewer(page, headSeq);
    this.#took(thread, page);
  }

  /** Follows the end until the window has it. */
  async #chase(thread: Thread): Promise<void> {
    for (let pages = 0; pages < CHASE_PAGES && !thread.timeline.isLive; pages += 1) {
      const before = thread.timeline.toSeq;
      await this.#newer(thread);
      if (thread.timeline.toSeq === before) return;
    }
  }

  #page(thread: Thread, query: { before_seq?: number; after_seq?: number; limit: number }): Promise<PageBody> {
    return this.#ports.api.messages(thread.id, query);
  }

  #took(thread: Thread, page: PageBody): void {
    this.#ports.sync.notePage(thread, runOf(page));
    thread.touch();
  }

  /** One page at a time; a failure is shown in the window. */
  async #load(thread: Thread, work: () => Promise<void>): Promise<void> {
    while (this.#loading.has(thread)) await this.#loading.get(thread);
    const done = this.#run(thread, work);
    this.#loading.set(thread, done);
    await done;
  }

  async #run(thread: Thread, work: () => Promise<void>): Promise<void> {
    const { changes, onGone } = this.#ports;
    thread.isLoading = true;
    thread.error = thread.errorCode = null;
    thread.touch();
    changes.markConversation(thread.id);
    try {
      await work();
    } catch (error) {
      thread.error = messageOf(error);
      thread.errorCode = codeOf(error) || null;
      if (thread.errorCode === "conversation_not_found") onGone(thread.id);
    }
    thread.isLoading = false;
    this.#loading.delete(thread);
    thread.settleEarly();
    thread.touch();
    changes.markConversation(thread.id);
  }
}
