// The list of conversations: its order, and its pages. What a line says is decided by its thread.

import type { Thread } from "./thread.ts";
import type { Threads } from "./threads.ts";
import type { InboxEntry } from "./types.ts";

interface Part {
  entries: readonly InboxEntry[];
  /** Of the next page; null at the end, undefined before the first page. */
  cursor: string | null | undefined;
}

/** In the server's order. */
function order(one: Thread, other: Thread): number {
  const left = one.entry as InboxEntry;
  const right = other.entry as InboxEntry;
  if (left.archived !== right.archived) return left.archived ? 1 : -1;
  if (left.pinned !== right.pinned && !left.archived) return left.pinned ? -1 : 1;
  return right.last_at - left.last_at || (one.id < other.id ? -1 : 1);
}

export class Inbox {
  #threads: Threads;
  #loadPage: (archived: boolean) => Promise<void>;
  #parts: Record<"main" | "archived", Part> = {
    main: { entries: [], cursor: undefined },
    archived: { entries: [], cursor: undefined },
  };
  /** As it was at the last look: almost in order already, so that bringing it into order takes one pass. */
  #sorted: Thread[] = [];
  #isStale = true;
  #mustList = true;
  #unreadTotal = 0;
  #isLoading = false;

  /** Use `client.inbox`. */
  constructor(threads: Threads, loadPage: (archived: boolean) => Promise<void>) {
    this.#threads = threads;
    this.#loadPage = loadPage;
  }

  /** Pinned first, then the latest; archived ones apart. The same array until something in the inbox changed. */
  entries(archived = false): readonly InboxEntry[] {
    this.#refresh();
    return this.#part(archived).entries;
  }

  /** Unread messages of what is listed here and neither archived nor muted. */
  get unreadTotal(): number {
    this.#refresh();
    return this.#unreadTotal;
  }

  /** Whether the server has more of the list. True before anything is known. */
  hasMore(archived = false): boolean {
    return this.#part(archived).cursor !== null;
  }

  get loading(): boolean {
    return this.#isLoading;
  }

  /** The person came to the end of what is listed. Rejects when the page cannot be had. */
  async loadMore(archived = false): Promise<void> {
    if (this.#isLoading || !this.hasMore(archived)) return;
    this.#isLoading = true;
    try {
      await this.#loadPage(archived);
    } finally {
      this.#isLoading = false;
    }
  }

  /** @internal */
  cursor(archived: boolean): string | null | undefined {
    return this.#part(archived).cursor;
  }

  /** @internal */
  setCursor(archived: boolean, cursor: string | null | undefined): void {
    this.#part(archived).cursor = cursor;
  }

  /** @internal Something about a line changed. */
  touch(): void {
    this.#isStale = true;
  }

  /** @internal A line came or went. */
  relist(): void {
    this.#isStale = true;
    this.#mustList = true;
  }

  #part(archived: boolean): Part {
    return archived ? this.#parts.archived : this.#parts.main;
  }

  #refresh(): void {
    if (!this.#isStale) return;
    this.#isStale = false;
    if (this.#mustList) this.#sorted = [...this.#threads.all()].filter(({ isListed, entry }) => isListed && entry !== undefined);
    this.#mustList = false;
    this.#sorted.sort(order);
    const main: InboxEntry[] = [];
    const archived: InboxEntry[] = [];
    this.#unreadTotal = 0;
    for (const { entry } of this.#sorted) {
      if (!entry) continue;
      (entry.archived ? archived : main).push(entry);
      if (!entry.archived && !entry.muted) this.#unreadTotal += entry.unread;
    }
    this.#parts.main.entries = main;
    this.#parts.archived.entries = archived;
  }
}
