// Typing and presence, which are never stored: typing ends after a timeout, and presence ends with
// the connection. Read states do not belong here.

import type { Changes } from "./changes.ts";
import type { ClientFrame } from "./generated.ts";
import type { Presence } from "./types.ts";

/** The minimum time between two typing frames of one conversation. */
const TYPING_INTERVAL_MS = 3_000;
/**
 * How long a typing frame counts. It must be longer than `TYPING_INTERVAL_MS`, or the indicator
 * flickers.
 */
const TYPING_SHOWN_MS = 5_000;
const NO_TYPISTS: readonly string[] = [];

/** The typing and presence state of one client. */
export class EphemeralState {
  #changes: Changes;
  #send: (frame: ClientFrame) => boolean;
  #now: () => number;
  /** By conversation and user, the timer that ends the typing state. */
  #typing = new Map<string, Map<string, ReturnType<typeof setTimeout>>>();
  #presence = new Map<string, Presence>();
  #typingSentAt = new Map<string, number>();

  constructor(changes: Changes, send: (frame: ClientFrame) => boolean, now: () => number) {
    this.#changes = changes;
    this.#send = send;
    this.#now = now;
  }

  sendTyping(conversationId: string): void {
    const now = this.#now();
    if (now - (this.#typingSentAt.get(conversationId) ?? -TYPING_INTERVAL_MS) < TYPING_INTERVAL_MS) return;
    if (this.#send({ type: "typing", conversation_id: conversationId })) this.#typingSentAt.set(conversationId, now);
  }

  typists(conversationId: string): readonly string[] {
    const typing = this.#typing.get(conversationId);
    return typing ? [...typing.keys()] : NO_TYPISTS;
  }

  noteTyping(conversationId: string, userId: string): void {
    this.stopTyping(conversationId, userId);
    const timer = setTimeout(() => this.stopTyping(conversationId, userId), TYPING_SHOWN_MS);
    const typing = this.#typing.get(conversationId) ?? new Map();
    this.#typing.set(conversationId, typing.set(userId, timer));
    this.#changes.addConversation(conversationId);
  }

  /** Ends a typing state, because its time is over or the message has arrived. */
  stopTyping(conversationId: string, userId: string): void {
    const typing = this.#typing.get(conversationId);
    const timer = typing?.get(userId);
    if (!typing || !timer) return;
    clearTimeout(timer);
    typing.delete(userId);
    if (typing.size === 0) this.#typing.delete(conversationId);
    this.#changes.addConversation(conversationId);
  }

  presence(userId: string): Presence | undefined {
    return this.#presence.get(userId);
  }

  /** Records a presence. Returns whether it changed. */
  notePresence({ user_id, online, last_seen_at }: Presence): boolean {
    const known = this.#presence.get(user_id);
    if (known?.online === online && known.last_seen_at === last_seen_at) return false;
    this.#presence.set(user_id, { user_id, online, last_seen_at });
    return true;
  }

  /** Clears everything, because the state is unknown without a connection. */
  clear(): void {
    for (const [conversationId, typing] of this.#typing) {
      for (const timer of typing.values()) clearTimeout(timer);
      this.#changes.addConversation(conversationId);
    }
    this.#typing.clear();
    this.#presence.clear();
    this.#typingSentAt.clear();
  }
}
