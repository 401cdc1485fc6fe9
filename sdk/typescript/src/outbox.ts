// Sends messages and retries them until the server acknowledges them. A message is stored before
// the first attempt and keeps its message_id, so that the server stores it once. Each conversation
// has one message in flight, so no message overtakes a refused one. Read states do not belong here.

import { BluetickError, isRetryable } from "./errors.ts";
import type { ClientFrame, SendFrame } from "./generated.ts";
import { newMessageId } from "./message-id.ts";
import { SendRate } from "./send-rate.ts";
import { isBefore, OutboxQueue } from "./outbox-queue.ts";
import type { OutboxItem, OutboxRecord } from "./outbox-queue.ts";
import type { StorageChange } from "./storage/storage.ts";
import type { Tabs } from "./tabs.ts";
import type { ConversationState } from "./conversation-state.ts";
import type { StoredMessage } from "./timeline.ts";
import type { ConversationWaiting, TimelineMessage } from "./types.ts";

/** Upper bound on the messages in the outbox. Beyond it, `add` throws `outbox_full`. */
const LIMIT = 1_000;
/** Upper bound on the messages in flight. By default, the server queues at most 256. */
const IN_FLIGHT_LIMIT = 64;
/** A message without an answer for this long makes the outbox probe the connection. */
const ANSWER_WITHIN_MS = 5_000;
/**
 * Temporary errors after which the server has certainly not stored the message. `store_unavailable`
 * is not one of them: the store may have written the message and failed to answer.
 */
const NOTHING_STORED: ReadonlySet<string> = new Set(["rate_limited", "overloaded", "draining"]);

/** The callbacks by which the outbox uses the client. */
export interface OutboxPorts {
  readonly userId: string;
  readonly tabs: Tabs;
  readonly random: () => number;
  readonly now: () => number;
  write(changes: readonly StorageChange[]): Promise<void>;
  writeLater(change: StorageChange): void;
  readStored(): Promise<Map<string, unknown>>;
  /** Returns false if there is no connection. */
  send(frame: ClientFrame): boolean;
  isOnline(): boolean;
  /** Drops the connection unless the server answers within this time. */
  probe(within_ms: number): void;
  /** Called when the messages of a conversation change. */
  onChange(conversationId: string): void;
  onTrouble(text: string): void;
}

/** The outbox of one client. */
export class Outbox {
  #ports: OutboxPorts;
  #queue: OutboxQueue;
  #rate: SendRate;
  #unsaved = new Set<OutboxItem>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #answerTimer: ReturnType<typeof setTimeout> | undefined;
  /** Set after an error without a message id: one message at a time, until the outbox is empty. */
  #isOneAtATime = false;
  #isStopped = false;

  constructor(ports: OutboxPorts) {
    this.#ports = ports;
    this.#queue = new OutboxQueue(ports.userId, ports.onChange);
    this.#rate = new SendRate(ports.random);
  }

  // View

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

  // Adding and removing

