// Coordinates clients that share one storage, such as two tabs of one user: which of them are
// running, and what changed. A client holds a lock with its name while it runs, so a crash releases
// the lock. The handling of messages does not belong here.

import type { StoredMessage } from "./timeline.ts";

/** A message to the other clients. */
export type TabMessage =
  | { readonly type: "outbox"; readonly record: unknown }
  /** The server has stored the message (`message` then has its seq), or the user cancelled it. */
  | { readonly type: "settled"; readonly messageId: string; readonly conversationId: string; readonly message: StoredMessage | null }
  | { readonly type: "read"; readonly conversationId: string; readonly seq: number }
  /** The user has logged out, and the storage must not hold data of the user. */
  | { readonly type: "forgotten" };

/** The connection of one client to the others. */
export class Tabs {
  readonly ownerId: string;
  #name: string | null;
  #channel: BroadcastChannel | null = null;
  #locks: LockManager | null;
  #release: (() => void) | null = null;
  #watched = new Set<string>();
  #stopped = new AbortController();

  /** Without a `sharedName`, no other client can use the storage. */
  constructor(sharedName: string | undefined, scope: string, ownerId: string) {
    this.ownerId = ownerId;
    this.#name = sharedName === undefined ? null : `bluetick ${sharedName} ${scope}`;
    this.#locks = (this.#name !== null && globalThis.navigator?.locks) || null;
  }

  async start(onMessage: (message: TabMessage) => void): Promise<void> {
    if (this.#name === null) return;
    if (globalThis.BroadcastChannel) {
      this.#channel = new BroadcastChannel(this.#name);
      this.#channel.onmessage = ({ data }: MessageEvent<TabMessage>) => onMessage(data);
    }
    await this.#hold();
  }

  #hold(): Promise<void> {
    return new Promise((resolve) => {
      if (!this.#locks) return resolve();
      const held = new Promise<void>((release) => (this.#release = release));
      this.#locks.request(this.#lockOf(this.ownerId), () => (resolve(), held)).catch(() => resolve());
    });
  }

  #lockOf(ownerId: string): string {
    return `${this.#name} ${ownerId}`;
  }

  /** Whether this client can find out that another one has ended. Requires Web Locks. */
  get canWatch(): boolean {
    return this.#locks !== null;
  }

  /** Calls back when an owner has ended; immediately if it has ended before. */
  whenGone(ownerId: string, then: () => void): void {
    if (!this.#locks || ownerId === this.ownerId || this.#watched.has(ownerId)) return;
    this.#watched.add(ownerId);
    const done = () => {
      this.#watched.delete(ownerId);
      then();
    };
    // The browser grants the lock when its owner has released it. The callback releases it at once.
    this.#locks.request(this.#lockOf(ownerId), { signal: this.#stopped.signal }, done).catch(() => {});
  }

  publish(message: TabMessage): void {
    this.#channel?.postMessage(message);
  }

  stop(): void {
    this.#stopped.abort();
    this.#release?.();
    this.#channel?.close();
    this.#channel = null;
  }
}
