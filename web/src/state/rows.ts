// The rows of a conversation, one per message. A row exists while its message is in the window, so
// a queued message keeps its element when the server stores it. The day and the sender drawn around
// a message belong to its row. The list therefore grows and shrinks only at its ends, which a
// virtual list follows without a jump.

import type { TimelineMessage } from "@bluetick/client";
import { batch, createSignal, type Accessor } from "solid-js";
import { startOfDay } from "../text/time.ts";

export type TickState = "queued" | "sending" | "sent" | "delivered" | "read" | "failed";

/** How a row is drawn, depending on the rows before and after it. */
export interface RowLayout {
  /** The day that begins here; 0 where none begins. */
  day: number;
  isFirst: boolean;
  isLast: boolean;
  /** The unread messages begin here. */
  isUnreadStart: boolean;
}

export interface Row {
  readonly key: string;
  readonly message: Accessor<TimelineMessage>;
  readonly layout: Accessor<RowLayout>;
}

interface LiveRow extends Row {
  setMessage(message: TimelineMessage): void;
  setLayout(layout: RowLayout): void;
  generation: number;
}

/** Rows for the list to show. With `shift`, the change since the previous step is at the start. */
export interface Step {
  rows: readonly Row[];
  shift: boolean;
  /** No row of the previous step remains. */
  isFresh: boolean;
}

/** Messages of one sender within this time form a group. */
const GROUP_MS = 5 * 60_000;

const isSame = (one: RowLayout, other: RowLayout) =>
  one.day === other.day && one.isFirst === other.isFirst && one.isLast === other.isLast && one.isUnreadStart === other.isUnreadStart;

function createRow(key: string, first: TimelineMessage): LiveRow {
  const [message, setMessage] = createSignal(first, { equals: false });
  const [layout, setLayout] = createSignal<RowLayout>({ day: 0, isFirst: true, isLast: true, isUnreadStart: false }, { equals: isSame });
  return { key, message, layout, setMessage, setLayout, generation: 0 };
}

const timeOf = (message: TimelineMessage) => message.received_at ?? message.timestamp;
const isNotice = (message: TimelineMessage) => message.content_type === "system";

function areGrouped(one: TimelineMessage | undefined, other: TimelineMessage | undefined): boolean {
  if (!one || !other || one.sender_id !== other.sender_id || isNotice(one) || isNotice(other)) return false;
  return Math.abs(timeOf(other) - timeOf(one)) < GROUP_MS && startOfDay(timeOf(one)) === startOfDay(timeOf(other));
}

export class Rows {
  #byKey = new Map<string, LiveRow>();
  #shown: readonly LiveRow[] = [];
  #generation = 0;
  /** The last read seq when the conversation was opened; null without a divider. */
  #readUpTo: number | null = null;

  constructor(readonly me: string) {}

  get shown(): readonly Row[] {
    return this.#shown;
  }

  setDividerAfter(seq: number | null): void {
    this.#readUpTo = seq;
  }

  /**
   * Takes the current messages and returns the steps by which the list reaches them. With
   * `isStart`, no message is before the first one.
   */
  update(messages: readonly TimelineMessage[], isStart: boolean): Step[] {
    const before = this.#shown;
    this.#generation += 1;
    const visible = messages.filter((message) => message.content_type !== "void");
    const after = batch(() => this.#buildRows(visible, isStart));
    this.#shown = after;
    this.#removeOld();
    return this.#steps(before, after);
  }

  #buildRows(messages: readonly TimelineMessage[], isStart: boolean): LiveRow[] {
    let hasDivider = this.#readUpTo === null;
    return messages.map((message, index) => {
      const key = `${message.sender_id}/${message.message_id}`;
      let row = this.#byKey.get(key);
      if (!row) this.#byKey.set(key, (row = createRow(key, message)));
      else if (row.message() !== message) row.setMessage(message);
      row.generation = this.#generation;
      const [previous, next] = [messages[index - 1], messages[index + 1]];
      const day = startOfDay(timeOf(message));
      const isUnreadStart = !hasDivider && message.seq !== null && message.seq > (this.#readUpTo ?? 0) && message.sender_id !== this.me && !isNotice(message);
      if (isUnreadStart) hasDivider = true;
      // The row before the first one is unknown. The first row keeps its layout, so that no row
      // moves when messages are loaded or removed.
      const isKnown = previous !== undefined || isStart;
      row.setLayout({
        day: isKnown ? (previous && startOfDay(timeOf(previous)) === day ? 0 : day) : row.layout().day,
        isFirst: isKnown ? isUnreadStart || !areGrouped(previous, message) : row.layout().isFirst,
        isLast: !areGrouped(message, next),
        isUnreadStart,
      });
      return row;
    });
  }

  /** Keeps up to 200 rows that are not shown, then removes all of them at once. */
  #removeOld(): void {
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
