// The loaded messages of one conversation: consecutive seqs, each once, so a message is found by
// its index. Network calls and the inbox entry do not belong here.

import type { MessageBody, PageBody } from "./generated.ts";
import type { TimelineMessage } from "./types.ts";

/** A stored message, as applications see it. */
export type StoredMessage = TimelineMessage & { readonly seq: number; readonly received_at: number };

/** Converts a message of the server. */
export function storedMessage(body: MessageBody): StoredMessage {
  const { conversation_id, seq, message_id, sender_id, receiver_id, content, content_type, timestamp, received_at } = body;
  return { conversation_id, seq, message_id, sender_id, receiver_id, content, content_type, timestamp, received_at, state: "sent", failure: null };
}

/** Returns the messages of a page, the oldest first, up to the first gap. */
export function runOf(page: PageBody): StoredMessage[] {
  const messages = page.messages.map(storedMessage).sort((one, other) => one.seq - other.seq);
  const first = messages[0]?.seq ?? 0;
  const end = messages.findIndex(({ seq }, index) => seq !== first + index);
  return end < 0 ? messages : messages.slice(0, end);
}

/**
 * Upper bound on the early messages, whose predecessors are missing. Messages beyond it are fetched
 * again.
 */
const EARLY_LIMIT = 1_000;
/**
 * Upper bound on the messages of a window that follows the head. Beyond it, the older half is
 * dropped.
 */
const LIMIT = 2_000;
/** Upper bound on the newest messages that are kept while the window shows older ones. */
const TAIL = 200;

/** The loaded messages of one conversation. */
export class Timeline {
  /** `messages[index].seq` is always `fromSeq + index`. */
  messages: StoredMessage[] = [];
  /** Whether the window follows the head, so that new messages are appended. */
  isLive = false;
  /** Whether the first message is the oldest that the user may see. */
  reachesStart = false;
  #early = new Map<number, StoredMessage>();
  /** The newest consecutive messages while the window is elsewhere. */
  #tail: StoredMessage[] = [];

  get fromSeq(): number {
    return this.messages[0]?.seq ?? 0;
  }

  get toSeq(): number {
    return this.messages.at(-1)?.seq ?? 0;
  }

  /** Whether the window holds every message above `afterSeq` up to `upToSeq`. */
  covers(afterSeq: number, upToSeq: number): boolean {
    return this.messages.length > 0 && this.fromSeq <= afterSeq + 1 && upToSeq <= this.toSeq;
  }

  /** Returns the messages above a seq. The cost does not depend on the messages below. */
  above(seq: number): StoredMessage[] {
    return this.messages.slice(Math.max(0, seq + 1 - this.fromSeq));
  }

