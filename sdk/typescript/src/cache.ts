// Decides which state of the client is stored, how much of it, and when. If the storage fails, the
// cache continues in memory, so no other module handles storage errors. The storage formats do not
// belong here.

import { codeOf } from "./errors.ts";
import type { MessageBody } from "./generated.ts";
import type { KnownName } from "./people.ts";
import { memoryStorage } from "./storage/memory.ts";
import type { Storage, StorageChange, StorageKind } from "./storage/storage.ts";
import type { ConversationState } from "./conversation-state.ts";
import type { ConversationStates } from "./conversation-states.ts";
import { storedMessage } from "./timeline.ts";
import type { InboxEntry, Profile } from "./types.ts";

/** The delay of a write after a quiet period. A crash loses the changes of this time. */
const WRITE_AFTER_MS = 50;
/** The minimum time between two writes. A shorter time costs more disk writes under load. */
const WRITE_EVERY_MS = 500;
/** Upper bound on the stored inbox entries. It bounds the storage; a start shows at most these. */
const KEPT_ENTRIES = 200;
/** Upper bound on the stored messages of each conversation. It bounds the storage. */
const KEPT_MESSAGES = 100;
/** Upper bound on the conversations whose messages `load` restores. `restore` reads the others. */
const READ_AT_START = 50;

/**
 * Upper bound on a storage call. The client sends no message before it is stored, so the cache
 * treats a storage that does not answer as failed.
 */
const ANSWERS_WITHIN_MS = 5_000;
/** Upper bound on closing the storage. No later step depends on the result. */
const CLOSES_WITHIN_MS = 1_000;

