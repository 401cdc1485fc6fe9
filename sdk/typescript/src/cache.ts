// What of the client's state lasts: which records, how many, and when they are written. A storage that fails is replaced
// by memory, so that nothing else here has to know.

import { codeOf } from "./errors.ts";
import type { MessageBody } from "./generated.ts";
import type { KnownName } from "./people.ts";
import { memoryStorage } from "./storage/memory.ts";
import type { Storage, StorageChange, StorageKind } from "./storage/storage.ts";
import type { Thread } from "./thread.ts";
import type { Threads } from "./threads.ts";
import { storedMessage } from "./timeline.ts";
import type { InboxEntry, Profile } from "./types.ts";

/** A change after a quiet time is written almost at once; then they gather. */
const WRITE_AFTER_MS = 50;
const WRITE_EVERY_MS = 500;
/** Lines of the inbox, and the newest messages of each. */
const KEPT_LINES = 200;
const KEPT_MESSAGES = 100;
/** Conversations whose messages are at hand as soon as the client has started. */
const READ_AT_START = 50;

/** A storage that does not answer is one that fails: nothing is sent before it is stored. */
const ANSWERS_WITHIN_MS = 5_000;
/** Nobody needs the answer. */
const CLOSES_WITHIN_MS = 1_000;

function inTime<Answer>(work: Promise<Answer>, limit_ms = ANSWERS_WITHIN_MS): Promise<Answer> {
  let timer: ReturnType<typeof setTimeout>;
  const late = new Promise<never>((_, reject) => (timer = setTimeout(() => reject(new Error("no answer")), limit_ms)));
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

interface LineRecord {
  readonly epoch: number;
  readonly entry: InboxEntry;
  readonly have_seq: number;
}

interface MessagesRecord {
  readonly epoch: number;
  readonly messages: readonly MessageBody[];
  readonly reaches_start: boolean;
}

export class Cache {
  #storage: Storage;
  #scope: string;
  #threads: Threads;
  #onTrouble: (text: string) => void;
  /** The storage that failed. What is removed is removed there too, as far as that is possible. */
  #failed: Storage | null = null;
  /** Writes that were given up may still take effect. */
  #unanswered = new Set<Promise<unknown>>();
  /** Of the store this device remembers; null before the first welcome. */
  epoch: number | null = null;
  #changed = new Map<string, StorageChange>();
  #lines = new Set<Thread>();
  #tails = new Set<Thread>();
  /** When each remembered conversation was last active. */
  #keptLines = new Map<string, number>();
  #timer: ReturnType<typeof setTimeout> | null = null;
  #wroteAt_ms = 0;
  #hasStarted = false;
  #isClosed = false;
  #writing = Promise.resolve();

  constructor(storage: Storage, scope: string, threads: Threads, onTrouble: (text: string) => void) {
    this.#storage = storage;
    this.#scope = scope;
    this.#threads = threads;
    this.#onTrouble = onTrouble;
  }

  // At the start

  /** Rejects only where the storage is somebody else's at the moment. */
  async load(): Promise<{ outbox: Map<string, unknown>; names: Map<string, KnownName>; profile: Profile | undefined }> {
    const meta = await this.read("meta");
    this.epoch = (meta.get("epoch") as number | undefined) ?? null;
    await this.#loadLines();
    const names = (await this.read("people")) as Map<string, KnownName>;
    const outbox = await this.read("outbox");
    for (const trouble of this.#storage.troubles?.() ?? []) this.#onTrouble(trouble);
    return { outbox, names, profile: meta.get("profile") as Profile | undefined };
  }

  async #loadLines(): Promise<void> {
    const records = [...(await this.read("inbox"))] as [string, LineRecord][];
    const threads = [];
    for (const [id, { epoch, entry, have_seq }] of records) {
      this.#keptLines.set(id, entry.last_at);
      // Written by a tab that had not heard of the new epoch yet.
      if (epoch !== this.epoch) continue;
      const thread = this.#threads.get(id);
      thread.remember(entry, have_seq);
      threads.push(thread);
    }
    threads.sort((one, other) => (other.entry?.last_at ?? 0) - (one.entry?.last_at ?? 0));
    await this.#restore(threads.slice(0, READ_AT_START), true);
  }

  /** The remembered messages of a conversation, if they are not at hand already. */
  async restore(thread: Thread): Promise<void> {
    if (!thread.isRestored) await this.#restore([thread], false);
  }

  async #restore(threads: readonly Thread[], mayAskAgain: boolean): Promise<void> {
    const records = (await this.read("messages", threads.map(({ id }) => id))) as Map<string, MessagesRecord>;
    for (const thread of threads) {
      if (thread.isRestored) continue;
      thread.isRestored = true;
      const record = records.get(thread.id);
      if (!record || record.epoch !== this.epoch) continue;
      thread.restore(record.messages.map(storedMessage), record.reaches_start, mayAskAgain);
      this.#threads.used(thread);
    }
  }

  // What changed

  lineChanged(thread: Thread): void {
    this.#lines.add(thread);
    this.#soon();
  }

  messagesChanged(thread: Thread): void {
    this.#tails.add(thread);
    this.lineChanged(thread);
  }

  keepPerson(userId: string, name: KnownName | undefined): void {
    this.put({ kind: "people", key: userId, value: name });
  }

  keepProfile(profile: Profile): void {
    this.put({ kind: "meta", key: "profile", value: profile });
  }

  /** One is not in the conversation any more. */
  forget(thread: Thread): void {
    this.#lines.delete(thread);
    this.#tails.delete(thread);
    this.#keptLines.delete(thread.id);
    this.put({ kind: "inbox", key: thread.id });
    this.put({ kind: "messages", key: thread.id });
  }

  /** False when the store went back to an earlier state: then what was remembered may never have been, and is dropped. */
  setEpoch(epoch: number): boolean {
    if (this.epoch === epoch) return true;
    const isSame = this.epoch === null;
    this.epoch = epoch;
    // What came before the first welcome is of this epoch, and waits to be written. What is older
    // goes.
    if (!isSame) {
      this.#lines.clear();
      this.#tails.clear();
    }
    const stale = [...this.#keptLines.keys()];
    this.#keptLines.clear();
    const removed = (["inbox", "messages"] as const).flatMap((kind) => stale.map((key) => ({ kind, key })));
    void this.write([{ kind: "meta", key: "epoch", value: epoch }, ...removed]);
    if (this.#lines.size > 0 || this.#tails.size > 0) this.#soon();
    return isSame;
  }

  /** In a while, together with others. */
  put(change: StorageChange): void {
    this.#changed.set(`${change.kind} ${change.key}`, change);
    this.#soon();
  }

  #soon(): void {
    if (!this.#hasStarted || this.#timer) return;
    const pause_ms = Math.max(WRITE_AFTER_MS, this.#wroteAt_ms + WRITE_EVERY_MS - Date.now());
    this.#timer = setTimeout(() => void this.flush(), Math.min(pause_ms, WRITE_EVERY_MS));
  }

  start(): void {
    this.#hasStarted = true;
  }

  /** Writes what has changed. */
  async flush(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#wroteAt_ms = Date.now();
    // Their epoch is unknown before the first welcome, so they wait.
    const tails = this.epoch === null ? [] : [...this.#tails];
    for (const tail of tails) this.#tails.delete(tail);
    // What came in since the rest was let go must not take the place of the rest. Where there is none to wait for, the
    // write begins at once: the page may be going.
    const partial = tails.filter(({ isRestored }) => !isRestored);
    if (partial.length > 0) await this.#restore(partial, false);
    const changes = [...this.#changed.values()];
    this.#changed.clear();
    if (this.epoch !== null) changes.push(...this.#lineChanges(this.epoch), ...this.#tailChanges(this.epoch, tails), ...this.#excess());
    if (changes.length > 0) await this.write(changes);
  }

  #lineChanges(epoch: number): StorageChange[] {
    const changes: StorageChange[] = [];
    for (const { id, entry, haveSeq, isListed } of this.#lines) {
      if (!entry || !isListed) continue;
      this.#keptLines.set(id, entry.last_at);
      const value: LineRecord = { epoch, entry, have_seq: haveSeq ?? 0 };
      changes.push({ kind: "inbox", key: id, value });
    }
    this.#lines.clear();
    return changes;
  }

  #tailChanges(epoch: number, threads: readonly Thread[]): StorageChange[] {
    const changes: StorageChange[] = [];
    for (const { id, timeline, isListed } of threads) {
      if (!isListed || !timeline.isLive) continue;
      const tail = timeline.messages.slice(-KEPT_MESSAGES);
      // What could not be read is asked for again, and so is what lies before it: what is kept has no gap.
      const kept = tail.slice(tail.map(({ content_type }) => content_type).lastIndexOf("lost") + 1);
      const reaches_start = timeline.reachesStart && kept.length === timeline.messages.length;
      const messages = kept.map(({ state: _, failure: __, ...body }) => body);
      const value: MessagesRecord = { epoch, messages, reaches_start };
      changes.push({ kind: "messages", key: id, value });
    }
    return changes;
  }

  #excess(): StorageChange[] {
    if (this.#keptLines.size <= KEPT_LINES * 1.1) return [];
    const oldestFirst = [...this.#keptLines].sort(([, one], [, other]) => one - other);
    const excess = oldestFirst.slice(0, this.#keptLines.size - KEPT_LINES).map(([id]) => id);
    for (const id of excess) this.#keptLines.delete(id);
    return (["inbox", "messages"] as const).flatMap((kind) => excess.map((key) => ({ kind, key })));
  }

  /** What has changed is not worth writing any more. */
  discard(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#changed.clear();
    this.#lines.clear();
    this.#tails.clear();
  }

  /** Never rejects: where the storage cannot delete, the person is told. */
  async clear(): Promise<void> {
    this.discard();
    const storage = this.#failed ?? this.#storage;
    const clear = () => storage.clear(this.#scope);
    for (const late of this.#unanswered) void late.then(clear).catch(() => {});
    try {
      await inTime(clear());
    } catch {
      this.#onTrouble("What this device remembers could not be deleted.");
    }
    await this.#closeQuietly(storage);
  }

  async close(): Promise<void> {
    await this.flush();
    this.#hasStarted = false;
    this.#isClosed = true;
    await this.#writing;
    await this.#closeQuietly(this.#failed ?? this.#storage);
  }

  async #closeQuietly(storage: Storage): Promise<void> {
    try {
      await inTime(storage.close(), CLOSES_WITHIN_MS);
    } catch {
      // What it holds ends with the process.
    }
  }

  // The storage itself

  async read(kind: StorageKind, keys?: readonly string[]): Promise<Map<string, unknown>> {
    // A look at a client that has ended does not open the files again.
    if (this.#isClosed) return new Map();
    try {
      return await inTime(this.#storage.read(this.#scope, kind, keys));
    } catch (error) {
      // Going on in memory would send what the other process sends, and lose what is written here.
      if (!this.#hasStarted && codeOf(error) === "storage_in_use") throw error;
      this.#fallBack();
      return new Map();
    }
  }

  /** Resolves when the changes are kept, as far as they can be. */
  write(changes: readonly StorageChange[]): Promise<void> {
    const written = this.#write(changes);
    this.#writing = Promise.all([this.#writing, written]).then(() => {});
    return written;
  }

  async #write(changes: readonly StorageChange[]): Promise<void> {
    const storage = this.#storage;
    try {
      await inTime(this.#tracked(storage, changes));
    } catch {
      this.#fallBack();
      await this.#storage.write(this.#scope, changes);
    }
    if (this.#failed) await this.#removeFromFailed(this.#failed, changes.filter(({ value }) => value === undefined));
  }

  async #tracked(storage: Storage, changes: readonly StorageChange[]): Promise<void> {
    const written = storage.write(this.#scope, changes);
    const settled: Promise<unknown> = written.catch(() => {}).finally(() => this.#unanswered.delete(settled));
    this.#unanswered.add(settled);
    await written;
  }

  /** What was taken back must not come back at the next start. */
  async #removeFromFailed(storage: Storage, removed: readonly StorageChange[]): Promise<void> {
    if (removed.length === 0) return;
    const remove = async () => storage.write(this.#scope, removed);
    for (const late of this.#unanswered) void late.then(remove).catch(() => {});
    await inTime(remove()).catch(() => {});
  }

  #fallBack(): void {
    if (this.#failed) return;
    this.#failed = this.#storage;
    this.#storage = memoryStorage();
    this.#onTrouble("This device cannot keep messages. Everything works, but what is not sent yet is lost when it is closed.");
  }
}
