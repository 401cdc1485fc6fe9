// Who is typing and who is there. None of it is stored; it fades by itself.

import type { Changes } from "./changes.ts";
import type { ClientFrame } from "./generated.ts";
import type { Presence } from "./types.ts";

const TELL_EVERY_MS = 3_000;
const SHOWN_MS = 5_000;
const NOBODY: readonly string[] = [];

export class Signals {
  #changes: Changes;
  #send: (frame: ClientFrame) => boolean;
  #now: () => number;
  /** By conversation, a timer for each who types. */
  #typing = new Map<string, Map<string, ReturnType<typeof setTimeout>>>();
  #presence = new Map<string, Presence>();
  #toldAt = new Map<string, number>();

  constructor(changes: Changes, send: (frame: ClientFrame) => boolean, now: () => number) {
    this.#changes = changes;
    this.#send = send;
    this.#now = now;
  }

  tellTyping(conversationId: string): void {
    const now = this.#now();
    if (now - (this.#toldAt.get(conversationId) ?? -TELL_EVERY_MS) < TELL_EVERY_MS) return;
    if (this.#send({ type: "typing", conversation_id: conversationId })) this.#toldAt.set(conversationId, now);
  }

  typists(conversationId: string): readonly string[] {
    const typing = this.#typing.get(conversationId);
    return typing ? [...typing.keys()] : NOBODY;
  }

  noteTyping(conversationId: string, userId: string): void {
    this.stopTyping(conversationId, userId);
    const timer = setTimeout(() => this.stopTyping(conversationId, userId), SHOWN_MS);
    const typing = this.#typing.get(conversationId) ?? new Map();
    this.#typing.set(conversationId, typing.set(userId, timer));
    this.#changes.markConversation(conversationId);
  }

  /** The time is over, or what was typed has come. */
  stopTyping(conversationId: string, userId: string): void {
    const typing = this.#typing.get(conversationId);
    const timer = typing?.get(userId);
    if (!typing || !timer) return;
    clearTimeout(timer);
    typing.delete(userId);
    if (typing.size === 0) this.#typing.delete(conversationId);
    this.#changes.markConversation(conversationId);
  }

  presence(userId: string): Presence | undefined {
    return this.#presence.get(userId);
  }

  /** False when that is no news. */
  notePresence({ user_id, online, last_seen_at }: Presence): boolean {
    const known = this.#presence.get(user_id);
    if (known?.online === online && known.last_seen_at === last_seen_at) return false;
    this.#presence.set(user_id, { user_id, online, last_seen_at });
    return true;
  }

  /** Without a connection nothing is known. */
  clear(): void {
    for (const [conversationId, typing] of this.#typing) {
      for (const timer of typing.values()) clearTimeout(timer);
      this.#changes.markConversation(conversationId);
    }
    this.#typing.clear();
    this.#presence.clear();
    this.#toldAt.clear();
  }
}
