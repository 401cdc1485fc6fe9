// What waits to be sent, in order, and how it is shown. When it is sent and stored is the outbox's business.

import type { ConversationWaiting, MessageState, TimelineMessage, WaitingFor } from "./types.ts";

/** As it is stored. */
export interface OutboxRecord {
  readonly message_id: string;
  readonly conversation_id: string;
  readonly content: string;
  readonly content_type: string;
  readonly timestamp: number;
  /** Where the conversation stood: on a late retry the server searches for a duplicate from there. */
  readonly after_seq: number;
  /** The server may have it. */
  readonly attempted: boolean;
  readonly failure: string | null;
  /** The client that sends it. */
  readonly owner: string;
  /** Its place among all that wait. */
  readonly place: number;
}

export interface Item {
  record: OutboxRecord;
  isStored: boolean;
  /** Attempts by this client. */
  tries: number;
  /** Attempts of which it is not known whether the server has stored the message. */
  unanswered: number;
  sentAt_ms: number;
  /** Why it was refused for the moment. */
  waitingFor: WaitingFor | null;
  /** It came from the storage, so what became of earlier attempts is not known. */
  isInherited: boolean;
  shown: TimelineMessage;
}

const NOTHING: readonly Item[] = [];
const NOTHING_WAITS: ConversationWaiting = { queued: 0, failed: 0, last: null, waitingFor: null };

export function isBefore(one: OutboxRecord, other: OutboxRecord): boolean {
  return one.place !== other.place ? one.place < other.place : one.message_id < other.message_id;
}

export class Queue {
  #userId: string;
  #onChange: (conversationId: string) => void;
  #items = new Map<string, Item>();
  #byConversation = new Map<string, Item[]>();
  /** By conversation, the one that is under way. */
  #flying = new Map<string, Item>();
  #lastPlace = 0;
  /** By conversation, while something waits there: the turn in which it was last served. */
  #servedIn = new Map<string, number>();
  #turns = 0;
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

  get(messageId: string): Item | undefined {
    return this.#items.get(messageId);
  }

  all(): Item[] {
    return [...this.#items.values()];
  }

  of(conversationId: string): readonly Item[] {
    return this.#byConversation.get(conversationId) ?? NOTHING;
  }

  /** The same object until something about it changed. */
  summary(conversationId: string): ConversationWaiting {
    const known = this.#summaries.get(conversationId);
    const items = this.of(conversationId);
    if (known || items.length === 0) return known ?? NOTHING_WAITS;
    const failed = items.filter(({ record }) => record.failure !== null).length;
    const waitingFor = items.find((item) => item.waitingFor !== null)?.waitingFor ?? null;
    const summary = { queued: items.length - failed, failed, last: items.at(-1)?.shown ?? null, waitingFor };
    this.#summaries.set(conversationId, summary);
    return summary;
  }

  /** After all others, also when the clock was set back. */
  nextPlace(now_ms: number): number {
    return Math.max(this.#lastPlace + 1, now_ms);
  }

  insert(record: OutboxRecord, isInherited: boolean): Item {
    const begin = { tries: 0, unanswered: 0, sentAt_ms: 0, waitingFor: null };
    const item: Item = { record, isStored: isInherited, isInherited, ...begin, shown: this.#show(record, null) };
    this.#items.set(record.message_id, item);
    const queue = this.#byConversation.get(record.conversation_id) ?? [];
    this.#byConversation.set(record.conversation_id, queue);
    let at = queue.length;
    while (at > 0 && isBefore(record, (queue[at - 1] as Item).record)) at -= 1;
    queue.splice(at, 0, item);
    this.#lastPlace = Math.max(this.#lastPlace, record.place);
    this.#onChange(record.conversation_id);
    return item;
  }

  remove(item: Item): void {
    const { message_id, conversation_id } = item.record;
    this.#items.delete(message_id);
    if (this.isFlying(item)) this.#flying.delete(conversation_id);
    const queue = this.#byConversation.get(conversation_id) ?? [];
    queue.splice(queue.indexOf(item), 1);
    if (queue.length === 0) {
      this.#byConversation.delete(conversation_id);
      this.#servedIn.delete(conversation_id);
    }
    this.#onChange(conversation_id);
  }

  update(item: Item, facts: Partial<OutboxRecord>): void {
    item.record = { ...item.record, ...facts };
    this.#changed(item);
  }

  /**
   * The first of each conversation that this client may send and where none is under way. The conversation that was served
   * longest ago comes first, so that many messages in one do not keep a few in another waiting.
   */
  ready(ownerId: string): Item[] {
    const ready: Item[] = [];
    for (const [conversationId, queue] of this.#byConversation) {
      if (this.#flying.has(conversationId)) continue;
      const first = queue.find(({ record }) => record.owner === ownerId && record.failure === null);
      if (first?.isStored) ready.push(first);
    }
    const served = ({ record }: Item): number => this.#servedIn.get(record.conversation_id) ?? 0;
    return ready.sort((one, other) => served(one) - served(other) || (isBefore(one.record, other.record) ? -1 : 1));
  }

  get flying(): Item[] {
    return [...this.#flying.values()];
  }

  isFlying(item: Item): boolean {
    return this.#flying.get(item.record.conversation_id) === item;
  }

  takeOff(item: Item, now_ms: number): void {
    item.tries += 1;
    item.unanswered += 1;
    item.sentAt_ms = now_ms;
    this.#servedIn.set(item.record.conversation_id, (this.#turns += 1));
    this.#flying.set(item.record.conversation_id, item);
    this.#changed(item);
  }

  /** Not under way any more. */
  land(items: readonly Item[]): void {
    for (const item of items) {
      if (this.isFlying(item)) this.#flying.delete(item.record.conversation_id);
      this.#changed(item);
    }
  }

  setWaitingFor(item: Item, waitingFor: WaitingFor | null): void {
    item.waitingFor = waitingFor;
    this.#changed(item);
  }

  #changed(item: Item): void {
    item.shown = this.#show(item.record, item.waitingFor);
    this.#onChange(item.record.conversation_id);
  }

  #show({ message_id, conversation_id, content, content_type, timestamp, failure }: OutboxRecord, waitingFor: WaitingFor | null): TimelineMessage {
    const isFlying = this.#flying.get(conversation_id)?.record.message_id === message_id;
    const state: MessageState = failure !== null ? "failed" : isFlying ? "sending" : "queued";
    const message = { message_id, conversation_id, content, content_type, timestamp, state, failure, waitingFor };
    return { ...message, sender_id: this.#userId, receiver_id: null, seq: null, received_at: null };
  }
}
