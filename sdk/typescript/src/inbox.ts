// The inbox: the order of the conversations and the position in the server's pages. The content of
// an entry does not belong here; `conversation-state.ts` has it.

import type { ConversationState } from "./conversation-state.ts";
import type { ConversationStates } from "./conversation-states.ts";
import type { InboxEntry } from "./types.ts";

interface Part {
  entries: readonly InboxEntry[];
  /** The cursor of the next page; null after the last page, undefined before the first. */
  cursor: string | null | undefined;
}

/** Compares two conversations in the server's order. */
function order(one: ConversationState, other: ConversationState): number {
  const left = one.entry as InboxEntry;
  const right = other.entry as InboxEntry;
  if (left.archived !== right.archived) return left.archived ? 1 : -1;
  if (left.pinned !== right.pinned && !left.archived) return left.pinned ? -1 : 1;
  return right.last_at - left.last_at || (one.id < other.id ? -1 : 1);
}

/** The inbox of the user. Get it from `client.inbox`. */
export class Inbox {
  #states: ConversationStates;
  #loadPage: (archived: boolean) => Promise<void>;
  #parts: Record<"main" | "archived", Part> = {
    main: { entries: [], cursor: undefined },
    archived: { entries: [], cursor: undefined },
  };
  /**
   * The conversations in the order of the last refresh. Few of them move in between, so sorting
   * takes about one pass.
   */
  #sorted: ConversationState[] = [];
  #isStale = true;
  #mustList = true;
  #unreadTotal = 0;
  #isLoading = false;

  /** Use `client.inbox`. */
  constructor(states: ConversationStates, loadPage: (archived: boolean) => Promise<void>) {
    this.#states = states;
    this.#loadPage = loadPage;
  }

  /**
   * The entries: pinned conversations first, then by latest activity. Archived conversations are
   * separate. The array stays the same object until something in the inbox changes.
   */
  entries(archived = false): readonly InboxEntry[] {
    this.#refresh();
    return this.#part(archived).entries;
  }

  /**
   * The number of unread messages in the loaded conversations that are neither archived nor muted.
   */
  get unreadTotal(): number {
    this.#refresh();
    return this.#unreadTotal;
  }

  /** Whether the server has more entries. True before the first page. */
  hasMore(archived = false): boolean {
    return this.#part(archived).cursor !== null;
  }

  /** Whether `loadMore` is in progress. */
  get loading(): boolean {
    return this.#isLoading;
  }

  /** Loads the next page. Rejects if the request fails. */
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

  /** @internal An entry changed. */
  invalidate(): void {
    this.#isStale = true;
  }

  /** @internal A conversation was added or removed. */
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
    if (this.#mustList) this.#sorted = [...this.#states.all()].filter(({ isListed, entry }) => isListed && entry !== undefined);
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
