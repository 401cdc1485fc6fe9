// The reference storage: everything in this process, nothing beyond it. Also what a client falls back to.

import type { Storage, StorageChange, StorageKind } from "./storage.ts";

export class MemoryStorage implements Storage {
  /** Clients in one process that are given the same object share it. */
  readonly sharedName = `memory ${Math.random()}`;
  #scopes = new Map<string, Map<string, Map<string, unknown>>>();

  async read(scope: string, kind: StorageKind, keys?: readonly string[]): Promise<Map<string, unknown>> {
    const records = this.#scopes.get(scope)?.get(kind) ?? new Map<string, unknown>();
    const wanted = keys ?? [...records.keys()];
    return new Map(wanted.filter((key) => records.has(key)).map((key) => [key, structuredClone(records.get(key))]));
  }

  async write(scope: string, changes: readonly StorageChange[]): Promise<void> {
    // Copies are made first: one that cannot be made refuses the whole.
    for (const { kind, key, value } of structuredClone(changes)) {
      const kinds = this.#scopes.get(scope) ?? new Map<string, Map<string, unknown>>();
      this.#scopes.set(scope, kinds);
      const records = kinds.get(kind) ?? new Map<string, unknown>();
      kinds.set(kind, records);
      if (value === undefined) records.delete(key);
      else records.set(key, value);
    }
  }

  async clear(scope: string): Promise<void> {
    this.#scopes.delete(scope);
  }

  async close(): Promise<void> {}
}

/** Nothing lasts beyond the process. */
export const memoryStorage = (): Storage => new MemoryStorage();
