// Reads the pages of the inbox, one request at a time: further pages on demand, and all loaded
// pages again after a reconnect. The order of the inbox does not belong here; `inbox.ts` has it.

import type { Api } from "./api.ts";
import type { Changes } from "./changes.ts";
import type { InboxEntryBody } from "./generated.ts";
import type { Inbox } from "./inbox.ts";
import type { RetryTimers } from "./retry-timers.ts";
import type { ConversationStates } from "./conversation-states.ts";

/** The number of entries of a page. The server allows at most 50. */
const PAGE = 50;
/** Upper bound on the entries that a reload reads again. It bounds the requests per reconnect. */
const RELOADED_ENTRIES = 200;

/** The modules that the loader uses. */
export interface InboxLoaderPorts {
  readonly api: Api;
  readonly inbox: Inbox;
  readonly states: ConversationStates;
  readonly changes: Changes;
  readonly retries: RetryTimers;
  applyEntry(entry: InboxEntryBody): void;
  /**
   * Whether a frame of this connection was about the conversation. It then stays in the inbox even
   * if an older page does not list it.
   */
  hasActivity(conversationId: string): boolean;
}

export class InboxLoader {
  #ports: InboxLoaderPorts;
  #reading: Promise<unknown> = Promise.resolve();
  #mustReload = false;

  constructor(ports: InboxLoaderPorts) {
    this.#ports = ports;
  }

  /**
   * Reads all loaded pages again, and removes entries that no page lists any more. Tries again
   * later if it fails.
   */
  reload(): void {
    const { retries } = this.#ports;
    if (this.#mustReload || retries.isStopped) return;
    this.#mustReload = true;
    this.#enqueue(() => this.#reload()).catch((error: unknown) => retries.retry(() => this.reload(), error));
  }

  /** Reads the next page. Rejects if the request fails. */
  loadMore(archived: boolean): Promise<void> {
    return this.#enqueue(async () => void (await this.#loadPage(archived)));
  }

  #enqueue(work: () => Promise<void>): Promise<void> {
    const done = this.#reading.then(work);
    this.#reading = done.catch(() => {});
    return done;
  }

  async #reload(): Promise<void> {
    const { inbox, states, changes, hasActivity } = this.#ports;
    this.#mustReload = false;
    const confirmed = new Set<string>();
    for (const archived of [false, true]) {
      let wanted = Math.min(inbox.entries(archived).length, RELOADED_ENTRIES);
      inbox.setCursor(archived, undefined);
      do {
        const ids = await this.#loadPage(archived);
        for (const id of ids) confirmed.add(id);
        wanted -= ids.length;
      } while (wanted > 0 && inbox.hasMore(archived));
    }
    for (const state of states.all()) {
      if (state.isListed && !confirmed.has(state.id) && !hasActivity(state.id)) state.isListed = false;
    }
    inbox.relist();
    changes.add("inbox");
  }

  /**
   * Reads the next page of the inbox or of the archived conversations, and returns the ids on it.
   */
  async #loadPage(archived: boolean): Promise<string[]> {
    const { api, inbox, applyEntry } = this.#ports;
    const cursor = inbox.cursor(archived);
    if (cursor === null) return [];
    const page = await api.inbox({ limit: PAGE, archived, ...(cursor ? { cursor } : {}) });
    inbox.setCursor(archived, page.next_cursor);
    for (const entry of page.conversations) applyEntry(entry);
    return page.conversations.map(({ conversation_id }) => conversation_id);
  }
}
