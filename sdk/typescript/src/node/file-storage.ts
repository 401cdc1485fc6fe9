// The storage for Node: one file per scope, one line per write. Reading the lines in order restores
// the records; a last line without a line break was cut by a crash and is ignored. The lock of the
// directory admits one process at a time. The choice of records does not belong here;
// `cache.ts` makes it.

import { createHash } from "node:crypto";
import { appendFile, open, readFile, rename, rm } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join, resolve } from "node:path";
import { isPrecious } from "../storage/storage.ts";
import type { Storage, StorageChange, StorageKind } from "../storage/storage.ts";
import { DirectoryLock } from "./directory-lock.ts";

/** A file is rewritten when it is this many times larger than its records. */
const WASTE_FACTOR = 4;
/** The size of a file below which no rewrite is worth its cost. */
const SMALLEST_REWRITE_BYTES = 256 * 1024;

const keyOf = ({ kind, key }: StorageChange): string => `${kind} ${key}`;

/** The records of one scope. All operations run one after the other. */
class Journal {
  #directory: string;
  #path: string;
  #lock: DirectoryLock;
  #records: Map<string, StorageChange> | null = null;
  #file: FileHandle | null = null;
  #sizeBytes = 0;
  #usefulBytes = 0;
  /** The number of damaged lines that were not reported yet. */
  #damagedLines = 0;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(directory: string, scope: string, lock: DirectoryLock) {
    this.#directory = directory;
    this.#lock = lock;
    this.#path = join(directory, `${createHash("sha256").update(scope).digest("hex").slice(0, 32)}.jsonl`);
  }

  #enqueue<Answer>(work: () => Promise<Answer>): Promise<Answer> {
    const done = this.#queue.then(work);
    this.#queue = done.catch(() => {});
    return done;
  }

  read(kind: StorageKind, keys?: readonly string[]): Promise<Map<string, unknown>> {
    return this.#enqueue(async () => {
      const records = await this.#load();
      const wanted = keys?.map((key) => records.get(keyOf({ kind, key }))) ?? [...records.values()];
      const found = wanted.filter((record) => record?.kind === kind) as StorageChange[];
      return new Map(found.map(({ key, value }) => [key, structuredClone(value)]));
    });
  }

  write(changes: readonly StorageChange[]): Promise<void> {
    // Serialize now, because the caller may change the values later.
    const line = `${JSON.stringify(changes)}\n`;
    return this.#enqueue(async () => {
      const records = await this.#load();
      await this.#append(line, changes.some(isPrecious));
      apply(records, JSON.parse(line) as StorageChange[]);
      if (this.#sizeBytes > SMALLEST_REWRITE_BYTES && this.#sizeBytes > WASTE_FACTOR * this.#usefulBytes) await this.#rewrite(records);
    });
  }

  clear(): Promise<void> {
    return this.#enqueue(async () => {
      await this.#lock.acquire();
      try {
        await this.#close();
        for (const path of [this.#path, `${this.#path}.new`, `${this.#path}.damaged`]) await rm(path, { force: true });
      } finally {
        await this.#lock.release();
      }
    });
  }

  close(): Promise<void> {
    return this.#enqueue(() => this.#close());
  }

  async #close(): Promise<void> {
    const isOpen = this.#records !== null;
    await this.#file?.close();
    this.#file = null;
    this.#records = null;
    if (isOpen) await this.#lock.release();
  }

  /** Returns the number of damaged lines since the last call. */
  takeDamagedLines(): number {
    const count = this.#damagedLines;
    this.#damagedLines = 0;
    return count;
  }

  async #load(): Promise<Map<string, StorageChange>> {
    if (this.#records) return this.#records;
    await this.#lock.acquire();
    try {
      return (this.#records = await this.#readAll());
    } catch (error) {
      await this.#lock.release();
      throw error;
    }
  }

  async #readAll(): Promise<Map<string, StorageChange>> {
    const text = await readFile(this.#path, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return "";
      throw error;
    });
    const end = text.lastIndexOf("\n") + 1;
    const records = new Map<string, StorageChange>();
    const damaged: string[] = [];
    for (const line of text.slice(0, end).split("\n")) {
      const changes = line === "" ? [] : changesOf(line);
      if (changes) apply(records, changes);
      else damaged.push(line);
    }
    // Keep damaged lines in a separate file for the operator. The other lines are valid.
    if (damaged.length > 0) await appendFile(`${this.#path}.damaged`, `${damaged.join("\n")}\n`, { mode: 0o600 });
    this.#damagedLines += damaged.length;
    // Always rewrite the file, without the cut line and without overwritten records.
    await this.#rewrite(records);
    return records;
  }

  async #append(line: string, mustLast: boolean): Promise<void> {
    const file = this.#file as FileHandle;
    const bytes = Buffer.from(line);
    try {
      await file.appendFile(bytes);
      if (mustLast) await file.datasync();
    } catch (error) {
      // Remove half of a line, or the next line would be damaged.
      await file.truncate(this.#sizeBytes).catch(() => {});
      throw error;
    }
    this.#sizeBytes += bytes.length;
  }

  async #rewrite(records: ReadonlyMap<string, StorageChange>): Promise<void> {
    const fresh = `${this.#path}.new`;
    const text = [...records.values()].map((record) => `${JSON.stringify([record])}\n`).join("");
    const file = await open(fresh, "w", 0o600);
    try {
      await file.appendFile(text);
      await file.datasync();
      await rename(fresh, this.#path);
      await syncDirectory(this.#directory);
    } catch (error) {
      await file.close();
      throw error;
    }
    await this.#file?.close();
    this.#file = file;
    this.#sizeBytes = this.#usefulBytes = Buffer.byteLength(text);
  }
}

