// Messages on their way: stored before the first attempt, and kept under the same message_id until acknowledged, so that
// neither a cut connection nor a closed tab loses or doubles one. In each conversation one is under way at a time: a
// refused one is then never overtaken by those after it.

import { BluetickError, isRetryable } from "./errors.ts";
import type { ClientFrame, SendFrame } from "./generated.ts";
import { newMessageId } from "./message-id.ts";
import { Pace } from "./pace.ts";
import { isBefore, Queue } from "./queue.ts";
import type { Item, OutboxRecord } from "./queue.ts";
import type { StorageChange } from "./storage/storage.ts";
import type { Tabs } from "./tabs.ts";
import type { Thread } from "./thread.ts";
import type { StoredMessage } from "./timeline.ts";
import type { ConversationWaiting, TimelineMessage } from "./types.ts";

/** Beyond this, sending is refused with a word to the person. */
const LIMIT = 1_000;
const IN_FLIGHT_LIMIT = 64;
/** Without an answer for this long, the connection is asked whether it lives. */
const ANSWER_WITHIN_MS = 5_000;
/**
 * Refusals for the moment after which it is certain that nothing was stored, as it is after those for good. Not among
 * them `store_unavailable`: the store may have done it and failed to say so.
 */
const NOTHING_STORED: ReadonlySet<string> = new Set(["rate_limited", "overloaded", "draining"]);

export interface OutboxPorts {
  readonly userId: string;
  readonly tabs: Tabs;
  readonly random: () => number;
  readonly now: () => number;
  write(changes: readonly StorageChange[]): Promise<void>;
  writeLater(change: StorageChange): void;
  readStored(): Promise<Map<string, unknown>>;
  /** False without a connection. */
  send(frame: ClientFrame): boolean;
  isOnline(): boolean;
  /** A dead connection is found out within this time. */
  probe(within_ms: number): void;
  /** Something waits, or waits no longer. */
  onChange(conversationId: string): void;
  onTrouble(text: string): void;
}

export class Outbox {
  #ports: OutboxPorts;
  #queue: Queue;
  #pace: Pace;
  #unsaved = new Set<Item>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #answerTimer: ReturnType<typeof setTimeout> | undefined;
  /** A refusal did not say whom it meant: one at a time, until all is sent. */
  #isCareful = false;
  #isStopped = false;

  constructor(ports: OutboxPorts) {
    this.#ports = ports;
    this.#queue = new Queue(ports.userId, ports.onChange);
    this.#pace = new Pace(ports.random);
  }

  // What is shown

  get size(): number {
    return this.#queue.size;
  }

  conversationOf(messageId: string): string | undefined {
    return this.#queue.get(messageId)?.record.conversation_id;
  }

  summary(conversationId: string): ConversationWaiting {
    return this.#queue.summary(conversationId);
  }

  waiting(conversationId: string): readonly TimelineMessage[] {
    return this.#queue.of(conversationId).map(({ shown }) => shown);
  }

  // In and out

