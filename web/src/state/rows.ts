// The rows of a conversation: one for each message, kept for as long as the message is in the window, so that a message
// that was waiting and is stored now keeps its element. What is drawn around a message (a day, who speaks) belongs to its
// row: the list then only ever grows and shrinks at its ends, which is what a virtual list can follow without a jump.

import type { TimelineMessage } from "@bluetick/client";
import { batch, createSignal, type Accessor } from "solid-js";
import { startOfDay } from "../text/time.ts";

export type TickState = "queued" | "sending" | "sent" | "delivered" | "read" | "failed";

/** How a row looks beside its neighbours. */
export interface Surroundings {
  /** The day that begins here; 0 where none does. */
  day: number;
  isFirst: boolean;
  isLast: boolean;
  /** What nobody has read yet begins here. */
  isUnreadStart: boolean;
}

export interface Row {
  readonly key: string;
  readonly message: Accessor<TimelineMessage>;
  readonly around: Accessor<Surroundings>;
}

interface LiveRow extends Row {
  setMessage(message: TimelineMessage): void;
  setAround(around: Surroundings): void;
  generation: number;
}

/** What the list is to show; with `shift`, what changed against the step before is at its start. */
export interface Step {
  rows: readonly Row[];
  shift: boolean;
  /** Nothing of what was shown before remains. */
  isFresh: boolean;
}

/** Messages of one person within this time stand together. */
const TOGETHER_MS = 5 * 60_000;

const isSame = (one: Surroundings, other: Surroundings) =>
  one.day === other.day && one.isFirst === other.isFirst && one.isLast === other.isLast && one.isUnreadStart === other.isUnreadStart;

function createRow(key: string, first: TimelineMessage): LiveRow {
  const [message, setMessage] = createSignal(first, { equals: false });
  const [around, setAround] = createSignal<Surroundings>({ day: 0, isFirst: true, isLast: true, isUnreadStart: false }, { equals: isSame });
  return { key, message, around, setMessage, setAround, generation: 0 };
}

const timeOf = (message: TimelineMessage) => message.received_at ?? message.timestamp;
const isNotice = (message: TimelineMessage) => message.content_type === "system";

function areTogether(one: TimelineMessage | undefined, other: TimelineMessage | undefined): boolean {
  if (!one || !other || one.sender_id !== other.sender_id || isNotice(one) || isNotice(other)) return false;
  return Math.abs(timeOf(other) - timeOf(one)) < TOGETHER_MS && startOfDay(timeOf(one)) === startOfDay(timeOf(other));
}

export class Rows {
  #byKey = new Map<string, LiveRow>();
  #shown: readonly LiveRow[] = [];
  #generation = 0;
  /** The read boundary when the conversation was opened; null where there is nothing to divide. */
  #readUpTo: number | null = null;

  constructor(readonly me: string) {}

  get shown(): readonly Row[] {
    return this.#shown;
  }

  divideAfter(seq: number | null): void {
    this.#readUpTo = seq;
  }

  /**
   * Takes the messages as they are now and tells by which steps the list gets there. With `isStart`, there is nothing
   * before the first of them.
   */
  update(messages: readonly TimelineMessage[], isStart: boolean): Step[] {
    const before = this.#shown;
    this.#generation += 1;
    const visible = messages.filter((message) => message.content_type !== "void");
    const after = batch(() => this.#take(visible, isStart));
    this.#shown = after;
    this.#forget();
    return this.#steps(before, after);
  }

  #take(messages: readonly TimelineMessage[], isStart: boolean): LiveRow[] {
    let divided = this.#readUpTo === null;
    return messages.map((message, index) => {
      const key = `${message.sender_id}/${message.message_id}`;
      let row = this.#byKey.get(key);
      if (!row) this.#byKey.set(key, (row = createRow(key, message)));
      else if (row.message() !== message) row.setMessage(message);
      row.generation = this.#generation;
      const [previous, next] = [messages[index - 1], messages[index + 1]];
      const day = startOfDay(timeOf(message));
      const isUnreadStart = !divided && message.seq !== null && message.seq > (this.#readUpTo ?? 0) && message.sender_id !== this.me && !isNotice(message);
      if (isUnreadStart) divided = true;
      // What stands before the first is not known: it looks as it did, so that nothing moves when more is loaded or cut.
      const isKnown = previous !== undefined || isStart;
      row.setAround({
        day: isKnown ? (previous && startOfDay(timeOf(previous)) === day ? 0 : day) : row.around().day,
        isFirst: isKnown ? isUnreadStart || !areTogether(previous, message) : row.around().isFirst,
        isLast: !areTogether(message, next),
        isUnreadStart,
      });
      return row;
    });
  }

  /** A little more than is shown is remembered, then all of it goes at once. */
  #forget(): void {
    if (this.#byKey.size <= this.#shown.length + 200) return;
    for (const [key, row] of this.#byKey) if (row.generation !== this.#generation) this.#byKey.delete(key);
  }

  #steps(before: readonly LiveRow[], after: readonly LiveRow[]): Step[] {
    const known = new Set(before);
    const removed = before.findIndex((row) => row.generation === this.#generation);
    const added = after.findIndex((row) => known.has(row));
    if (removed < 0 || added < 0) return [{ rows: after, shift: false, isFresh: true }];
    const steps: Step[] = [];
    let rows: readonly LiveRow[] = before;
    if (removed > 0) steps.push({ rows: (rows = rows.slice(removed)), shift: true, isFresh: false });
    if (added > 0) steps.push({ rows: (rows = [...after.slice(0, added), ...rows]), shift: true, isFresh: false });
    steps.push({ rows: after, shift: false, isFresh: false });
    return steps;
  }
}
