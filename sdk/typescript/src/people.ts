// The display names of users: caches known names and fetches unknown ones in batches. Profiles and
// presence do not belong here.

import type { Api } from "./api.ts";
import type { Cache } from "./cache.ts";
import type { Changes } from "./changes.ts";
import { codeOf } from "./errors.ts";
import type { PersonBody } from "./generated.ts";
import type { Person } from "./types.ts";

/** How long requests for names are collected before one call. A shorter time causes more calls. */
const FETCH_AFTER_MS = 20;
/** The delay after a failed call. Until then, users appear with their user ids. */
const RETRY_AFTER_MS = 30_000;
/** Upper bound on the names of one call. The server refuses more. */
const PER_CALL = 100;
/** A name that is older than this is fetched again when it is next read. */
const FRESH_FOR_MS = 86_400_000;
/** Upper bound on the cached names. It bounds memory; the latest are kept. */
const CACHED_NAMES = 20_000;
/** Upper bound on the stored names. It bounds the storage; the latest are kept. */
const STORED_NAMES = 2_000;
/**
 * A name stays in the cache at least this long, beyond `CACHED_NAMES` if necessary. Otherwise a
 * group larger than the cache would fetch its names again and again.
 */
const KEPT_AT_LEAST_MS = 3_600_000;

/** A name as it is cached and stored. */
export interface KnownName {
  readonly display_name: string | null;
  readonly at_ms: number;
}

/** The display names of users. Get it from `client.people`. */
export class People {
  #api: Api;
  #changes: Changes;
  #cache: Cache;
  #now: () => number;
  /** The cached names, the oldest first. */
  #names = new Map<string, KnownName>();
  #stored = new Set<string>();
  #requested = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | null = null;
  /** Whether the server is too old to know names. */
  #isUnsupported = false;
  #isStopped = false;

  /** Use `client.people`. */
  constructor(api: Api, changes: Changes, cache: Cache, now: () => number) {
    this.#api = api;
    this.#changes = changes;
    this.#cache = cache;
    this.#now = now;
  }

  /**
   * Returns the display name of a user. Returns the user id while the name is unknown, or if the
   * user has none. Call it at every render; the client fetches unknown names in the background.
   */
  name(userId: string): string {
    const known = this.#names.get(userId);
    if (!known || this.#now() - known.at_ms > FRESH_FOR_MS) this.#request(userId);
    return known?.display_name ?? userId;
  }

  /** Returns users whose user id, or a word of whose name, starts with the text. */
  async search(text: string, limit = 10): Promise<readonly Person[]> {
    if (text.trim() === "") return [];
    try {
      const { people } = await this.#api.searchPeople(text.trim(), limit);
      this.#learn(people);
      return people.map(({ user_id, display_name }) => ({ userId: user_id, name: display_name ?? user_id }));
    } catch (error) {
      if (codeOf(error) === "not_found") return [];
      throw error;
    }
  }

  /** @internal */
  restore(names: ReadonlyMap<string, KnownName>): void {
    const oldestFirst = [...names].sort(([, one], [, other]) => one.at_ms - other.at_ms);
    for (const [userId, name] of oldestFirst) {
      this.#names.set(userId, name);
      this.#stored.add(userId);
    }
  }

  /** @internal */
  stop(): void {
    this.#isStopped = true;
    if (this.#timer) clearTimeout(this.#timer);
  }

  #request(userId: string): void {
    if (this.#isUnsupported || this.#isStopped || this.#requested.has(userId)) return;
    this.#requested.add(userId);
    this.#timer ??= setTimeout(() => void this.#fetchRequested(), FETCH_AFTER_MS);
  }

  /**
   * Fetches the requested names, one call at a time. The timer stays set while names are missing.
   */
  async #fetchRequested(): Promise<void> {
    const requested = [...this.#requested].slice(0, PER_CALL);
    let pause_ms = FETCH_AFTER_MS;
    try {
      const { people } = await this.#api.people(requested);
      const found = new Map(people.map((person) => [person.user_id, person]));
      this.#learn(requested.map((user_id) => found.get(user_id) ?? { user_id, display_name: null }));
      for (const userId of requested) this.#requested.delete(userId);
    } catch (error) {
      this.#isUnsupported = codeOf(error) === "not_found";
      pause_ms = RETRY_AFTER_MS;
    }
    this.#timer = null;
    if (this.#isUnsupported || this.#isStopped || this.#requested.size === 0) return;
    this.#timer = setTimeout(() => void this.#fetchRequested(), pause_ms);
  }

  #learn(people: readonly PersonBody[]): void {
    let hasChanged = false;
    for (const { user_id, display_name } of people) {
      hasChanged ||= this.#names.get(user_id)?.display_name !== display_name;
      const name = { display_name, at_ms: this.#now() };
      this.#names.delete(user_id);
      this.#names.set(user_id, name);
      this.#stored.delete(user_id);
      this.#stored.add(user_id);
      this.#cache.keepPerson(user_id, name);
    }
    this.#evict();
    if (hasChanged) this.#changes.add("people");
  }

  #evict(): void {
    for (const userId of this.#stored) {
      if (this.#stored.size <= STORED_NAMES) break;
      this.#stored.delete(userId);
      this.#cache.keepPerson(userId, undefined);
    }
    for (const [userId, { at_ms }] of this.#names) {
      if (this.#names.size <= CACHED_NAMES || this.#now() - at_ms < KEPT_AT_LEAST_MS) break;
      this.#names.delete(userId);
    }
  }
}
