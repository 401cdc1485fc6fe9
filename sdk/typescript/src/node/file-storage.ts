// What a Node process remembers: for each scope one file, to which every write is one line. Reading it from the start gives
// the records; a line that a crash cut short is the last one and counts as never written. One process at a time.

import { createHash } from "node:crypto";
import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join, resolve } from "node:path";
import { isPrecious } from "../storage/storage.ts";
import type { Storage, StorageChange, StorageKind } from "../storage/storage.ts";

/** A file is written anew when it has grown to this many times what it has to say. */
const WASTE_FACTOR = 4;
const SMALLEST_REWRITE_BYTES = 256 * 1024;

const keyOf = ({ kind, key }: StorageChange): string => `${kind} ${key}`;

/** The records of one scope. All work on it is done one after the other. */
class Journal {
  #path: string;
  #records: Map<string, StorageChange> | null = null;
  #file: FileHandle | null = null;
  #sizeBytes = 0;
  #usefulBytes = 0;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(directory: string, scope: string) {
    this.#path = join(directory, `${createHash("sha256").update(scope).digest("hex").slice(0, 32)}.jsonl`);
  }

  #inTurn<Answer>(work: () => Promise<Answer>): Promise<Answer> {
    const done = this.#queue.then(work);
    this.#queue = done.catch(() => {});
    return done;
  }

  read(kind: StorageKind, keys?: readonly string[]): Promise<Map<string, unknown>> {
    return this.#inTurn(async () => {
      const records = await this.#load();
      const wanted = keys?.map((key) => records.get(keyOf({ kind, key }))) ?? [...records.values()];
      const found = wanted.filter((record) => record?.kind === kind) as StorageChange[];
      return new Map(found.map(({ key, value }) => [key, structuredClone(value)]));
    });
  }

  write(changes: readonly StorageChange[]): Promise<void> {
    // Written down now: the caller may go on changing what it gave.
    const line = `${JSON.stringify(changes)}\n`;
    return this.#inTurn(async () => {
      const records = await this.#load();
      await this.#append(line, changes.some(isPrecious));
      apply(records, JSON.parse(line) as StorageChange[]);
      if (this.#sizeBytes > SMALLEST_REWRITE_BYTES && this.#sizeBytes > WASTE_FACTOR * this.#usefulBytes) await this.#rewrite(records);
    });
  }

  clear(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#close();
      await rm(this.#path, { force: true });
    });
  }

  close(): Promise<void> {
    return this.#inTurn(() => this.#close());
  }

  async #close(): Promise<void> {
    await this.#file?.close();
    this.#file = null;
    this.#records = null;
  }

  async #load(): Promise<Map<string, StorageChange>> {
    if (this.#records) return this.#records;
    const text = await readFile(this.#path, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return "";
      throw error;
    });
    const end = text.lastIndexOf("\n") + 1;
    const records = new Map<string, StorageChange>();
    for (const line of text.slice(0, end).split("\n")) if (line !== "") apply(records, JSON.parse(line) as StorageChange[]);
    // Always begins anew: without the cut line, and without what was written over.
    await this.#rewrite(records);
    this.#records = records;
    return records;
  }

  async #append(line: string, mustLast: boolean): Promise<void> {
    const file = this.#file as FileHandle;
    const bytes = Buffer.from(line);
    try {
      await file.appendFile(bytes);
      if (mustLast) await file.datasync();
    } catch (error) {
      // Half a line must not stand before the next one.
      await file.truncate(this.#sizeBytes).catch(() => {});
      throw error;
    }
    this.#sizeBytes += bytes.length;
  }

  async #rewrite(records: ReadonlyMap<string, StorageChange>): Promise<void> {
    const fresh = `${this.#path}.new`;
    const text = [...records.values()].map((record) => `${JSON.stringify([record])}\n`).join("");
    await mkdir(join(this.#path, ".."), { recursive: true });
    const file = await open(fresh, "w", 0o600);
    try {
      await file.appendFile(text);
      await file.datasync();
      await rename(fresh, this.#path);
    } catch (error) {
      await file.close();
      throw error;
    }
    await this.#file?.close();
    this.#file = file;
    this.#sizeBytes = this.#usefulBytes = Buffer.byteLength(text);
  }
}

function apply(records: Map<string, StorageChange>, changes: readonly StorageChange[]): void {
  for (const change of changes) {
    if (change.value === undefined) records.delete(keyOf(change));
    else records.set(keyOf(change), change);
  }
}

/** Clients of one process that name the same directory see the same records. */
const journals = new Map<string, Journal>();

class FileStorage implements Storage {
  readonly sharedName: string;
  #directory: string;

  constructor(directory: string) {
    this.#directory = resolve(directory);
    this.sharedName = `directory ${this.#directory}`;
  }

  #journal(scope: string): Journal {
    const name = `${this.#directory}\n${scope}`;
    const journal = journals.get(name) ?? new Journal(this.#directory, scope);
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

  async close(): Promise<void> {
    const prefix = `${this.#directory}\n`;
    await Promise.all([...journals].filter(([name]) => name.startsWith(prefix)).map(([, journal]) => journal.close()));
  }
}

/** In files of a directory, which one process uses at a time. */
export const fileStorage = (directory: string): Storage => new FileStorage(directory);