/** Rejects if the work takes longer than the limit. */
function inTime<Answer>(work: Promise<Answer>, limit_ms = ANSWERS_WITHIN_MS): Promise<Answer> {
  let timer: ReturnType<typeof setTimeout>;
  const late = new Promise<never>((_, reject) => (timer = setTimeout(() => reject(new Error("no answer")), limit_ms)));
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/** The stored record of an inbox entry. */
interface EntryRecord {
  readonly epoch: number;
  readonly entry: InboxEntry;
  readonly have_seq: number;
}

/** The stored record of the newest messages of a conversation. */
interface MessagesRecord {
  readonly epoch: number;
  readonly messages: readonly MessageBody[];
  readonly reaches_start: boolean;
}

export class Cache {
  #storage: Storage;
  #scope: string;
  #states: ConversationStates;
  #onTrouble: (text: string) => void;
  /** The storage that failed. The cache still removes records from it where possible. */
  #failed: Storage | null = null;
  /** Writes without an answer. A write that timed out may still take effect. */
  #unanswered = new Set<Promise<unknown>>();
  /** The epoch of the remembered data; null before the first welcome. */
  epoch: number | null = null;
  #changed = new Map<string, StorageChange>();
  #entries = new Set<ConversationState>();
  #tails = new Set<ConversationState>();
  /** The stored conversations, with the time of their last activity. */
  #keptEntries = new Map<string, number>();
  #timer: ReturnType<typeof setTimeout> | null = null;
  #wroteAt_ms = 0;
  #hasStarted = false;
  #isClosed = false;
  #writing = Promise.resolve();

  constructor(storage: Storage, scope: string, states: ConversationStates, onTrouble: (text: string) => void) {
    this.#storage = storage;
    this.#scope = scope;
    this.#states = states;
    this.#onTrouble = onTrouble;
  }

  // Loading

  /** Reads what `start` needs. Rejects only with `storage_in_use`. */
  async load(): Promise<{ outbox: Map<string, unknown>; names: Map<string, KnownName>; profile: Profile | undefined }> {
    const meta = await this.read("meta");
    this.epoch = (meta.get("epoch") as number | undefined) ?? null;
    await this.#loadEntries();
    const names = (await this.read("people")) as Map<string, KnownName>;
    const outbox = await this.read("outbox");
    for (const trouble of this.#storage.troubles?.() ?? []) this.#onTrouble(trouble);
    return { outbox, names, profile: meta.get("profile") as Profile | undefined };
  }

  async #loadEntries(): Promise<void> {
    const records = [...(await this.read("inbox"))] as [string, EntryRecord][];
    const states = [];
    for (const [id, { epoch, entry, have_seq }] of records) {
      this.#keptEntries.set(id, entry.last_at);
      // A tab that did not know the new epoch yet wrote this record.
      if (epoch !== this.epoch) continue;
      const state = this.#states.get(id);
      state.remember(entry, have_seq);
      states.push(state);
    }
    states.sort((one, other) => (other.entry?.last_at ?? 0) - (one.entry?.last_at ?? 0));
    await this.#restore(states.slice(0, READ_AT_START), true);
  }

  /** Restores the stored messages of a conversation, unless they were restored before. */
  async restore(state: ConversationState): Promise<void> {
    if (!state.isRestored) await this.#restore([state], false);
  }

  async #restore(states: readonly ConversationState[], mayAskAgain: boolean): Promise<void> {
    const records = (await this.read("messages", states.map(({ id }) => id))) as Map<string, MessagesRecord>;
    for (const state of states) {
      if (state.isRestored) continue;
      state.isRestored = true;
      const record = records.get(state.id);
      if (!record || record.epoch !== this.epoch) continue;
      state.restore(record.messages.map(storedMessage), record.reaches_start, mayAskAgain);
      this.#states.used(state);
    }
  }

  // Changes

  entryChanged(state: ConversationState): void {
    this.#entries.add(state);
    this.#schedule();
  }

  messagesChanged(state: ConversationState): void {
    this.#tails.add(state);
    this.entryChanged(state);
  }

  keepPerson(userId: string, name: KnownName | undefined): void {
    this.put({ kind: "people", key: userId, value: name });
  }

  keepProfile(profile: Profile): void {
    this.put({ kind: "meta", key: "profile", value: profile });
  }

  /** Removes the stored records of a conversation that the user has left. */
  forget(state: ConversationState): void {
    this.#entries.delete(state);
    this.#tails.delete(state);
    this.#keptEntries.delete(state.id);
    this.put({ kind: "inbox", key: state.id });
    this.put({ kind: "messages", key: state.id });
  }

  /**
   * Sets the epoch of the server. Returns false if the server's store was restored to an earlier
   * state. The stored records may then contain messages that no longer exist, so the cache drops
   * them.
   */
  setEpoch(epoch: number): boolean {
    if (this.epoch === epoch) return true;
    const isSame = this.epoch === null;
    this.epoch = epoch;
    // Entries that are not written yet came with the first welcome, so they belong to this epoch.
    // After a change of epoch the cache drops them.
    if (!isSame) {
      this.#entries.clear();
      this.#tails.clear();
    }
    const stale = [...this.#keptEntries.keys()];
    this.#keptEntries.clear();
    const removed = (["inbox", "messages"] as const).flatMap((kind) => stale.map((key) => ({ kind, key })));
    void this.write([{ kind: "meta", key: "epoch", value: epoch }, ...removed]);
    if (this.#entries.size > 0 || this.#tails.size > 0) this.#schedule();
    return isSame;
  }

  /** Writes the change soon, together with others. */
  put(change: StorageChange): void {
    this.#changed.set(`${change.kind} ${change.key}`, change);
    this.#schedule();
  }

  #schedule(): void {
    if (!this.#hasStarted || this.#timer) return;
    const pause_ms = Math.max(WRITE_AFTER_MS, this.#wroteAt_ms + WRITE_EVERY_MS - Date.now());
    this.#timer = setTimeout(() => void this.flush(), Math.min(pause_ms, WRITE_EVERY_MS));
  }

  start(): void {
    this.#hasStarted = true;
  }

  /** Writes all pending changes. */
  async flush(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#wroteAt_ms = Date.now();
    // The epoch is unknown before the first welcome, so messages wait for it.
    const tails = this.epoch === null ? [] : [...this.#tails];
    for (const tail of tails) this.#tails.delete(tail);
    // Messages that arrived after an eviction must not replace the stored ones before them, so
    // restore these first. If no conversation needs that, the write starts in this turn, because
    // the page may be closing.
    const partial = tails.filter(({ isRestored }) => !isRestored);
    if (partial.length > 0) await this.#restore(partial, false);
    const changes = [...this.#changed.values()];
    this.#changed.clear();
    if (this.epoch !== null) changes.push(...this.#entryChanges(this.epoch), ...this.#tailChanges(this.epoch, tails), ...this.#excess());
    if (changes.length > 0) await this.write(changes);
  }

  #entryChanges(epoch: number): StorageChange[] {
    const changes: StorageChange[] = [];
    for (const { id, entry, haveSeq, isListed } of this.#entries) {
      if (!entry || !isListed) continue;
      this.#keptEntries.set(id, entry.last_at);
      const value: EntryRecord = { epoch, entry, have_seq: haveSeq ?? 0 };
      changes.push({ kind: "inbox", key: id, value });
    }
    this.#entries.clear();
    return changes;
  }

  #tailChanges(epoch: number, states: readonly ConversationState[]): StorageChange[] {
    const changes: StorageChange[] = [];
    for (const { id, timeline, isListed } of states) {
      if (!isListed || !timeline.isLive) continue;
      const tail = timeline.messages.slice(-KEPT_MESSAGES);
      // Do not store a lost message or the messages before it. The client fetches them at the next
      // start, and the stored messages stay contiguous.
      const kept = tail.slice(tail.map(({ content_type }) => content_type).lastIndexOf("lost") + 1);
      const reaches_start = timeline.reachesStart && kept.length === timeline.messages.length;
      const messages = kept.map(({ state: _, failure: __, ...body }) => body);
      const value: MessagesRecord = { epoch, messages, reaches_start };
      changes.push({ kind: "messages", key: id, value });
    }
    return changes;
  }

  #excess(): StorageChange[] {
    if (this.#keptEntries.size <= KEPT_ENTRIES * 1.1) return [];
    const oldestFirst = [...this.#keptEntries].sort(([, one], [, other]) => one - other);
    const excess = oldestFirst.slice(0, this.#keptEntries.size - KEPT_ENTRIES).map(([id]) => id);
    for (const id of excess) this.#keptEntries.delete(id);
    return (["inbox", "messages"] as const).flatMap((kind) => excess.map((key) => ({ kind, key })));
  }

  /** Drops the pending changes. */
  discard(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#changed.clear();
    this.#entries.clear();
    this.#tails.clear();
  }

  /**
   * Deletes the stored records of the user. Never rejects: if the deletion fails, the cache reports
   * it with `trouble`.
   */
  async clear(): Promise<void> {
    this.discard();
    const storage = this.#failed ?? this.#storage;
    const clear = () => storage.clear(this.#scope);
    for (const late of this.#unanswered) void late.then(clear).catch(() => {});
    try {
      await inTime(clear());
    } catch {
      this.#onTrouble("The data on this device could not be deleted.");
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
      // The process frees the resources when it ends.
    }
  }

  // Storage calls

  async read(kind: StorageKind, keys?: readonly string[]): Promise<Map<string, unknown>> {
    // A read after `close` must not open the files again.
    if (this.#isClosed) return new Map();
    try {
      return await inTime(this.#storage.read(this.#scope, kind, keys));
    } catch (error) {
      // Another process uses the storage. In memory, this client would send the messages of that
      // process again, and lose its own.
      if (!this.#hasStarted && codeOf(error) === "storage_in_use") throw error;
      this.#fallBack();
      return new Map();
    }
  }

  /**
   * Writes changes. Resolves when they are stored, or when they are in memory because the storage
   * failed.
   */
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

  /**
   * Removes records from the failed storage as well, so that cancelled messages do not come back at
   * the next start.
   */
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
    this.#onTrouble("This device cannot store messages. Unsent messages are lost when the app is closed.");
  }
}
