// Decides which pushed messages become `message` events. Missed messages arrive on the same
// connection, and an inbox entry can arrive before, with or after its messages. In every order, new
// messages are announced once and history is not. Unread counts do not belong here.

import { absenceOf, isVoid } from "./conversation-state.ts";
import type { ConversationStates } from "./conversation-states.ts";
import type { StoredMessage } from "./timeline.ts";

/** The callbacks by which the notifier uses the client. */
export interface MessageNotifierPorts {
  readonly userId: string;
  readonly states: ConversationStates;
  isCaughtUp(): boolean;
  notify(message: StoredMessage): void;
}

/** The notifier of one client. */
export class MessageNotifier {
  #ports: MessageNotifierPorts;
  /** When the connection opened, by the server's clock. */
  #connectedAt_ms = Number.POSITIVE_INFINITY;
  /**
   * Messages of conversations whose entry has not arrived. The application needs the entry to see
   * whether the conversation is muted.
   */
  #pending = new Map<string, StoredMessage[]>();

  constructor(ports: MessageNotifierPorts) {
    this.#ports = ports;
  }

  connected(serverTime_ms: number): void {
    this.#connectedAt_ms = serverTime_ms;
  }

  /**
   * Handles a pushed message. During the catch-up, a message that the server received after the
   * connection opened counts as new.
   */
  messagePushed(message: StoredMessage): void {
    const { userId, states, isCaughtUp, notify } = this.#ports;
    const { conversation_id, sender_id, content_type, received_at } = message;
    const isByPerson = sender_id !== userId && content_type !== "system" && !isVoid(message) && absenceOf(message) === null;
    if (!isByPerson || (!isCaughtUp() && received_at < this.#connectedAt_ms)) return;
    if (states.known(conversation_id)?.entry) notify(message);
    else this.#pending.set(conversation_id, [...(this.#pending.get(conversation_id) ?? []), message]);
  }

  /** Announces the messages that waited for this entry. */
  entryKnown(conversationId: string): void {
    const messages = this.#pending.get(conversationId);
    this.#pending.delete(conversationId);
    for (const message of messages ?? []) this.#ports.notify(message);
  }

  forget(conversationId: string): void {
    this.#pending.delete(conversationId);
  }
}
