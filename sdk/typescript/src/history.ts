// Loads pages of messages into the window of a conversation, one page at a time, and keeps the
// windows of open conversations up to date. The rules for joining pages do not belong here;
// `timeline.ts` has them.

import type { Api } from "./api.ts";
import type { Cache } from "./cache.ts";
import type { Changes } from "./changes.ts";
import { codeOf, messageOf } from "./errors.ts";
import type { PageBody } from "./generated.ts";
import type { Outbox } from "./outbox.ts";
import type { EphemeralState } from "./ephemeral-state.ts";
import type { Sync } from "./sync.ts";
import type { ConversationState } from "./conversation-state.ts";
import type { ConversationStates } from "./conversation-states.ts";
import { runOf } from "./timeline.ts";

/** The number of messages of a page. A larger page delays the first messages on a slow network. */
const PAGE = 50;
/**
 * Upper bound on the members of a conversation whose presence the client fetches. The answer lists
 * every member.
 */
const PRESENCE_MEMBERS = 100;
/** Upper bound on the pages that one load reads while the head moves. It bounds the requests. */
const CHASE_PAGES = 20;

/** The modules that the history uses. */
export interface HistoryPorts {
  readonly api: Api;
  readonly states: ConversationStates;
  readonly changes: Changes;
  readonly cache: Cache;
  readonly ephemeral: EphemeralState;
  readonly sync: Sync;
  readonly outbox: Outbox;
  isOnline(): boolean;
  onGone(conversationId: string): void;
}

/** The loads of all conversations of one client. */
export class History {
  #ports: HistoryPorts;
  #loading = new Map<ConversationState, Promise<void>>();

  constructor(ports: HistoryPorts) {
    this.#ports = ports;
  }

  // Open views

