// Clients that share one storage, such as two tabs of one person: who is alive, and telling each other what changed. An
// owner is alive as long as it holds the lock of its name; nobody has to say goodbye.

import type { StoredMessage } from "./timeline.ts";

/** What one tells the others. */
export type TabMessage =
  | { readonly type: "outbox"; readonly record: unknown }
  /** It is with the server (then with its place there) or was taken back. */
  | { readonly type: "settled"; readonly messageId: string; readonly conversationId: string; readonly message: StoredMessage | null }
  | { readonly type: "read"; readonly conversationId: string; readonly seq: number }
  /** The person has logged out, and the storage is to hold nothing of them. */
  | { readonly type: "forgotten" };

export class Tabs {
  readonly ownerId: string;
  #name: string | null;
  #channel: BroadcastChannel | null = null;
  #locks: LockManager | null;
  #release: (() => void) | null = null;
  #watched = new Set<string>();
  #ending = new AbortController();

  /** Without a name nobody else can see the storage. */
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

  /** Without locks nobody can know who is alive. */
  get canWatch(): boolean {
    return this.#locks !== null;
  }

  /** Calls back when an owner is gone: at once where it already is. */
  whenGone(ownerId: string, then: () => void): void {
    if (!this.#locks || ownerId === this.ownerId || this.#watched.has(ownerId)) return;
    this.#watched.add(ownerId);
    const done = () => {
      this.#watched.delete(ownerId);
      then();
    };
    // The lock is given to us when its holder has let go of it; we want nothing but to know.
    this.#locks.request(this.#lockOf(ownerId), { signal: this.#ending.signal }, done).catch(() => {});
  }

  tell(message: TabMessage): void {
    this.#channel?.postMessage(message);
  }

  stop(): void {
    this.#ending.abort();
    this.#release?.();
    this.#channel?.close();
    this.#channel = null;
  }
}