/** Syncs a directory, because a rename is durable only afterwards. */
async function syncDirectory(path: string): Promise<void> {
  // Some systems cannot open a directory, and do not need the sync.
  const directory = await open(path, "r").catch(() => null);
  await directory?.sync().catch(() => {});
  await directory?.close();
}

/** Parses a line. Returns null if it is damaged. */
function changesOf(line: string): StorageChange[] | null {
  try {
    const changes = JSON.parse(line) as StorageChange[];
    return changes.every(({ kind, key }) => typeof kind === "string" && typeof key === "string") ? changes : null;
  } catch {
    return null;
  }
}

function apply(records: Map<string, StorageChange>, changes: readonly StorageChange[]): void {
  for (const change of changes) {
    if (change.value === undefined) records.delete(keyOf(change));
    else records.set(keyOf(change), change);
  }
}

/** Clients of one process that use the same directory share its records. */
const journals = new Map<string, Journal>();
const locks = new Map<string, DirectoryLock>();

class FileStorage implements Storage {
  readonly sharedName: string;
  #directory: string;

  constructor(directory: string) {
    this.#directory = resolve(directory);
    this.sharedName = `directory ${this.#directory}`;
  }

  #journal(scope: string): Journal {
    const name = `${this.#directory}\n${scope}`;
    const lock = locks.get(this.#directory) ?? new DirectoryLock(this.#directory);
    locks.set(this.#directory, lock);
    const journal = journals.get(name) ?? new Journal(this.#directory, scope, lock);
    journals.set(name, journal);
    return journal;
  }

  read(scope: string, kind: StorageKind, keys?: readonly string[]): Promise<Map<string, unknown>> {
    return this.#journal(scope).read(kind, keys);
  }

  write(scope: string, changes: readonly StorageChange[]): Promise<void> {
    return this.#journal(scope).write(changes);
  }

  clear(scope: string): Promise<void> {
    return this.#journal(scope).clear();
  }

  troubles(): string[] {
    const count = this.#journals.reduce((sum, journal) => sum + journal.takeDamagedLines(), 0);
    if (count === 0) return [];
    const lines = count === 1 ? "1 line of the stored data was" : `${count} lines of the stored data were`;
    return [`${lines} damaged. Unsent messages may be lost.`];
  }

  async close(): Promise<void> {
    await Promise.all(this.#journals.map((journal) => journal.close()));
  }

  get #journals(): Journal[] {
    const prefix = `${this.#directory}\n`;
    return [...journals].filter(([name]) => name.startsWith(prefix)).map(([, journal]) => journal);
  }
}

/**
 * Stores records in files of a directory. One process uses it at a time; a second one is refused
 * with `storage_in_use`.
 */
export const fileStorage = (directory: string): Storage => new FileStorage(directory);
