// The port to what a device remembers between visits. Its adapters are beside it and, for Node, in `node/`.

/** `outbox` must not be lost; everything else can be had again from the server. */
export type StorageKind = "meta" | "inbox" | "messages" | "outbox" | "people";

export const STORAGE_KINDS: readonly StorageKind[] = ["meta", "inbox", "messages", "outbox", "people"];

/** Without a value, the record is removed. Values are plain data, as `structuredClone` and JSON know it. */
export interface StorageChange {
  readonly kind: StorageKind;
  readonly key: string;
  readonly value?: unknown;
}

/** Only these are worth the wait for the disk: what waits to be sent is nowhere else. */
export const isPrecious = ({ kind, value }: StorageChange): boolean => kind === "outbox" && value !== undefined;

/**
 * Records of plain data by scope (one user on one server), kind and key. Scopes and keys are any text.
 *
 * - `write` is atomic: all its changes are kept or none. When it resolves they survive the end of the process, and every
 *   later `read` by anybody sees them. Writes of one caller take effect in the order they were made, awaited or not.
 * - Every method may reject. The client then goes on without what lasts; the adapter needs no fallback of its own. Where
 *   somebody else has the storage to themselves, `read` rejects with a `BluetickError` of the code `storage_in_use`, and the
 *   client does not start.
 * - Several clients may use one storage at a time, in one process or in several tabs.
 */
export interface Storage {
  /**
   * The same wherever the same records are seen, in this process or in other tabs, and nowhere else: under it clients agree
   * who sends what. Absent where nobody else can see them.
   */
  readonly sharedName?: string;
  /** All records of a kind, or those of the given keys. What is not there is left out. */
  read(scope: string, kind: StorageKind, keys?: readonly string[]): Promise<Map<string, unknown>>;
  write(scope: string, changes: readonly StorageChange[]): Promise<void>;
  /** Removes every record of the scope. */
  clear(scope: string): Promise<void>;
  /** What a person should know of the state in which the records were found; each sentence is said once. */
  troubles?(): string[];
  /** Lets go of files and handles. A later call may open them again. */
  close(): Promise<void>;
}
