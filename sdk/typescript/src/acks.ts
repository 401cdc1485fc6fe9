// Tells the server how far this device and the person have come: in a moment, together, and again until it is told.

import type { Api } from "./api.ts";
import type { ClientFrame } from "./generated.ts";
import type { Thread } from "./thread.ts";
import type { Threads } from "./threads.ts";

/** Acks of this time go together. */
const TELL_AFTER_MS = 50;

export interface AckHandlers {
  send(frame: ClientFrame): boolean;
  /** The server has been told over HTTP, and may be asked what it makes of it. */
  onTold(conversationId: string): void;
  /** The line of a conversation says that more was delivered. */
  onDelivered(thread: Thread): void;
}

export class Acks {
  #threads: Threads;
  #api: Api;
  #handlers: AckHandlers;
  #waiting = new Map<string, "delivered" | "read">();
  /** How much is unread after the read is for the server to say. */
  #unsure = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(threads: Threads, api: Api, handlers: AckHandlers) {
    this.#threads = threads;
    this.#api = api;
    this.#handlers = handlers;
  }

  add(conversationId: string, kind: "delivered" | "read" = "delivered", isUnsure = false): void {
    if (this.#waiting.get(conversationId) !== "read") this.#waiting.set(conversationId, kind);
    if (isUnsure) this.#unsure.add(conversationId);
    this.#timer ??= setTimeout(() => this.flush(), TELL_AFTER_MS);
  }

  flush(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    for (const [conversationId, kind] of this.#waiting) {
      // Without a connection they wait for the next one.
      if (!this.#tell(conversationId, kind)) return;
      this.#waiting.delete(conversationId);
    }
  }

  #tell(conversation_id: string, kind: "delivered" | "read"): boolean {
    const thread = this.#threads.known(conversation_id);
    if (!thread) return true;
    const haveSeq = thread.haveSeq ?? 0;
    const read = kind === "read" ? (thread.entry?.my_status.last_read_seq ?? 0) : 0;
    const { send, onDelivered } = this.#handlers;
    if (read > 0 && !send({ type: "read", conversation_id, seq: read })) return false;
    if (haveSeq > read && !send({ type: "delivered", conversation_id, seq: haveSeq })) return false;
    if (thread.noteDelivered(haveSeq)) onDelivered(thread);
    // A frame is not answered; a call is, and only then it makes sense to ask.
    if (this.#unsure.delete(conversation_id)) void this.#tellAndAsk(conversation_id, read);
    return true;
  }

  async #tellAndAsk(conversationId: string, seq: number): Promise<void> {
    try {
      await this.#api.markRead(conversationId, seq);
      this.#handlers.onTold(conversationId);
    } catch {
      // The frame has told it as well; the next look at the inbox tells the rest.
    }
  }

  forget(conversationId: string): void {
    this.#waiting.delete(conversationId);
    this.#unsure.delete(conversationId);
  }

  clear(): void {
    this.#waiting.clear();
    this.#unsure.clear();
  }

  stop(): void {
    if (this.#timer) clearTimeout(this.#timer);
  }
}