  /** Keeps a message whose predecessors are missing. */
  keepEarly(message: StoredMessage): void {
    if (this.#early.size < EARLY_LIMIT) this.#early.set(message.seq, message);
  }

  hasEarly(seq: number): boolean {
    return this.#early.has(seq);
  }

  /** Drops the early messages up to a seq. */
  forgetEarly(upToSeq: number): void {
    if (this.#early.size === 0) return;
    for (const seq of this.#early.keys()) if (seq <= upToSeq) this.#early.delete(seq);
  }

  /** The early messages, the oldest first. */
  get early(): StoredMessage[] {
    return this.#early.size === 0 ? [] : [...this.#early.values()].sort((one, other) => one.seq - other.seq);
  }

  /** Appends a new message and the early ones next to it. Returns whether the window changed. */
  append(message: StoredMessage): boolean {
    if (this.messages.length === 0) {
      this.isLive = true;
      for (let before = this.#early.get(message.seq - 1); before; before = this.#early.get(before.seq - 1)) this.messages.unshift(before);
    } else if (!this.isLive || message.seq !== this.toSeq + 1) return false;
    this.messages.push(message);
    for (let next = this.#early.get(message.seq + 1); next; next = this.#early.get(next.seq + 1)) this.messages.push(next);
    if (this.messages.length > LIMIT) this.trim(LIMIT / 2, "newer");
    return true;
  }

  /** Keeps a new message and the early ones after it while the window is elsewhere. */
  keepTail(message: StoredMessage): void {
    if (this.isLive || message.seq !== (this.#tail.at(-1)?.seq ?? 0) + 1) return;
    for (let next: StoredMessage | undefined = message; next; next = this.#early.get(next.seq + 1)) this.#tail.push(next);
    if (this.#tail.length > 2 * TAIL) this.#tail = this.#tail.slice(-TAIL);
  }

  /**
   * Moves the window to the kept newest messages. Returns false if these do not reach `headSeq`.
   */
  showTail(headSeq: number): boolean {
    const [first] = this.#tail;
    if (this.isLive || !first || (this.#tail.at(-1)?.seq ?? 0) < headSeq) return this.isLive;
    this.replace(this.#tail, this.reachesStart && this.fromSeq >= first.seq, true);
    return true;
  }

  /** Keeps the newest messages before the window moves elsewhere. */
  #leaveEnd(): void {
    if (this.isLive) this.#tail = this.messages.slice(-TAIL);
  }

  /** Joins the newest page with the window. Replaces the window if the two do not touch. */
  takeNewest(page: PageBody, headSeq: number): void {
    const run = runOf(page);
    const [from, to] = [run[0]?.seq ?? 0, run.at(-1)?.seq ?? 0];
    const touches = this.messages.length > 0 && from <= this.toSeq + 1 && to >= this.fromSeq - 1;
    if (!touches || from < this.fromSeq) this.reachesStart = page.next_before_seq === null;
    if (touches) this.messages = [...run.filter(({ seq }) => seq < this.fromSeq), ...this.#renewed(run)];
    else this.messages = run;
    this.#extend(run);
    this.isLive = this.toSeq >= headSeq;
  }

  /**
   * Returns the window with changed contents. A message is immutable, but its content can be
   * deleted, or become readable again.
   */
  #renewed(run: readonly StoredMessage[]): StoredMessage[] {
    const changed = run.filter(({ seq, content_type }) => (this.messages[seq - this.fromSeq]?.content_type ?? content_type) !== content_type);
    if (changed.length === 0) return this.messages;
    const messages = [...this.messages];
    for (const message of changed) messages[message.seq - this.fromSeq] = message;
    return messages;
  }

  /** Puts an older page before the window. */
  takeOlder(page: PageBody): void {
    const run = runOf(page).filter(({ seq }) => this.messages.length === 0 || seq < this.fromSeq);
    if (run.length > 0 && this.messages.length > 0 && run.at(-1)?.seq !== this.fromSeq - 1) return;
    this.messages = [...run, ...this.messages];
    this.reachesStart = page.next_before_seq === null;
  }

  /** Appends a newer page. `headSeq` is the highest known seq. */
  takeNewer(page: PageBody, headSeq: number): void {
    this.#extend(runOf(page));
    this.isLive ||= this.toSeq >= headSeq;
  }

  /** Puts stored messages before the window, if the two touch. */
  restore(run: StoredMessage[], reachesStart: boolean, isLive: boolean): void {
    if (this.messages.length === 0) return this.replace(run, reachesStart, isLive);
    const older = run.filter(({ seq }) => seq < this.fromSeq);
    if (older.length === 0 || older.at(-1)?.seq !== this.fromSeq - 1) return;
    this.messages = [...older, ...this.messages];
    this.reachesStart = reachesStart;
  }

  /** Moves the window to other messages. */
  replace(run: StoredMessage[], reachesStart: boolean, isLive: boolean): void {
    if (!isLive) this.#leaveEnd();
    this.messages = run;
    this.reachesStart = reachesStart;
    this.isLive = isLive;
  }

  #extend(run: StoredMessage[]): void {
    for (const message of run) if (message.seq === this.toSeq + 1) this.messages.push(message);
    for (let next = this.#early.get(this.toSeq + 1); next; next = this.#early.get(next.seq + 1)) this.messages.push(next);
  }

  /** Removes messages from one end. Returns whether there was anything to remove. */
  trim(max: number, keep: "newer" | "older"): boolean {
    const excess = this.messages.length - max;
    if (excess <= 0) return false;
    if (keep === "newer") {
      this.messages = this.messages.slice(excess);
      this.reachesStart = false;
    } else {
      this.#leaveEnd();
      this.messages = this.messages.slice(0, max);
      this.isLive = false;
    }
    return true;
  }

  clear(): void {
    this.replace([], false, false);
    this.#early.clear();
    this.#tail = [];
  }
}
