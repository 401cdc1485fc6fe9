// Reports to the server what this device has and what the user has read. Receipts of a short period
// are sent together, and again after a reconnect until the server knows them. The read states do
// not belong here; `conversation-state.ts` has them.

import type { Api } from "./api.ts";
import type { ClientFrame } from "./generated.ts";
import type { ConversationState } from "./conversation-state.ts";
import type { ConversationStates } from "./conversation-states.ts";

/** How long receipts are collected before they are sent. A longer time delays ticks. */
const SEND_AFTER_MS = 50;

/** The callbacks by which the sender uses the client. */
export interface ReceiptHandlers {
  send(frame: ClientFrame): boolean;
  /** The server confirmed a read receipt over HTTP, so its unread count is up to date. */
  onReadReported(conversationId: string): void;
  /** The delivered seq in an entry changed. */
  onDelivered(state: ConversationState): void;
}

/** The receipts of one client. */
export class ReceiptSender {
  #states: ConversationStates;
  #api: Api;
  #handlers: ReceiptHandlers;
  #waiting = new Map<string, "delivered" | "read">();
  /** Conversations whose unread count only the server knows. */
  #unreadUnknown = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(states: ConversationStates, api: Api, handlers: ReceiptHandlers) {
    this.#states = states;
    this.#api = api;
    this.#handlers = handlers;
  }

  add(conversationId: string, kind: "delivered" | "read" = "delivered", isUnreadUnknown = false): void {
    if (this.#waiting.get(conversationId) !== "read") this.#waiting.set(conversationId, kind);
    if (isUnreadUnknown) this.#unreadUnknown.add(conversationId);
    this.#timer ??= setTimeout(() => this.flush(), SEND_AFTER_MS);
  }

  flush(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    for (const [conversationId, kind] of this.#waiting) {
      // Without a connection, the receipts wait for the next one.
      if (!this.#send(conversationId, kind)) return;
      this.#waiting.delete(conversationId);
    }
  }

  #send(conversation_id: string, kind: "delivered" | "read"): boolean {
    const state = this.#states.known(conversation_id);
    if (!state) return true;
    const haveSeq = state.haveSeq ?? 0;
    const read = kind === "read" ? (state.entry?.my_status.last_read_seq ?? 0) : 0;
    const { send, onDelivered } = this.#handlers;
    if (read > 0 && !send({ type: "read", conversation_id, seq: read })) return false;
    if (haveSeq > read && !send({ type: "delivered", conversation_id, seq: haveSeq })) return false;
    if (state.noteDelivered(haveSeq)) onDelivered(state);
    // The server does not answer a frame, but it answers a call. The unread count is right only
    // after the answer.
    if (this.#unreadUnknown.delete(conversation_id)) void this.#reportRead(conversation_id, read);
    return true;
  }

  async #reportRead(conversationId: string, seq: number): Promise<void> {
    try {
      await this.#api.markRead(conversationId, seq);
      this.#handlers.onReadReported(conversationId);
    } catch {
      // The frame reports the same receipt. The next load of the inbox brings the unread count.
    }
  }

  forget(conversationId: string): void {
    this.#waiting.delete(conversationId);
    this.#unreadUnknown.delete(conversationId);
  }

  clear(): void {
    this.#waiting.clear();
    this.#unreadUnknown.clear();
  }

  stop(): void {
    if (this.#timer) clearTimeout(this.#timer);
  }
}
