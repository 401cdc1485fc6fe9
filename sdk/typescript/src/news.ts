// Which messages are told of as just written. What a device missed comes over the same connection, and the line of a
// conversation may come before a message, with it, or after it: none of that makes news silent, or history loud.

import { absenceOf, isVoid } from "./thread.ts";
import type { Threads } from "./threads.ts";
import type { StoredMessage } from "./timeline.ts";

export interface NewsPorts {
  readonly userId: string;
  readonly threads: Threads;
  isCaughtUp(): boolean;
  tell(message: StoredMessage): void;
}

export class News {
  #ports: NewsPorts;
  /** Since when the connection stands, by the server's clock. */
  #since_ms = Number.POSITIVE_INFINITY;
  /** Of conversations whose line is still on its way: it says whether anybody wants to be told. */
  #waiting = new Map<string, StoredMessage[]>();

  constructor(ports: NewsPorts) {
    this.#ports = ports;
  }

  welcome(serverTime_ms: number): void {
    this.#since_ms = serverTime_ms;
  }

  /** A message was pushed. While the backlog comes in, conversations that miss nothing are live already. */
  pushed(message: StoredMessage): void {
    const { userId, threads, isCaughtUp, tell } = this.#ports;
    const { conversation_id, sender_id, content_type, received_at } = message;
    const isByPerson = sender_id !== userId && content_type !== "system" && !isVoid(message) && absenceOf(message) === null;
    if (!isByPerson || (!isCaughtUp() && received_at < this.#since_ms)) return;
    if (threads.known(conversation_id)?.entry) tell(message);
    else this.#waiting.set(conversation_id, [...(this.#waiting.get(conversation_id) ?? []), message]);
  }

  /** The line of a conversation is here. */
  learned(conversationId: string): void {
    const messages = this.#waiting.get(conversationId);
    this.#waiting.delete(conversationId);
    for (const message of messages ?? []) this.#ports.tell(message);
  }

  forget(conversationId: string): void {
    this.#waiting.delete(conversationId);
  }
}