  add(state: ConversationState, text: string, contentType: string): TimelineMessage {
    const { now, tabs, isOnline } = this.#ports;
    if (typeof text !== "string" || text === "") throw new BluetickError("invalid_request", "The message has no text.");
    // UTF-8 cannot encode half of a surrogate pair.
    const content = text.replace(/\p{Surrogate}/gu, "\ufffd");
    if (this.#queue.size >= LIMIT) throw new BluetickError("outbox_full", "Too many messages are waiting to be sent.");
    const timestamp = Math.floor(now());
    const record: OutboxRecord = {
      message_id: newMessageId(timestamp),
      conversation_id: state.id,
      content,
      content_type: contentType,
      timestamp,
      after_seq: state.headSeq,
      // While online, the first attempt follows at once, so one write is enough for both.
      attempted: isOnline(),
      failure: null,
      owner: tabs.ownerId,
      place: this.#queue.nextPosition(timestamp),
    };
    const item = this.#queue.insert(record, false);
    this.#store([item]);
    return item.shown;
  }

  #remove(item: OutboxItem): void {
    this.#queue.remove(item);
    this.#unsaved.delete(item);
    const { conversation_id } = item.record;
    if (this.#queue.of(conversation_id).length === 0) this.#rate.forget(conversation_id);
    if (this.#queue.size === 0) this.#isOneAtATime = false;
  }

  /**
   * Stores items before they are sent. All items of one turn are one write, which starts at the end
   * of the turn.
   */
  #store(items: readonly OutboxItem[]): void {
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
      // The item was removed or changed during the write.
      if (this.#queue.get(record.message_id) !== item || item.record !== record) continue;
      item.isStored = true;
      this.#ports.tabs.publish({ type: "outbox", record });
    }
    this.flush();
  }

  // Other clients of the same storage

  /** Restores stored messages, and takes over those of clients that have ended. */
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
    const adopted: OutboxItem[] = [];
    const records = [...stored.values()] as OutboxRecord[];
    // The owner may have ended before it announced them.
    for (const record of records) if (record.owner === owner && !this.#queue.get(record.message_id)) this.#queue.insert(record, true);
    for (const item of this.#queue.all()) {
      if (item.record.owner !== owner) continue;
      const record = stored.get(item.record.message_id) as OutboxRecord | undefined;
      // Another client removed the record, or took it over first.
      if (!record) this.#remove(item);
      else if (record.owner !== owner) this.applyRecord(record);
      else {
        item.isInherited = true;
        this.#queue.update(item, { ...record, owner: this.#ports.tabs.ownerId });
        adopted.push(item);
      }
    }
    this.#store(adopted);
  }

  /**
   * Applies a record that another client stored. If two clients claim a message at once, the older
   * client keeps it. Both may send it, which is harmless because the server stores it once.
   */
  applyRecord(record: OutboxRecord): void {
    const item = this.#queue.get(record.message_id);
    const { ownerId } = this.#ports.tabs;
    if (!item) this.#queue.insert(record, true);
    else if (!this.#queue.isInFlight(item)) {
      const isKept = item.record.owner === ownerId && ownerId < record.owner;
      item.isInherited = true;
      item.isStored = true;
      this.#queue.update(item, isKept ? { ...record, owner: ownerId } : record);
      this.flush();
    }
    this.#watch(record.owner);
  }

  // Sending

  /** Sends every message that may be sent now. */
  flush(): void {
    const { isOnline, now, tabs } = this.#ports;
    if (this.#isStopped || !isOnline()) return;
    const now_ms = now();
    const limit = this.#isOneAtATime ? 1 : IN_FLIGHT_LIMIT;
    const ready = this.#queue.ready(tabs.ownerId);
    const pauses = ready.map(({ record }) => this.#rate.pauseLeft_ms(record.conversation_id, now_ms));
    const next = ready.filter((_, index) => pauses[index] === 0).slice(0, Math.max(0, limit - this.#queue.inFlight.length));
    const first = next.filter(({ record }) => !record.attempted);
    if (first.length > 0) this.#noteAttempts(first);
    const waits_ms = pauses.filter((pause_ms) => pause_ms > 0);
    for (const item of next) {
      if (!item.record.attempted || !item.isStored) continue;
      const interval_ms = this.#rate.intervalLeft_ms(now_ms);
      if (interval_ms > 0) waits_ms.push(interval_ms);
      if (interval_ms > 0) break;
      if (!this.#send(item, now_ms)) return;
    }
    clearTimeout(this.#timer);
    if (waits_ms.length > 0) this.#timer = setTimeout(() => this.flush(), Math.ceil(waits_ms.reduce((one, other) => Math.min(one, other))));
  }

  /**
   * Stores that an attempt starts, because the server may have the message from then on. Includes
   * the queued messages of the same conversations, to save later writes.
   */
  #noteAttempts(items: readonly OutboxItem[]): void {
    const following: OutboxItem[] = [];
    for (const { record } of items) {
      for (const item of this.#queue.of(record.conversation_id)) {
        if (item.record.owner !== this.#ports.tabs.ownerId || item.record.attempted || !item.isStored) continue;
        item.record = { ...item.record, attempted: true };
        following.push(item);
      }
    }
    this.#store(following);
  }

  #send(item: OutboxItem, now_ms: number): boolean {
    const { message_id, conversation_id, content, content_type, timestamp, after_seq } = item.record;
    const frame: SendFrame = { type: "send", message_id, conversation_id, content, content_type, timestamp };
    const isRetry = item.tries > 0 || item.isInherited;
    if (!this.#ports.send(isRetry ? { ...frame, retry: true, after_seq } : frame)) return false;
    this.#queue.startAttempt(item, now_ms);
    this.#rate.sent(now_ms);
    this.#answerTimer ??= setTimeout(this.#checkAnswers, ANSWER_WITHIN_MS);
    return true;
  }

  /** Probes the connection if a message has no answer for too long. */
  #checkAnswers = (): void => {
    this.#answerTimer = undefined;
    if (this.#isStopped || this.#queue.inFlight.length === 0) return;
    const oldest_ms = this.#queue.inFlight.reduce((least_ms, { sentAt_ms }) => Math.min(least_ms, sentAt_ms), Number.POSITIVE_INFINITY);
    const left_ms = oldest_ms + ANSWER_WITHIN_MS - this.#ports.now();
    if (left_ms <= 0) this.#ports.probe(ANSWER_WITHIN_MS);
    this.#answerTimer = setTimeout(this.#checkAnswers, left_ms <= 0 ? ANSWER_WITHIN_MS : left_ms);
  };

  /**
   * Removes a message that the server has stored. Returns it with its seq, or null if it is not in
   * the outbox.
   */
  acknowledged(messageId: string, seq: number, received_at: number, receiver_id: string | null): StoredMessage | null {
    const item = this.#queue.get(messageId);
    if (!item) return null;
    this.#rate.acknowledged(item.record.conversation_id);
    const { waitingFor: _, ...shown } = item.shown;
    const message: StoredMessage = { ...shown, seq, received_at, receiver_id, state: "sent", failure: null };
    this.#settle([item], message);
    return message;
  }

  /**
   * Removes messages that were read back from the server. Another tab may have sent them, or the
   * ack was lost.
   */
  noteStoredByServer(messages: readonly StoredMessage[]): void {
    if (this.#queue.size === 0) return;
    for (const message of messages) {
      const item = message.sender_id === this.#ports.userId ? this.#queue.get(message.message_id) : undefined;
      if (item && item.record.conversation_id === message.conversation_id) this.#settle([item], message);
    }
  }

  #settle(items: readonly OutboxItem[], message: StoredMessage | null): void {
    for (const item of items) {
      this.#remove(item);
      const { message_id: messageId, conversation_id: conversationId } = item.record;
      this.#ports.tabs.publish({ type: "settled", messageId, conversationId, message });
    }
    const removed = items.map(({ record }) => ({ kind: "outbox" as const, key: record.message_id }));
    // Deleting a sent message can wait: a second attempt is harmless. Deleting a cancelled message
    // cannot: it must never be sent.
    if (message) removed.forEach((change) => this.#ports.writeLater(change));
    else void this.#ports.write(removed);
    this.flush();
  }

  /** Removes a message that another client has settled. */
  drop(messageId: string): void {
    const item = this.#queue.get(messageId);
    if (item) this.#remove(item);
  }

  // Failures

  /** Handles an error frame. Without a message id, it can be about any message in flight. */
  refused(code: string, reason: string, messageId: string | null): void {
    const item = messageId === null ? undefined : this.#queue.get(messageId);
    if (item) {
      this.#queue.endAttempts([item]);
      if (NOTHING_STORED.has(code) || !isRetryable(code)) item.unanswered = Math.max(0, item.unanswered - 1);
      if (isRetryable(code)) this.#hold(item, code, reason);
      else this.#fail(item, reason);
      this.flush();
      return;
    }
    const suspects = this.#queue.inFlight;
    if (messageId !== null || suspects.length === 0) return;
    const [only] = suspects;
    if (only && suspects.length === 1 && !isRetryable(code)) {
      this.#fail(only, reason);
      this.flush();
      return;
    }
    // The server may never acknowledge any of them. Send them again one at a time, which is safe,
    // until the error repeats for one message.
    this.#isOneAtATime = true;
    this.#queue.endAttempts(suspects);
    for (const suspect of suspects) this.#hold(suspect, code, reason);
    this.flush();
  }

  /**
   * Handles the end of the connection. The messages in flight are sent again, except one that is
   * too large for a frame.
   */
  disconnected(isFrameTooLarge: boolean): void {
    const suspects = this.#queue.inFlight;
    if (isFrameTooLarge && suspects.length > 0) {
      const largest = suspects.reduce((one, other) => (other.record.content.length > one.record.content.length ? other : one));
      this.#fail(largest, "This message is too large for the server.");
    }
    this.#queue.endAttempts(suspects);
    for (const item of this.#queue.all()) if (item.waitingFor !== null) this.#queue.setWaitingFor(item, null);
    clearTimeout(this.#timer);
    clearTimeout(this.#answerTimer);
    this.#answerTimer = undefined;
    this.#rate.clearPauses();
  }

  #hold(item: OutboxItem, code: string, message: string): void {
    this.#rate.refused(item.record.conversation_id, item.sentAt_ms, this.#ports.now());
    this.#queue.setWaitingFor(item, { code, message });
  }

  #fail(item: OutboxItem, failure: string): void {
    this.#queue.endAttempts([item]);
    item.waitingFor = null;
    this.#queue.update(item, { failure });
    this.#store([item]);
  }

  /** Clears the stored heads after the server's store was restored to an earlier state. */
  resetAfterSeqs(): void {
    const items = this.#queue.all().filter(({ record }) => record.owner === this.#ports.tabs.ownerId && record.after_seq > 0);
    for (const item of items) item.record = { ...item.record, after_seq: 0 };
    this.#store(items);
  }

  // Decisions of the user

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

  /** Removes the messages of a conversation that the user has left. */
  abandon(conversationId: string): void {
    const items = [...this.#queue.of(conversationId)];
    if (items.length === 0) return;
    this.#settle(items, null);
    const count = items.length === 1 ? "A message" : `${items.length} messages`;
    this.#ports.onTrouble(`${count} could not be sent: you are no longer in the conversation.`);
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#answerTimer);
  }
}
