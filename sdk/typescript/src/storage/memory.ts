// The reference storage: keeps records in memory. A client falls back to it when its storage fails.
// Persistence does not belong here.

import type { Storage, StorageChange, StorageKind } from "./storage.ts";

export class MemoryStorage implements Storage {
  /** Clients of one process that use the same object share their records. */
  readonly sharedName = `memory ${Math.random()}`;
  #scopes = new Map<string, Map<string, Map<string, unknown>>>();

  async read(scope: string, kind: StorageKind, keys?: readonly string[]): Promise<Map<string, unknown>> {
    const records = this.#scopes.get(scope)?.get(kind) ?? new Map<string, unknown>();
    const wanted = keys ?? [...records.keys()];
    return new Map(wanted.filter((key) => records.has(key)).map((key) => [key, structuredClone(records.get(key))]));
  }

  async write(scope: string, changes: readonly StorageChange[]): Promise<void> {
    // Copy all values first, so that a value that cannot be copied refuses the whole write.
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

/** Stores records in memory. They are lost when the process ends. */
export const memoryStorage = (): Storage => new MemoryStorage();