  add(thread: Thread, text: string, contentType: string): TimelineMessage {
    const { now, tabs, isOnline } = this.#ports;
    if (typeof text !== "string" || text === "") throw new BluetickError("invalid_request", "There is nothing to send.");
    // Half a character is nothing that could be sent.
    const content = text.replace(/\p{Surrogate}/gu, "\ufffd");
    if (this.#queue.size >= LIMIT) throw new BluetickError("outbox_full", "Too many messages are waiting to be sent.");
    const timestamp = Math.floor(now());
    const record: OutboxRecord = {
      message_id: newMessageId(timestamp),
      conversation_id: thread.id,
      content,
      content_type: contentType,
      timestamp,
      after_seq: thread.headSeq,
      // With a connection the first attempt follows at once; noting it now saves noting it then.
      attempted: isOnline(),
      failure: null,
      owner: tabs.ownerId,
      place: this.#queue.nextPlace(timestamp),
    };
    const item = this.#queue.insert(record, false);
    this.#store([item]);
    return item.shown;
  }

  #remove(item: Item): void {
    this.#queue.remove(item);
    this.#unsaved.delete(item);
    const { conversation_id } = item.record;
    if (this.#queue.of(conversation_id).length === 0) this.#pace.forget(conversation_id);
    if (this.#queue.size === 0) this.#isCareful = false;
  }

  /** Nothing is sent before it is stored. What is put in within a turn is one write, which begins with its end. */
  #store(items: readonly Item[]): void {
    if (this.#unsaved.size === 0) queueMicrotask(() => void this.#save());
    for (const item of items) {
      item.isStored = false;
      this.#unsaved.add(item);
    }
  }

  async #save(): Promise<void> {
    const saved = [...this.#unsaved].map((item) => ({ item, record: item.record }));
    this.#unsaved.clear();
    if (saved.length === 0) return;
    await this.#ports.write(saved.map(({ record }) => ({ kind: "outbox", key: record.message_id, value: record })));
    for (const { item, record } of saved) {
      // It may have been taken back or changed meanwhile.
      if (this.#queue.get(record.message_id) !== item || item.record !== record) continue;
      item.isStored = true;
      this.#ports.tabs.tell({ type: "outbox", record });
    }
    this.flush();
  }

  // What other clients of the same storage left behind or do now

  /** Takes over what was stored, as far as nobody else is there to send it. */
  inherit(stored: ReadonlyMap<string, unknown>): void {
    const records = [...stored.values()] as OutboxRecord[];
    for (const record of records.sort((one, other) => (isBefore(one, other) ? -1 : 1))) {
      if (!this.#queue.get(record.message_id)) this.#queue.insert(record, true);
    }
    for (const owner of new Set(records.map((record) => record.owner))) {
      if (this.#ports.tabs.canWatch) this.#watch(owner);
      else void this.#adoptFrom(owner);
    }
  }

  #watch(owner: string): void {
    if (this.#ports.tabs.canWatch) this.#ports.tabs.whenGone(owner, () => void this.#adoptFrom(owner));
  }

  async #adoptFrom(owner: string): Promise<void> {
    if (this.#isStopped) return;
    const stored = await this.#ports.readStored();
    const adopted: Item[] = [];
    const records = [...stored.values()] as OutboxRecord[];
    // Nobody may have told of them.
    for (const record of records) if (record.owner === owner && !this.#queue.get(record.message_id)) this.#queue.insert(record, true);
    for (const item of this.#queue.all()) {
      if (item.record.owner !== owner) continue;
      const record = stored.get(item.record.message_id) as OutboxRecord | undefined;
      // Another client has seen it acknowledged, or was faster.
      if (!record) this.#remove(item);
      else if (record.owner !== owner) this.noteStored(record);
      else {
        item.isInherited = true;
        this.#queue.update(item, { ...record, owner: this.#ports.tabs.ownerId });
        adopted.push(item);
      }
    }
    this.#store(adopted);
  }

  /**
   * Another client has put something in, or changed it. Where two claim a message at once, the elder keeps it: both may send
   * it, which is harmless, but never nobody.
   */
  noteStored(record: OutboxRecord): void {
    const item = this.#queue.get(record.message_id);
    const { ownerId } = this.#ports.tabs;
    if (!item) this.#queue.insert(record, true);
    else if (!this.#queue.isFlying(item)) {
      const isKept = item.record.owner === ownerId && ownerId < record.owner;
      item.isInherited = true;
      item.isStored = true;
      this.#queue.update(item, isKept ? { ...record, owner: ownerId } : record);
      this.flush();
    }
    this.#watch(record.owner);
  }

  // Sending

  /** Sends what may be sent now. */
  flush(): void {
    const { isOnline, now, tabs } = this.#ports;
    if (this.#isStopped || !isOnline()) return;
    const now_ms = now();
    const limit = this.#isCareful ? 1 : IN_FLIGHT_LIMIT;
    const ready = this.#queue.ready(tabs.ownerId);
    const rests = ready.map(({ record }) => this.#pace.restLeft_ms(record.conversation_id, now_ms));
    const next = ready.filter((_, index) => rests[index] === 0).slice(0, Math.max(0, limit - this.#queue.flying.length));
    const first = next.filter(({ record }) => !record.attempted);
    if (first.length > 0) this.#noteAttempts(first);
    const waits_ms = rests.filter((rest_ms) => rest_ms > 0);
    for (const item of next) {
      if (!item.record.attempted || !item.isStored) continue;
      const gap_ms = this.#pace.gapLeft_ms(now_ms);
      if (gap_ms > 0) waits_ms.push(gap_ms);
      if (gap_ms > 0) break;
      if (!this.#send(item, now_ms)) return;
    }
    clearTimeout(this.#timer);
    if (waits_ms.length > 0) this.#timer = setTimeout(() => this.flush(), Math.ceil(waits_ms.reduce((one, other) => Math.min(one, other))));
  }

  /** After an attempt the message may exist, so it is noted before; for all that follow in the same conversations as well. */
  #noteAttempts(items: readonly Item[]): void {
    const following: Item[] = [];
    for (const { record } of items) {
      for (const item of this.#queue.of(record.conversation_id)) {
        if (item.record.owner !== this.#ports.tabs.ownerId || item.record.attempted || !item.isStored) continue;
        item.record = { ...item.record, attempted: true };
        following.push(item);
      }
    }
    this.#store(following);
  }

  #send(item: Item, now_ms: number): boolean {
    const { message_id, conversation_id, content, content_type, timestamp, after_seq } = item.record;
    const frame: SendFrame = { type: "send", message_id, conversation_id, content, content_type, timestamp };
    const isRetry = item.tries > 0 || item.isInherited;
    if (!this.#ports.send(isRetry ? { ...frame, retry: true, after_seq } : frame)) return false;
    this.#queue.takeOff(item, now_ms);
    this.#pace.sent(now_ms);
    this.#answerTimer ??= setTimeout(this.#missAnswers, ANSWER_WITHIN_MS);
    return true;
  }

  /** Messages under way without an answer may be a network that has gone deaf. */
  #missAnswers = (): void => {
    this.#answerTimer = undefined;
    if (this.#isStopped || this.#queue.flying.length === 0) return;
    const oldest_ms = this.#queue.flying.reduce((least_ms, { sentAt_ms }) => Math.min(least_ms, sentAt_ms), Number.POSITIVE_INFINITY);
    const left_ms = oldest_ms + ANSWER_WITHIN_MS - this.#ports.now();
    if (left_ms <= 0) this.#ports.probe(ANSWER_WITHIN_MS);
    this.#answerTimer = setTimeout(this.#missAnswers, left_ms <= 0 ? ANSWER_WITHIN_MS : left_ms);
  };

  /** The server has it. Returns the message in its place, if it waited here. */
  acknowledged(messageId: string, seq: number, received_at: number, receiver_id: string | null): StoredMessage | null {
    const item = this.#queue.get(messageId);
    if (!item) return null;
    this.#pace.acknowledged(item.record.conversation_id);
    const { waitingFor: _, ...shown } = item.shown;
    const message: StoredMessage = { ...shown, seq, received_at, receiver_id, state: "sent", failure: null };
    this.#settle([item], message);
    return message;
  }

  /** Messages that were read back from the server: another tab may have sent what waits here, or its ack was lost. */
  noteStoredByServer(messages: readonly StoredMessage[]): void {
    if (this.#queue.size === 0) return;
    for (const message of messages) {
      const item = message.sender_id === this.#ports.userId ? this.#queue.get(message.message_id) : undefined;
      if (item && item.record.conversation_id === message.conversation_id) this.#settle([item], message);
    }
  }

  #settle(items: readonly Item[], message: StoredMessage | null): void {
    for (const item of items) {
      this.#remove(item);
      const { message_id: messageId, conversation_id: conversationId } = item.record;
      this.#ports.tabs.tell({ type: "settled", messageId, conversationId, message });
    }
    const removed = items.map(({ record }) => ({ kind: "outbox" as const, key: record.message_id }));
    // To send again what the server has is harmless; to send what was taken back is not.
    if (message) removed.forEach((change) => this.#ports.writeLater(change));
    else void this.#ports.write(removed);
    this.flush();
  }

  /** Another client has seen it settled. */
  drop(messageId: string): void {
    const item = this.#queue.get(messageId);
    if (item) this.#remove(item);
  }

  // What goes wrong

  /** The server has refused something. Without an id it may be any that is under way. */
  refused(code: string, reason: string, messageId: string | null): void {
    const item = messageId === null ? undefined : this.#queue.get(messageId);
    if (item) {
      this.#queue.land([item]);
      if (NOTHING_STORED.has(code) || !isRetryable(code)) item.unanswered = Math.max(0, item.unanswered - 1);
      if (isRetryable(code)) this.#hold(item, code, reason);
      else this.#fail(item, reason);
      this.flush();
      return;
    }
    const suspects = this.#queue.flying;
    if (messageId !== null || suspects.length === 0) return;
    const [only] = suspects;
    if (only && suspects.length === 1 && !isRetryable(code)) {
      this.#fail(only, reason);
      this.flush();
      return;
    }
    // No ack may ever come: all go again, which is safe, and one by one it shows which it is.
    this.#isCareful = true;
    this.#queue.land(suspects);
    for (const suspect of suspects) this.#hold(suspect, code, reason);
    this.flush();
  }

  /** The connection ended. Those under way go again, except one too large for any connection. */
  lost(isFrameTooLarge: boolean): void {
    const suspects = this.#queue.flying;
    if (isFrameTooLarge && suspects.length > 0) {
      const largest = suspects.reduce((one, other) => (other.record.content.length > one.record.content.length ? other : one));
      this.#fail(largest, "This message is too large for the server.");
    }
    this.#queue.land(suspects);
    for (const item of this.#queue.all()) if (item.waitingFor !== null) this.#queue.setWaitingFor(item, null);
    clearTimeout(this.#timer);
    clearTimeout(this.#answerTimer);
    this.#answerTimer = undefined;
    this.#pace.clearRests();
  }

  #hold(item: Item, code: string, message: string): void {
    this.#pace.refused(item.record.conversation_id, item.sentAt_ms, this.#ports.now());
    this.#queue.setWaitingFor(item, { code, message });
  }

  #fail(item: Item, failure: string): void {
    this.#queue.land([item]);
    item.waitingFor = null;
    this.#queue.update(item, { failure });
    this.#store([item]);
  }

  /** The store went back to an earlier state: what is known of places in it no longer holds. */
  forgetPlaces(): void {
    const items = this.#queue.all().filter(({ record }) => record.owner === this.#ports.tabs.ownerId && record.after_seq > 0);
    for (const item of items) item.record = { ...item.record, after_seq: 0 };
    this.#store(items);
  }

  // What people decide

  retry(messageId: string): void {
    const item = this.#queue.get(messageId);
    if (!item || item.record.failure === null) return;
    this.#queue.update(item, { failure: null, owner: this.#ports.tabs.ownerId });
    this.#store([item]);
  }

  cancel(messageId: string): boolean {
    const item = this.#queue.get(messageId);
    if (!item) return false;
    const { failure, owner, attempted } = item.record;
    const isNotStored = owner === this.#ports.tabs.ownerId && item.unanswered === 0 && !(item.isInherited && attempted);
    if (failure === null && !isNotStored) return false;
    this.#settle([item], null);
    return true;
  }

  /** One is not in the conversation any more. */
  abandon(conversationId: string): void {
    const items = [...this.#queue.of(conversationId)];
    if (items.length === 0) return;
    this.#settle(items, null);
    const count = items.length === 1 ? "A message" : `${items.length} messages`;
    this.#ports.onTrouble(`${count} could not be sent: you are no longer in that conversation.`);
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#answerTimer);
  }
}
