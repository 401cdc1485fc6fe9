// Tells listeners what changed: everything of one turn at once, so that a thousand messages of a backlog are few calls.

import type { Change, ClientEvents } from "./types.ts";

type Part = "connection" | "inbox" | "people" | "me";

export class Changes {
  #listeners = new Set<(change: Change) => void>();
  #parts = new Set<Part>();
  #conversations = new Set<string>();
  #isScheduled = false;

  subscribe(listener: (change: Change) => void): () => void {
    // A listener that is given twice is called twice, and each of its subscriptions ends by itself.
    const own = (change: Change) => listener(change);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  mark(part: Part): void {
    this.#parts.add(part);
    this.#schedule();
  }

  markConversation(id: string): void {
    this.#conversations.add(id);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(this.#tell);
  }

  #tell = (): void => {
    this.#isScheduled = false;
    const parts = this.#parts;
    const change: Change = {
      connection: parts.has("connection"),
      inbox: parts.has("inbox"),
      people: parts.has("people"),
      me: parts.has("me"),
      conversations: this.#conversations,
    };
    this.#parts = new Set();
    this.#conversations = new Set();
    for (const listener of [...this.#listeners]) shielded(() => listener(change));
  };
}

/** Things that happen, as opposed to state that changes. */
export class Events {
  #listeners = new Map<keyof ClientEvents, Set<(detail: never) => void>>();

  on<Name extends keyof ClientEvents>(name: Name, listener: (detail: ClientEvents[Name]) => void): () => void {
    const own = (detail: ClientEvents[Name]) => listener(detail);
    const known = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, known.add(own));
    return () => void known.delete(own);
  }

  emit<Name extends keyof ClientEvents>(name: Name, detail: ClientEvents[Name]): void {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) shielded(() => listener(detail as never));
  }
}

/** A listener's fault is its owner's to see, and must not stop what this library does. */
function shielded(call: () => void): void {
  try {
    call();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
