// What waits to be sent, in order, and how it is shown. When it is sent and stored is the outbox's business.

import type { MessageState, TimelineMessage } from "./types.ts";

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
  /** It came from the storage, so what became of earlier attempts is not known. */
  isInherited: boolean;
  shown: TimelineMessage;
}

const NOTHING: readonly Item[] = [];

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

  constructor(userId: string, onChange: (conversationId: string) => void) {
    this.#userId = userId;
    this.#onChange = onChange;
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

  /** After all others, also when the clock was set back. */
  nextPlace(now_ms: number): number {
    return Math.max(this.#lastPlace + 1, now_ms);
  }

  insert(record: OutboxRecord, isInherited: boolean): Item {
    const item: Item = { record, isStored: isInherited, tries: 0, isInherited, shown: this.#show(record) };
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
    if (queue.length === 0) this.#byConversation.delete(conversation_id);
    this.#onChange(conversation_id);
  }

  update(item: Item, facts: Partial<OutboxRecord>): void {
    item.record = { ...item.record, ...facts };
    this.#changed(item);
  }

  /** The first of each conversation that this client may send and where none is under way, oldest first. */
  ready(ownerId: string): Item[] {
    const ready: Item[] = [];
    for (const [conversationId, queue] of this.#byConversation) {
      if (this.#flying.has(conversationId)) continue;
      const first = queue.find(({ record }) => record.owner === ownerId && record.failure === null);
      if (first?.isStored) ready.push(first);
    }
    return ready.sort((one, other) => (isBefore(one.record, other.record) ? -1 : 1));
  }

  get flying(): Item[] {
    return [...this.#flying.values()];
  }

  isFlying(item: Item): boolean {
    return this.#flying.get(item.record.conversation_id) === item;
  }

  takeOff(item: Item): void {
    item.tries += 1;
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

  #changed(item: Item): void {
    item.shown = this.#show(item.record);
    this.#onChange(item.record.conversation_id);
  }

  #show({ message_id, conversation_id, content, content_type, timestamp, failure }: OutboxRecord): TimelineMessage {
    const isFlying = this.#flying.get(conversation_id)?.record.message_id === message_id;
    const state: MessageState = failure !== null ? "failed" : isFlying ? "sending" : "queued";
    const message = { message_id, conversation_id, content, content_type, timestamp, state, failure };
    return { ...message, sender_id: this.#userId, receiver_id: null, seq: null, received_at: null };
  }
}
