// The port for what a device stores. Its adapters are in this folder and, for Node, in `node/`. The
// records do not belong here; `cache.ts` and `outbox-queue.ts` define them.

/**
 * The kind of a record. Losing an `outbox` record loses a message; the server has everything else.
 */
export type StorageKind = "meta" | "inbox" | "messages" | "outbox" | "people";

/** All kinds. A new kind needs a new version of the IndexedDB database. */
export const STORAGE_KINDS: readonly StorageKind[] = ["meta", "inbox", "messages", "outbox", "people"];

/**
 * A write or a removal. A change without a value removes the record. Values are plain data that
 * `structuredClone` and JSON can copy.
 */
export interface StorageChange {
  readonly kind: StorageKind;
  readonly key: string;
  readonly value?: unknown;
}

/** Whether the write must wait for the disk. Only the storage has the messages of the outbox. */
export const isPrecious = ({ kind, value }: StorageChange): boolean => kind === "outbox" && value !== undefined;

/**
 * Stores records of plain data by scope (one user on one server), kind and key. Scopes and keys are
 * arbitrary strings.
 *
 * - `write` is atomic: it keeps all of its changes or none. When it resolves, the changes survive
 *   the end of the process, and every later `read` of every client sees them. Writes of one caller
 *   take effect in call order, awaited or not.
 * - Every method may reject. The client then continues in memory, so an adapter needs no fallback.
 *   If another process uses the storage exclusively, `read` rejects with a `BluetickError` with the
 *   code `storage_in_use`, and the client does not start.
 * - Several clients may use one storage at a time, in one process or in several tabs.
 */
export interface Storage {
  /**
   * Names the records that this storage sees. Clients that see the same records, in this process or
   * in other tabs, have the same name. Under it they agree which of them sends a message. Undefined
   * if no other client can see the records.
   */
  readonly sharedName?: string;
  /** Returns all records of a kind, or those with the given keys. Missing records are left out. */
  read(scope: string, kind: StorageKind, keys?: readonly string[]): Promise<Map<string, unknown>>;
  write(scope: string, changes: readonly StorageChange[]): Promise<void>;
  /** Removes every record of the scope. */
  clear(scope: string): Promise<void>;
  /** Returns sentences for users about damage that the storage found. Each is returned once. */
  troubles?(): string[];
  /** Releases files and handles. A later call may open them again. */
  close(): Promise<void>;
}
