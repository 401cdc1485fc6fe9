// The messages of the outbox, their order, and how applications see them. When a message is sent
// and stored does not belong here; `outbox.ts` decides it.

import type { ConversationWaiting, MessageState, TimelineMessage, WaitingFor } from "./types.ts";

/** A message as it is stored. */
export interface OutboxRecord {
  readonly message_id: string;
  readonly conversation_id: string;
  readonly content: string;
  readonly content_type: string;
  readonly timestamp: number;
  /**
   * The head of the conversation when the message was written. On a late retry the server searches
   * for a duplicate from here on.
   */
  readonly after_seq: number;
  /** Whether the server may have the message. */
  readonly attempted: boolean;
  readonly failure: string | null;
  /** The client that sends it. */
  readonly owner: string;
  /** Its position in the order of all records. */
  readonly place: number;
}

/** A message of the outbox, with the state of its attempts. */
export interface OutboxItem {
  record: OutboxRecord;
  isStored: boolean;
  /** The number of attempts by this client. */
  tries: number;
  /** The number of attempts after which the server may have stored the message. */
  unanswered: number;
  sentAt_ms: number;
  /** Why the server refused it temporarily. */
  waitingFor: WaitingFor | null;
  /** It was read from the storage, so the results of earlier attempts are unknown. */
  isInherited: boolean;
  shown: TimelineMessage;
}

const NO_ITEMS: readonly OutboxItem[] = [];
const EMPTY_SUMMARY: ConversationWaiting = { queued: 0, failed: 0, last: null, waitingFor: null };

/** Whether a record comes before another one. */
export function isBefore(one: OutboxRecord, other: OutboxRecord): boolean {
  return one.place !== other.place ? one.place < other.place : one.message_id < other.message_id;
}

/** The queue of one client. */
export class OutboxQueue {
  #userId: string;
  #onChange: (conversationId: string) => void;
  #items = new Map<string, OutboxItem>();
  #byConversation = new Map<string, OutboxItem[]>();
  /** By conversation, the message in flight. */
  #inFlight = new Map<string, OutboxItem>();
  #lastPosition = 0;
  /** By conversation with queued messages, the number of its last attempt. */
  #lastAttempt = new Map<string, number>();
  #attempts = 0;
  #summaries = new Map<string, ConversationWaiting>();

  constructor(userId: string, onChange: (conversationId: string) => void) {
    this.#userId = userId;
    this.#onChange = (conversationId) => {
      this.#summaries.delete(conversationId);
      onChange(conversationId);
    };
  }

  get size(): number {
    return this.#items.size;
  }

  get(messageId: string): OutboxItem | undefined {
    return this.#items.get(messageId);
  }

  all(): OutboxItem[] {
    return [...this.#items.values()];
  }

  of(conversationId: string): readonly OutboxItem[] {
    return this.#byConversation.get(conversationId) ?? NO_ITEMS;
  }

  /** The summary of a conversation. It stays the same object until its content changes. */
  summary(conversationId: string): ConversationWaiting {
    const known = this.#summaries.get(conversationId);
    const items = this.of(conversationId);
    if (known || items.length === 0) return known ?? EMPTY_SUMMARY;
    const failed = items.filter(({ record }) => record.failure !== null).length;
    const waitingFor = items.find((item) => item.waitingFor !== null)?.waitingFor ?? null;
    const summary = { queued: items.length - failed, failed, last: items.at(-1)?.shown ?? null, waitingFor };
    this.#summaries.set(conversationId, summary);
    return summary;
  }

  /** Returns a position after all records, even if the clock was set back. */
  nextPosition(now_ms: number): number {
    return Math.max(this.#lastPosition + 1, now_ms);
  }

  insert(record: OutboxRecord, isInherited: boolean): OutboxItem {
    const initial = { tries: 0, unanswered: 0, sentAt_ms: 0, waitingFor: null };
    const item: OutboxItem = { record, isStored: isInherited, isInherited, ...initial, shown: this.#show(record, null) };
    this.#items.set(record.message_id, item);
    const queue = this.#byConversation.get(record.conversation_id) ?? [];
    this.#byConversation.set(record.conversation_id, queue);
    let at = queue.length;
    while (at > 0 && isBefore(record, (queue[at - 1] as OutboxItem).record)) at -= 1;
    queue.splice(at, 0, item);
    this.#lastPosition = Math.max(this.#lastPosition, record.place);
    this.#onChange(record.conversation_id);
    return item;
  }

  remove(item: OutboxItem): void {
    const { message_id, conversation_id } = item.record;
    this.#items.delete(message_id);
    if (this.isInFlight(item)) this.#inFlight.delete(conversation_id);
    const queue = this.#byConversation.get(conversation_id) ?? [];
    queue.splice(queue.indexOf(item), 1);
    if (queue.length === 0) {
      this.#byConversation.delete(conversation_id);
      this.#lastAttempt.delete(conversation_id);
    }
    this.#onChange(conversation_id);
  }

  update(item: OutboxItem, facts: Partial<OutboxRecord>): void {
    item.record = { ...item.record, ...facts };
    this.#changed(item);
  }

  /**
   * Returns the first sendable message of each conversation without a message in flight. The
   * conversation with the oldest attempt comes first, so a long queue does not delay other
   * conversations.
   */
  ready(ownerId: string): OutboxItem[] {
    const ready: OutboxItem[] = [];
    for (const [conversationId, queue] of this.#byConversation) {
      if (this.#inFlight.has(conversationId)) continue;
      const first = queue.find(({ record }) => record.owner === ownerId && record.failure === null);
      if (first?.isStored) ready.push(first);
    }
    const lastAttempt = ({ record }: OutboxItem): number => this.#lastAttempt.get(record.conversation_id) ?? 0;
    return ready.sort((one, other) => lastAttempt(one) - lastAttempt(other) || (isBefore(one.record, other.record) ? -1 : 1));
  }

  get inFlight(): OutboxItem[] {
    return [...this.#inFlight.values()];
  }

  isInFlight(item: OutboxItem): boolean {
    return this.#inFlight.get(item.record.conversation_id) === item;
  }

  /** Marks a message as in flight. */
  startAttempt(item: OutboxItem, now_ms: number): void {
    item.tries += 1;
    item.unanswered += 1;
    item.sentAt_ms = now_ms;
    this.#lastAttempt.set(item.record.conversation_id, (this.#attempts += 1));
    this.#inFlight.set(item.record.conversation_id, item);
    this.#changed(item);
  }

  /** Marks messages as no longer in flight. */
  endAttempts(items: readonly OutboxItem[]): void {
    for (const item of items) {
      if (this.isInFlight(item)) this.#inFlight.delete(item.record.conversation_id);
      this.#changed(item);
    }
  }

  setWaitingFor(item: OutboxItem, waitingFor: WaitingFor | null): void {
    item.waitingFor = waitingFor;
    this.#changed(item);
  }

  #changed(item: OutboxItem): void {
    item.shown = this.#show(item.record, item.waitingFor);
    this.#onChange(item.record.conversation_id);
  }

  #show({ message_id, conversation_id, content, content_type, timestamp, failure }: OutboxRecord, waitingFor: WaitingFor | null): TimelineMessage {
    const isInFlight = this.#inFlight.get(conversation_id)?.record.message_id === message_id;
    const state: MessageState = failure !== null ? "failed" : isInFlight ? "sending" : "queued";
    const message = { message_id, conversation_id, content, content_type, timestamp, state, failure, waitingFor };
    return { ...message, sender_id: this.#userId, receiver_id: null, seq: null, received_at: null };
  }
}
