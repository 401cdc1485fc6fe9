// What a browser remembers: one database, one object store per kind, records under [scope, key].

import { isPrecious, STORAGE_KINDS } from "./storage.ts";
import type { Storage, StorageChange, StorageKind } from "./storage.ts";

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
    // Every text is smaller than every array, so that the range ends with the scope.
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
      // Said at once, it holds even if the page goes before the answer comes.
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

  /** A browser may close the database by itself; then it is opened again, once. */
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
    // Another tab deletes or upgrades it.
    database.onversionchange = () => database.close();
    database.onclose = () => (this.#opening = null);
    return database;
  }
}

/** In the browser's IndexedDB, shared by all tabs of an origin. */
export const indexedDbStorage = (name = "bluetick"): Storage => new IndexedDbStorage(name);
