// The stored messages of one conversation that are at hand: one run without a gap, so the message with a seq is found by
// counting, and nothing is ever there twice. It fetches nothing itself.

import type { MessageBody, PageBody } from "./generated.ts";
import type { TimelineMessage } from "./types.ts";

/** A stored message as it is shown. */
export type StoredMessage = TimelineMessage & { readonly seq: number; readonly received_at: number };

export function storedMessage(body: MessageBody): StoredMessage {
  const { conversation_id, seq, message_id, sender_id, receiver_id, content, content_type, timestamp, received_at } = body;
  return { conversation_id, seq, message_id, sender_id, receiver_id, content, content_type, timestamp, received_at, state: "sent", failure: null };
}

/** Oldest first, and only as far as no seq is left out. */
export function runOf(page: PageBody): StoredMessage[] {
  const messages = page.messages.map(storedMessage).sort((one, other) => one.seq - other.seq);
  const first = messages[0]?.seq ?? 0;
  const end = messages.findIndex(({ seq }, index) => seq !== first + index);
  return end < 0 ? messages : messages.slice(0, end);
}

/** Messages that came before one they must follow. Beyond this they are fetched again. */
const EARLY_LIMIT = 1_000;
/** An open conversation in which much arrives is cut to half of this at its old end. */
const LIMIT = 2_000;
/** How many of the newest messages stay at hand while the window shows another place. */
const TAIL = 200;

export class Timeline {
  /** messages[index].seq is always fromSeq + index. */
  messages: StoredMessage[] = [];
  /** What arrives is appended. */
  isLive = false;
  /** Nothing lies before the first message here. */
  reachesStart = false;
  #early = new Map<number, StoredMessage>();
  /** The newest messages, without a gap, while the window shows another place. */
  #tail: StoredMessage[] = [];

  get fromSeq(): number {
    return this.messages[0]?.seq ?? 0;
  }

  get toSeq(): number {
    return this.messages.at(-1)?.seq ?? 0;
  }

  /** Whether every message above `afterSeq` up to `upToSeq` is here. */
  covers(afterSeq: number, upToSeq: number): boolean {
    return this.messages.length > 0 && this.fromSeq <= afterSeq + 1 && upToSeq <= this.toSeq;
  }

  /** Those above a seq; nothing is copied that lies below. */
  above(seq: number): StoredMessage[] {
    return this.messages.slice(Math.max(0, seq + 1 - this.fromSeq));
  }

  /** Keeps a message that has come too early until the ones before it are here. */
  keepEarly(message: StoredMessage): void {
    if (this.#early.size < EARLY_LIMIT) this.#early.set(message.seq, message);
  }

  hasEarly(seq: number): boolean {
    return this.#early.has(seq);
  }

  /** Lets go of early ones that nobody waits for any more. */
  forgetEarly(upToSeq: number): void {
    if (this.#early.size === 0) return;
    for (const seq of this.#early.keys()) if (seq <= upToSeq) this.#early.delete(seq);
  }

  /** In order. */
  get early(): StoredMessage[] {
    return this.#early.size === 0 ? [] : [...this.#early.values()].sort((one, other) => one.seq - other.seq);
  }

  /** A message that has just come, and the early ones around it. False when it changes nothing here. */
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

  /** Keeps a message that arrives while the window shows another place, and the early ones after it. */
  keepTail(message: StoredMessage): void {
    if (this.isLive || message.seq !== (this.#tail.at(-1)?.seq ?? 0) + 1) return;
    for (let next: StoredMessage | undefined = message; next; next = this.#early.get(next.seq + 1)) this.#tail.push(next);
    if (this.#tail.length > 2 * TAIL) this.#tail = this.#tail.slice(-TAIL);
  }

  /** Shows the newest messages that were kept. False where they do not reach `headSeq`. */
  showTail(headSeq: number): boolean {
    const [first] = this.#tail;
    if (this.isLive || !first || (this.#tail.at(-1)?.seq ?? 0) < headSeq) return this.isLive;
    this.replace(this.#tail, this.reachesStart && this.fromSeq >= first.seq, true);
    return true;
  }

  /** The window is about to leave the newest messages. */
  #leaveEnd(): void {
    if (this.isLive) this.#tail = this.messages.slice(-TAIL);
  }

  /** Joins the newest page to what is here, or starts over with it when the two do not touch. */
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

  /** A message never changes, but its content may have been deleted since, or be readable again. */
  #renewed(run: readonly StoredMessage[]): StoredMessage[] {
    const changed = run.filter(({ seq, content_type }) => (this.messages[seq - this.fromSeq]?.content_type ?? content_type) !== content_type);
    if (changed.length === 0) return this.messages;
    const messages = [...this.messages];
    for (const message of changed) messages[message.seq - this.fromSeq] = message;
    return messages;
  }

  takeOlder(page: PageBody): void {
    const run = runOf(page).filter(({ seq }) => this.messages.length === 0 || seq < this.fromSeq);
    if (run.length > 0 && this.messages.length > 0 && run.at(-1)?.seq !== this.fromSeq - 1) return;
    this.messages = [...run, ...this.messages];
    this.reachesStart = page.next_before_seq === null;
  }

  /** `headSeq` is the newest message anybody has told of. */
  takeNewer(page: PageBody, headSeq: number): void {
    this.#extend(runOf(page));
    this.isLive ||= this.toSeq >= headSeq;
  }

  /** What was remembered goes before what has come since, if the two touch. */
  restore(run: StoredMessage[], reachesStart: boolean, isLive: boolean): void {
    if (this.messages.length === 0) return this.replace(run, reachesStart, isLive);
    const older = run.filter(({ seq }) => seq < this.fromSeq);
    if (older.length === 0 || older.at(-1)?.seq !== this.fromSeq - 1) return;
    this.messages = [...older, ...this.messages];
    this.reachesStart = reachesStart;
  }

  /** Shows another place. */
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

  /** Cuts one end off. False when nothing had to go. */
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