  open(state: ConversationState): () => void {
    state.openCount += 1;
    void this.bringUpToDate(state);
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      state.openCount -= 1;
      if (state.openCount > 0) return;
      this.#ports.states.cut(state);
      this.#ports.changes.addConversation(state.id);
    };
  }

  /** Brings an open conversation up to date; also called after every reconnect. */
  async bringUpToDate(state: ConversationState): Promise<void> {
    const { cache, sync, isOnline, changes, outbox } = this.#ports;
    await cache.restore(state);
    // The stored messages may contain messages of the outbox whose ack was lost.
    outbox.noteStoredByServer(state.timeline.messages);
    changes.addConversation(state.id);
    if (!isOnline() || state.openCount === 0) return;
    sync.noteActivity(state.id);
    if (!state.entry || !state.isListed) sync.refreshSoon(state);
    void this.#fetchPresence(state);
    sync.bringTicksUpToDate(state);
    const { timeline, window } = state;
    if (!timeline.isLive || (timeline.messages.length < PAGE && !window.reachesStart)) await this.loadNewest(state);
  }

  bringAllUpToDate(): void {
    for (const state of this.#ports.states.all()) if (state.openCount > 0) void this.bringUpToDate(state);
  }

  /** Loads newer messages if an open window no longer follows the head. */
  follow(state: ConversationState): void {
    if (state.openCount > 0 && !this.#loading.has(state)) void this.loadNewer(state);
  }

  /**
   * The server pushes the presence of the users in the latest conversations only, so fetch it for
   * the others.
   */
  async #fetchPresence(state: ConversationState): Promise<void> {
    const { api, ephemeral, changes } = this.#ports;
    if ((state.entry?.member_count ?? 2) > PRESENCE_MEMBERS) return;
    try {
      for (const presence of (await api.presence(state.id)).members) ephemeral.notePresence(presence);
      changes.addConversation(state.id);
    } catch {
      // The presence stays unknown.
    }
  }

  // Pages

  loadNewest(state: ConversationState): Promise<void> {
    return this.#load(state, async () => {
      const page = await this.#page(state, { limit: PAGE });
      state.timeline.takeNewest(page, Math.max(page.head_seq, state.headSeq));
      this.#applyPage(state, page);
      await this.#chase(state);
    });
  }

  loadOlder(state: ConversationState): Promise<void> {
    const { fromSeq, reachesStart } = state.window;
    if (fromSeq === 0) return this.loadNewest(state);
    if (reachesStart || this.#loading.has(state)) return this.#loading.get(state) ?? Promise.resolve();
    return this.#load(state, async () => {
      const page = await this.#page(state, { before_seq: state.timeline.fromSeq, limit: PAGE });
      state.timeline.takeOlder(page);
      this.#applyPage(state, page);
    });
  }

  loadNewer(state: ConversationState): Promise<void> {
    if (state.timeline.messages.length === 0) return this.loadNewest(state);
    if (state.timeline.isLive || this.#loading.has(state)) return this.#loading.get(state) ?? Promise.resolve();
    return this.#load(state, () => this.#newer(state));
  }

  async showAround(state: ConversationState, seq: number): Promise<void> {
    const { fromSeq, toSeq } = state.window;
    if (fromSeq > 0 && fromSeq <= seq && seq <= toSeq) return;
    await this.#load(state, async () => {
      const page = await this.#page(state, { before_seq: seq + PAGE / 2 + 1, limit: PAGE });
      const run = runOf(page);
      state.timeline.replace(run, page.next_before_seq === null, (run.at(-1)?.seq ?? 0) >= Math.max(page.head_seq, state.headSeq));
      this.#applyPage(state, page);
    });
  }

  showLatest(state: ConversationState): boolean {
    const { timeline, window, headSeq } = state;
    if (window.reachesHead) return true;
    if (!timeline.showTail(headSeq)) return false;
    state.error = state.errorCode = null;
    state.invalidate();
    this.#ports.changes.addConversation(state.id);
    return true;
  }

  trim(state: ConversationState, max: number, keep: "newer" | "older"): void {
    if (!state.timeline.trim(Math.max(1, max), keep)) return;
    state.invalidate();
    this.#ports.changes.addConversation(state.id);
  }

  async #newer(state: ConversationState): Promise<void> {
    const { timeline } = state;
    const page = await this.#page(state, { after_seq: timeline.toSeq, limit: PAGE });
    const headSeq = Math.max(page.head_seq, state.headSeq);
    const run = runOf(page);
    // A page that starts above the window means that the user may not see the messages in between.
    if ((run[0]?.seq ?? 0) > timeline.toSeq + 1) timeline.replace(run, true, (run.at(-1)?.seq ?? 0) >= headSeq);
    else timeline.takeNewer(page, headSeq);
    this.#applyPage(state, page);
  }

  /** Loads pages until the window reaches the head. */
  async #chase(state: ConversationState): Promise<void> {
    for (let pages = 0; pages < CHASE_PAGES && !state.timeline.isLive; pages += 1) {
      const before = state.timeline.toSeq;
      await this.#newer(state);
      if (state.timeline.toSeq === before) return;
    }
  }

  #page(state: ConversationState, query: { before_seq?: number; after_seq?: number; limit: number }): Promise<PageBody> {
    return this.#ports.api.messages(state.id, query);
  }

  #applyPage(state: ConversationState, page: PageBody): void {
    this.#ports.sync.notePage(state, runOf(page));
    state.invalidate();
  }

  /** Loads one page at a time per conversation. A failure is stored for `window.error`. */
  async #load(state: ConversationState, work: () => Promise<void>): Promise<void> {
    while (this.#loading.has(state)) await this.#loading.get(state);
    const done = this.#run(state, work);
    this.#loading.set(state, done);
    await done;
  }

  async #run(state: ConversationState, work: () => Promise<void>): Promise<void> {
    const { changes, onGone } = this.#ports;
    state.isLoading = true;
    state.error = state.errorCode = null;
    state.invalidate();
    changes.addConversation(state.id);
    try {
      await work();
    } catch (error) {
      state.error = messageOf(error);
      state.errorCode = codeOf(error) || null;
      if (state.errorCode === "conversation_not_found") onGone(state.id);
    }
    state.isLoading = false;
    this.#loading.delete(state);
    state.settleEarly();
    state.invalidate();
    changes.addConversation(state.id);
  }
}
