// What people are called: names that are known, and the fetching of those that are not, many at once.

import type { Api } from "./api.ts";
import type { Cache } from "./cache.ts";
import type { Changes } from "./changes.ts";
import { codeOf } from "./errors.ts";
import type { PersonBody } from "./generated.ts";
import type { Person } from "./types.ts";

const ASK_AFTER_MS = 20;
const AGAIN_AFTER_MS = 30_000;
const PER_CALL = 100;
/** A name that was learned longer ago is asked for again when it is next wanted. */
const GOOD_FOR_MS = 86_400_000;
/** Names at hand, and those of them that are remembered between visits: the latest. */
const KEPT = 20_000;
const KEPT_BETWEEN_VISITS = 2_000;
/** What was answered is not asked for again within this time, so it is not let go either, however many there are. */
const NOT_AGAIN_WITHIN_MS = 3_600_000;

export interface KnownName {
  readonly display_name: string | null;
  readonly at_ms: number;
}

export class People {
  #api: Api;
  #changes: Changes;
  #cache: Cache;
  #now: () => number;
  /** Those learned longest ago come first. */
  #names = new Map<string, KnownName>();
  #remembered = new Set<string>();
  #wanted = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | null = null;
  /** An older server knows no names. */
  #isUnsupported = false;
  #isStopped = false;

  /** Use `client.people`. */
  constructor(api: Api, changes: Changes, cache: Cache, now: () => number) {
    this.#api = api;
    this.#changes = changes;
    this.#cache = cache;
    this.#now = now;
  }

  /** What somebody is called; their user id until the name is known, or where they gave none. May be called at every drawing. */
  name(userId: string): string {
    const known = this.#names.get(userId);
    if (!known || this.#now() - known.at_ms > GOOD_FOR_MS) this.#want(userId);
    return known?.display_name ?? userId;
  }

  /** Whose user id, or a word of whose name, begins with the text. */
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
      this.#remembered.add(userId);
    }
  }

  /** @internal */
  stop(): void {
    this.#isStopped = true;
    if (this.#timer) clearTimeout(this.#timer);
  }

  #want(userId: string): void {
    if (this.#isUnsupported || this.#isStopped || this.#wanted.has(userId)) return;
    this.#wanted.add(userId);
    this.#timer ??= setTimeout(() => void this.#ask(), ASK_AFTER_MS);
  }

  /** One question at a time: the timer stays until there is nobody left to ask about. */
  async #ask(): Promise<void> {
    const asked = [...this.#wanted].slice(0, PER_CALL);
    let pause_ms = ASK_AFTER_MS;
    try {
      const { people } = await this.#api.people(asked);
      const found = new Map(people.map((person) => [person.user_id, person]));
      this.#learn(asked.map((user_id) => found.get(user_id) ?? { user_id, display_name: null }));
      for (const userId of asked) this.#wanted.delete(userId);
    } catch (error) {
      this.#isUnsupported = codeOf(error) === "not_found";
      pause_ms = AGAIN_AFTER_MS;
    }
    this.#timer = null;
    if (this.#isUnsupported || this.#isStopped || this.#wanted.size === 0) return;
    this.#timer = setTimeout(() => void this.#ask(), pause_ms);
  }

  #learn(people: readonly PersonBody[]): void {
    let isNews = false;
    for (const { user_id, display_name } of people) {
      isNews ||= this.#names.get(user_id)?.display_name !== display_name;
      const name = { display_name, at_ms: this.#now() };
      this.#names.delete(user_id);
      this.#names.set(user_id, name);
      this.#remembered.delete(user_id);
      this.#remembered.add(user_id);
      this.#cache.keepPerson(user_id, name);
    }
    this.#letGo();
    if (isNews) this.#changes.mark("people");
  }

  #letGo(): void {
    for (const userId of this.#remembered) {
      if (this.#remembered.size <= KEPT_BETWEEN_VISITS) break;
      this.#remembered.delete(userId);
      this.#cache.keepPerson(userId, undefined);
    }
    for (const [userId, { at_ms }] of this.#names) {
      if (this.#names.size <= KEPT || this.#now() - at_ms < NOT_AGAIN_WITHIN_MS) break;
      this.#names.delete(userId);
    }
  }
}
