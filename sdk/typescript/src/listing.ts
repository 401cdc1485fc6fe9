// Reads the pages of the inbox, one reader at a time: more of it when the person comes to its end, and all that was there
// anew after a pause.

import type { Api } from "./api.ts";
import type { Changes } from "./changes.ts";
import type { InboxEntryBody } from "./generated.ts";
import type { Inbox } from "./inbox.ts";
import type { Later } from "./later.ts";
import type { Threads } from "./threads.ts";

const PAGE = 50;
/** Lines that are asked for again after a pause. */
const KEPT_LINES = 200;

export interface ListingPorts {
  readonly api: Api;
  readonly inbox: Inbox;
  readonly threads: Threads;
  readonly changes: Changes;
  readonly later: Later;
  learn(entry: InboxEntryBody): void;
  /** Frames told of it since the connection stands, so that it stays whatever an older page says. */
  isNoticed(conversationId: string): boolean;
}

export class Listing {
  #ports: ListingPorts;
  #reading: Promise<unknown> = Promise.resolve();
  #mustReload = false;

  constructor(ports: ListingPorts) {
    this.#ports = ports;
  }

  /** Reads anew as much of the list as there was, and lets go of lines of which nobody speaks any more. */
  reload(): void {
    const { later } = this.#ports;
    if (this.#mustReload || later.isStopped) return;
    this.#mustReload = true;
    this.#inTurn(() => this.#reload()).catch((error: unknown) => later.again(() => this.reload(), error));
  }

  loadMore(archived: boolean): Promise<void> {
    return this.#inTurn(async () => void (await this.#loadPage(archived)));
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#reading.then(work);
    this.#reading = done.catch(() => {});
    return done;
  }

  async #reload(): Promise<void> {
    const { inbox, threads, changes, isNoticed } = this.#ports;
    this.#mustReload = false;
    const confirmed = new Set<string>();
    for (const archived of [false, true]) {
      let wanted = Math.min(inbox.entries(archived).length, KEPT_LINES);
      inbox.setCursor(archived, undefined);
      do {
        const ids = await this.#loadPage(archived);
        for (const id of ids) confirmed.add(id);
        wanted -= ids.length;
      } while (wanted > 0 && inbox.hasMore(archived));
    }
    for (const thread of threads.all()) {
      if (thread.isListed && !confirmed.has(thread.id) && !isNoticed(thread.id)) thread.isListed = false;
    }
    inbox.relist();
    changes.mark("inbox");
  }

  /** The next page of one part of the list. */
  async #loadPage(archived: boolean): Promise<string[]> {
    const { api, inbox, learn } = this.#ports;
    const cursor = inbox.cursor(archived);
    if (cursor === null) return [];
    const page = await api.inbox({ limit: PAGE, archived, ...(cursor ? { cursor } : {}) });
    inbox.setCursor(archived, page.next_cursor);
    for (const entry of page.conversations) learn(entry);
    return page.conversations.map(({ conversation_id }) => conversation_id);
  }
}
