// Notifies the listeners of an application. All changes of one turn of the event loop are one call,
// so a backlog of a thousand messages causes few calls. State does not belong here.

import type { Change, ClientEvents } from "./types.ts";

type Part = "connection" | "inbox" | "people" | "me";

/** Collects what changed and calls the subscribers at the end of the turn. */
export class Changes {
  #listeners = new Set<(change: Change) => void>();
  #parts = new Set<Part>();
  #conversations = new Set<string>();
  #isScheduled = false;

  subscribe(listener: (change: Change) => void): () => void {
    // A function that subscribes twice is called twice, and each subscription ends separately.
    const own = (change: Change) => listener(change);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  add(part: Part): void {
    this.#parts.add(part);
    this.#schedule();
  }

  addConversation(id: string): void {
    this.#conversations.add(id);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(this.#notify);
  }

  #notify = (): void => {
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

/** The listeners for events (`client.on`), as opposed to changes of state. */
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

/**
 * Calls a listener. An exception surfaces as an uncaught error of the application, and does not
 * stop the client.
 */
function shielded(call: () => void): void {
  try {
    call();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
