// The storage for browsers: one IndexedDB database, one object store per kind, records under
// [scope, key]. The choice of records does not belong here; `cache.ts` makes it.

import { isPrecious, STORAGE_KINDS } from "./storage.ts";
import type { Storage, StorageChange, StorageKind } from "./storage.ts";

/** The version of the database. A higher one needs an upgrade of existing databases. */
const VERSION = 1;

const answered = <Answer>(request: IDBRequest<Answer>): Promise<Answer> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

const completed = (transaction: IDBTransaction): Promise<void> =>
  new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error);
  });

class IndexedDbStorage implements Storage {
  readonly sharedName: string;
  #name: string;
  #opening: Promise<IDBDatabase> | null = null;

  constructor(name: string) {
    this.#name = name;
    this.sharedName = `indexeddb ${name}`;
  }

  async read(scope: string, kind: StorageKind, keys?: readonly string[]): Promise<Map<string, unknown>> {
    const store = (await this.#transaction([kind], "readonly")).objectStore(kind);
    if (keys) {
      const values = await Promise.all(keys.map((key) => answered<unknown>(store.get([scope, key]))));
      return new Map(keys.map((key, index) => [key, values[index]] as const).filter(([, value]) => value !== undefined));
    }
    // In IndexedDB, arrays sort after strings, so the range contains exactly the keys of the scope.
    const range = IDBKeyRange.bound([scope], [scope, []]);
    const [found, values] = await Promise.all([answered(store.getAllKeys(range)), answered<unknown[]>(store.getAll(range))]);
    return new Map(found.map((key, index) => [(key as [string, string])[1], values[index]]));
  }

  async write(scope: string, changes: readonly StorageChange[]): Promise<void> {
    if (changes.length === 0) return;
    const durability = changes.some(isPrecious) ? "strict" : "relaxed";
    const transaction = await this.#transaction([...new Set(changes.map(({ kind }) => kind))], "readwrite", durability);
    const done = completed(transaction);
    try {
      for (const { kind, key, value } of changes) {
        const store = transaction.objectStore(kind);
        if (value === undefined) store.delete([scope, key]);
        else store.put(value, [scope, key]);
      }
      // With an explicit commit, the write succeeds even if the page closes before the answer.
      transaction.commit();
    } catch (error) {
      transaction.abort();
      await done.catch(() => {});
      throw error;
    }
    await done;
  }

  async clear(scope: string): Promise<void> {
    const transaction = await this.#transaction(STORAGE_KINDS, "readwrite");
    for (const kind of STORAGE_KINDS) transaction.objectStore(kind).delete(IDBKeyRange.bound([scope], [scope, []]));
    await completed(transaction);
  }

  async close(): Promise<void> {
    const opening = this.#opening;
    this.#opening = null;
    (await opening?.catch(() => null))?.close();
  }

  /**
   * Starts a transaction. A browser can close the database at any time, so this opens it again
   * once.
   */
  async #transaction(kinds: readonly StorageKind[], mode: IDBTransactionMode, durability: IDBTransactionDurability = "default"): Promise<IDBTransaction> {
    try {
      return (await this.#open()).transaction([...kinds], mode, { durability });
    } catch (error) {
      if (!(error instanceof DOMException) || error.name !== "InvalidStateError") throw error;
      this.#opening = null;
      return (await this.#open()).transaction([...kinds], mode, { durability });
    }
  }

  #open(): Promise<IDBDatabase> {
    this.#opening ??= this.#request().catch((error: unknown) => {
      this.#opening = null;
      throw error;
    });
    return this.#opening;
  }

  async #request(): Promise<IDBDatabase> {
    const request = indexedDB.open(this.#name, VERSION);
    request.onupgradeneeded = () => {
      for (const kind of STORAGE_KINDS) request.result.createObjectStore(kind);
    };
    const database = await answered(request);
    // Another tab deletes or upgrades the database.
    database.onversionchange = () => database.close();
    database.onclose = () => (this.#opening = null);
    return database;
  }
}

/** Stores records in IndexedDB, which all tabs of an origin share. */
export const indexedDbStorage = (name = "bluetick"): Storage => new IndexedDbStorage(name);
