// Keeps this device in sync with the server: applies entries and messages to the conversations, and
// fetches missing messages. Windows do not belong here; `history.ts` loads them.

import { ReceiptSender } from "./receipt-sender.ts";
import type { Api } from "./api.ts";
import type { Cache } from "./cache.ts";
import type { Changes } from "./changes.ts";
import { BluetickError, codeOf } from "./errors.ts";
import type { BacklogFrame, ClientFrame, ConversationDetailBody, HelloFrame, InboxEntryBody, MemberBody, MessageBody, ReceiptsFrame, StatusFrame } from "./generated.ts";
import type { Inbox } from "./inbox.ts";
import { RetryTimers } from "./retry-timers.ts";
import { InboxLoader } from "./inbox-loader.ts";
import type { Outbox } from "./outbox.ts";
import type { EphemeralState } from "./ephemeral-state.ts";
import { isVoid, SMALL_GROUP } from "./conversation-state.ts";
import type { ConversationState } from "./conversation-state.ts";
import type { ConversationStates } from "./conversation-states.ts";
import { runOf, storedMessage } from "./timeline.ts";
import type { StoredMessage } from "./timeline.ts";
import { RequestQueue } from "./request-queue.ts";

/** Upper bound on the conversations in a hello, the most recently active. It bounds the frame. */
const MAX_POSITIONS = 200;
/** The number of messages of a page of missing messages: the maximum of the server. */
const MISSING_PAGE = 100;
/** Upper bound on the pages that are fetched for one conversation before another one is served. */
const PAGES_IN_A_ROW = 5;
/** Upper bound on concurrent refreshes of conversations. More would delay the user's requests. */
const PARALLEL_REFRESHES = 4;

const mayRetry = (error: unknown): boolean => !(error instanceof BluetickError) || error.isRetryable;

/** The callbacks by which the sync uses the client. */
export interface SyncPorts {
  readonly userId: string;
  readonly random: () => number;
  readonly api: Api;
  readonly states: ConversationStates;
  readonly changes: Changes;
  readonly cache: Cache;
  readonly ephemeral: EphemeralState;
  readonly outbox: Outbox;
  readonly inbox: Inbox;
  send(frame: ClientFrame): boolean;
  isCaughtUp(): boolean;
  /** The user is not in the conversation any more. */
  onGone(conversationId: string): void;
  /** The entry of a conversation is known. */
  onEntryKnown(conversationId: string): void;
  /** The user has read messages on this device. */
  onRead(conversationId: string, seq: number): void;
  /** The window of a conversation no longer follows the head. */
  onWindowLost(state: ConversationState): void;
}

/** The sync of one client. */
export class Sync {
  #ports: SyncPorts;
  #receipts: ReceiptSender;
  #loader: InboxLoader;
  #retries = new RetryTimers();
  /** Conversations with a frame on this connection. */
  #active = new Set<string>();
  /**
   * Conversations without an entry for which the server pushes only a part of the missed messages.
   */
  #behind = new Set<string>();
  /**
   * By conversation without an entry, the latest frame of each user. The entry may be older than
   * these frames.
   */
  #earlyFrames = new Map<string, Map<string, StatusFrame | ReceiptsFrame>>();
  #refreshes: RequestQueue;
  /** Fetches missing messages, one conversation at a time. */
  #fetches: RequestQueue;
  /** The version of the statuses that a request in progress fetches. */
  #fetchingStatuses = new Map<ConversationState, number>();

  constructor(ports: SyncPorts) {
    this.#ports = ports;
    const { states, api, inbox, changes, random } = ports;
    this.#refreshes = new RequestQueue(PARALLEL_REFRESHES, random);
    this.#fetches = new RequestQueue(1, random);
    this.#receipts = new ReceiptSender(states, api, {
      send: (frame) => ports.send(frame),
      onReadReported: (id) => this.refreshSoon(states.get(id)),
      onDelivered: (state) => this.#entryChanged(state),
    });
    this.#loader = new InboxLoader({
      api,
      inbox,
      states,
      changes,
      retries: this.#retries,
      applyEntry: (entry) => this.applyEntry(entry),
      hasActivity: (id) => this.#active.has(id),
    });
  }

  stop(): void {
    this.#receipts.stop();
    this.#retries.stop();
    this.#refreshes.stop();
    this.#fetches.stop();
  }

  #entryChanged(state: ConversationState): void {
    const { cache, inbox, changes } = this.#ports;
    cache.entryChanged(state);
    inbox.invalidate();
    changes.add("inbox");
    changes.addConversation(state.id);
  }

  // Connection

  /** The seq that the device has of each recent conversation, for the hello. */
  positions(): NonNullable<HelloFrame["positions"]> {
    const { cache, states } = this.#ports;
    const { epoch } = cache;
    if (epoch === null) return {};
    const known = [...states.all()].filter(({ haveSeq, entry }) => haveSeq !== null && entry !== undefined);
    known.sort((one, other) => (other.entry?.last_at ?? 0) - (one.entry?.last_at ?? 0));
    return Object.fromEntries(known.slice(0, MAX_POSITIONS).map(({ id, haveSeq }) => [id, { epoch, seq: haveSeq ?? 0 }]));
  }

  /**
   * Starts a connection. Returns false if the server's store was restored to an earlier state. The
   * device may then have messages that no longer exist, so all conversations are reset.
   */
  welcome(epoch: number): boolean {
    const { cache, states, inbox, outbox, changes } = this.#ports;
    this.#active.clear();
    this.#behind.clear();
    this.#earlyFrames.clear();
    this.disconnected();
    this.#refreshes.resume();
    this.#fetches.resume();
    const isSame = cache.setEpoch(epoch);
    if (!isSame) {
      for (const { id } of states.all()) changes.addConversation(id);
      states.clear();
      this.#receipts.clear();
      outbox.resetAfterSeqs();
      inbox.relist();
    }
    // The application shows the stored entries until the catch-up ends. Without any, load the inbox
    // now.
    if (inbox.entries().length === 0) this.#loader.reload();
    return isSame;
  }

  /** The statuses are complete only as long as no frame is missed. */
  disconnected(): void {
    for (const state of this.#ports.states.all()) state.forgetStatuses();
  }

  caughtUp(): void {
    const { states } = this.#ports;
    for (const state of states.all()) this.fetchMissing(state);
    this.#receipts.flush();
    // The server does not replay changes of ticks, settings and members.
    this.#loader.reload();
    for (const id of this.#behind) this.#refreshes.add(id, () => this.#refreshUnlisted(states.get(id)), false);
  }

  // Inbox

  /** Loads the next page of the inbox. Rejects if the request fails. */
  loadMore(archived: boolean): Promise<void> {
    return this.#loader.loadMore(archived);
  }

  /** Applies an inbox entry from the server. */
  applyEntry(serverEntry: InboxEntryBody): void {
    const { states, ephemeral, changes, inbox } = this.#ports;
    const state = states.get(serverEntry.conversation_id);
    const isNewlyListed = !state.isListed;
    const hasChanged = state.applyServerEntry(serverEntry) || isNewlyListed;
    state.isListed = true;
    if (isNewlyListed) inbox.relist();
    if (serverEntry.peer_presence && ephemeral.notePresence(serverEntry.peer_presence)) changes.addConversation(state.id);
    if ((state.entry?.my_status.last_read_seq ?? 0) > serverEntry.my_status.last_read_seq) this.#receipts.add(state.id, "read");
    else if ((state.haveSeq ?? 0) > serverEntry.my_status.last_delivered_seq) this.#receipts.add(state.id);
    this.fetchMissing(state);
    if (hasChanged) this.#entryChanged(state);
    this.#applyEarlyFrames(state.id);
    this.#ports.onEntryKnown(state.id);
  }

  #applyEarlyFrames(conversationId: string): void {
    const early = this.#earlyFrames.get(conversationId);
    this.#earlyFrames.delete(conversationId);
    for (const frame of early?.values() ?? []) {
      if (frame.type === "status") this.noteStatus(frame);
      else this.noteReceipts(frame);
    }
  }

  /**
   * Returns the conversation of a frame. If its entry is unknown, keeps the frame for later and
   * returns undefined.
   */
  #stateFor(frame: StatusFrame | ReceiptsFrame): ConversationState | undefined {
    const state = this.#ports.states.known(frame.conversation_id);
    if (state?.entry) return state;
    const early = this.#earlyFrames.get(frame.conversation_id) ?? new Map<string, StatusFrame | ReceiptsFrame>();
    this.#earlyFrames.set(frame.conversation_id, early.set(frame.type === "status" ? frame.user_id : "", frame));
    return undefined;
  }

  /**
   * Records a frame about the conversation. A reload of the inbox then keeps the conversation even
   * if an older page does not list it.
   */
  noteActivity(conversationId: string): void {
    this.#active.add(conversationId);
  }

  // One conversation

  /**
   * Fetches the entry of one conversation and returns its members. Rejects if the request fails.
   */
  async refresh(state: ConversationState): Promise<readonly MemberBody[]> {
    const { api } = this.#ports;
    this.noteActivity(state.id);
    try {
      const detail = await api.conversation(state.id);
      // Fetch the message first, because an entry shows its last message.
      const isBehind = (state.entry?.last_message?.seq ?? 0) < detail.head_seq;
      const newest = isBehind ? await this.#newestMessage(state.id, detail.head_seq) : undefined;
      this.applyEntry(this.#entryOf(detail, state));
      if (newest) state.noteMessage(storedMessage(newest));
      return detail.members;
    } catch (error) {
      if (codeOf(error) === "conversation_not_found") this.#ports.onGone(state.id);
      throw error;
    }
  }

  /**
   * Returns the newest message at or below `headSeq` that is not a void, or undefined if there is
   * none. A message above `headSeq` would make the messages in between count as known, and the
   * unread count would miss them.
   */
  async #newestMessage(conversationId: string, headSeq: number): Promise<MessageBody | undefined> {
    const { api } = this.#ports;
    const before_seq = headSeq + 1;
    const [newest] = (await api.messages(conversationId, { before_seq, limit: 1 })).messages;
    if (!newest || !isVoid(newest)) return newest;
    return (await api.messages(conversationId, { before_seq, limit: MISSING_PAGE })).messages.find((message) => !isVoid(message));
  }

  #entryOf({ members, head_seq, created_at: _, created_by: __, ...detail }: ConversationDetailBody, { entry }: ConversationState): InboxEntryBody {
    const first_seq = members.find(({ user_id }) => user_id === this.#ports.userId)?.joined_seq ?? 1;
    const { last_message = null, preview = "" } = entry ?? {};
    const peer_presence = (detail.peer !== null && this.#ports.ephemeral.presence(detail.peer)) || null;
    return { ...detail, first_seq, last_seq: head_seq, last_message, preview, peer_presence };
  }

  /** Refreshes a conversation in the background, once for many calls. */
  refreshSoon(state: ConversationState): void {
    this.#refreshes.add(state.id, () => this.#refreshOrGiveUp(state));
  }

  async #refreshOrGiveUp(state: ConversationState): Promise<void> {
    try {
      await this.refresh(state);
    } catch (error) {
      if (mayRetry(error)) throw error;
    }
  }

  /** A page of the inbox may have listed it meanwhile. */
  async #refreshUnlisted(state: ConversationState): Promise<void> {
    if (!state.isListed) await this.#refreshOrGiveUp(state);
  }

  noteStatus(frame: StatusFrame): void {
    const state = this.#stateFor(frame);
    if (!state) return;
    const needed = state.noteStatus(frame);
    this.#entryChanged(state);
    if (needed === "entry") this.refreshSoon(state);
    else if (needed === "statuses") void this.#fetchStatuses(state);
  }

  /**
   * Fetches the read states of a small group once; later frames are enough. A request without an
   * answer does not block one for a newer version.
   */
  async #fetchStatuses(state: ConversationState): Promise<void> {
    const version = state.statusesVersion;
    if (this.#retries.isStopped || this.#fetchingStatuses.get(state) === version) return;
    this.#fetchingStatuses.set(state, version);
    try {
      const { members } = await this.#ports.api.statuses(state.id);
      if (version === state.statusesVersion) {
        state.noteStatuses(members);
        this.#entryChanged(state);
      }
    } catch (error) {
      if (mayRetry(error)) this.#retries.retry(() => this.bringTicksUpToDate(state), error);
    }
    if (this.#fetchingStatuses.get(state) === version) this.#fetchingStatuses.delete(state);
    // Members changed or the connection was lost before the answer.
    if (version !== state.statusesVersion) this.bringTicksUpToDate(state);
  }

  /** Fetches the read states if a tick depends on them and they are unknown. */
  bringTicksUpToDate(state: ConversationState): void {
    if (state.lacksStatuses) void this.#fetchStatuses(state);
  }

  noteReceipts(frame: ReceiptsFrame): void {
    const state = this.#stateFor(frame);
    if (!state) return;
    state.noteReceipts(frame);
    this.#entryChanged(state);
  }

  /** Records that a message exists whose content is unknown. */
  noteHead(conversationId: string, seq: number): void {
    const state = this.#ports.states.get(conversationId);
    state.noteHead(seq);
    this.fetchMissing(state);
  }

  forget(conversationId: string): void {
    const { states, cache, inbox, changes } = this.#ports;
    const state = states.known(conversationId);
    this.#active.delete(conversationId);
    this.#behind.delete(conversationId);
    this.#earlyFrames.delete(conversationId);
    this.#receipts.forget(conversationId);
    if (!state) return;
    cache.forget(state);
    state.reset();
    inbox.relist();
    changes.add("inbox");
    changes.addConversation(conversationId);
  }

  // Messages

  /**
   * Applies a message. `needsReceipt` is false if the server knows that this device has it, because
   * this device sent it.
   */
  applyMessage(message: StoredMessage, needsReceipt = true): void {
    const { states, cache, outbox, changes, inbox, isCaughtUp } = this.#ports;
    const state = states.get(message.conversation_id);
    this.noteActivity(state.id);
    outbox.noteStoredByServer([message]);
    const { entry } = state;
    state.noteMessage(message);
    const wasLive = state.timeline.isLive;
    const isWhole = state.receive(message);
    if (wasLive && !state.timeline.isLive) this.#ports.onWindowLost(state);
    // The slowest member may have left.
    if (message.content_type === "system") {
      this.bringTicksUpToDate(state);
      // The member count is wrong if a page skipped a notice, so fetch it. Not for a large group,
      // because the answer lists every member.
      if (isCaughtUp() && (state.entry?.member_count ?? 0) <= SMALL_GROUP) this.refreshSoon(state);
    }
    states.used(state);
    cache.messagesChanged(state);
    changes.addConversation(state.id);
    if (state.entry !== entry) {
      inbox.invalidate();
      changes.add("inbox");
    }
    if (!isWhole) this.fetchMissing(state);
    // During the catch-up, the message may belong to a conversation far down the list. Later
    // messages belong to its top.
    if (!state.isListed && isCaughtUp()) this.refreshSoon(state);
    if (needsReceipt) this.#receipts.add(state.id);
  }

  /**
   * Applies a message that another client of the same storage sent. The messages before it arrive
   * on this client's own connection.
   */
  applyMessageFromTab(message: StoredMessage): void {
    const { states, changes } = this.#ports;
    const state = states.known(message.conversation_id);
    if (!state || state.haveSeq === null) return;
    if (message.seq <= state.haveSeq + 1) {
      this.applyMessage(message, false);
      return;
    }
    state.timeline.keepEarly(message);
    state.invalidate();
    changes.addConversation(state.id);
  }

  /** Records a page of history. */
  notePage(state: ConversationState, run: readonly StoredMessage[]): void {
    const { states, cache, outbox } = this.#ports;
    outbox.noteStoredByServer(run);
    const [from, to] = [run[0]?.seq ?? 0, run.at(-1)?.seq ?? 0];
    if (state.haveSeq !== null && from <= state.haveSeq + 1 && to > state.haveSeq) {
      for (const message of run) if (message.seq > state.haveSeq) state.noteMembers(message);
      state.haveAtLeast(to);
      this.#receipts.add(state.id);
    }
    states.used(state);
    cache.messagesChanged(state);
    // Ticks were not tracked while the user's own messages were not loaded.
    if (state.openCount > 0) this.bringTicksUpToDate(state);
  }

  markRead(state: ConversationState, upToSeq: number): void {
    const { entry } = state;
    if (!entry) return;
    // The server counts everything before the user's own message as read.
    if (entry.unread === 0 && entry.last_message?.sender_id === this.#ports.userId) return;
    const seq = Math.min(Math.floor(upToSeq), entry.last_seq);
    // Also refuses NaN.
    if (!(seq > 0)) return;
    const outcome = state.readHere(seq);
    if (outcome === "none") return;
    this.#receipts.add(state.id, "read", outcome === "unknown");
    this.#entryChanged(state);
    this.#ports.onRead(state.id, seq);
  }

  /** Another client of the same storage reported this read state to the server. */
  noteRead(conversationId: string, seq: number): void {
    const state = this.#ports.states.known(conversationId);
    if (state && state.readHere(seq) !== "none") this.#entryChanged(state);
  }

  /**
   * Sends the receipts of a conversation again later, because the server refused them temporarily.
   */
  resendReceipts(conversationId: string, error: unknown): void {
    this.#retries.retry(() => this.#receipts.add(conversationId, "read"), error);
  }

  /** Records that the server pushes only a part of the missed messages. */
  noteBehind({ conversation_id, head_seq, next_after_seq }: BacklogFrame): void {
    const state = this.#ports.states.get(conversation_id);
    this.noteActivity(conversation_id);
    // The pushed messages are after the gap, so they must not count as following what the device
    // has.
    state.haveSeq ??= next_after_seq;
    if (state.entry) state.noteHead(head_seq);
    else this.#behind.add(conversation_id);
  }

  /** Fetches missing messages, unless the catch-up may still push them. */
  fetchMissing(state: ConversationState): void {
    if (this.#ports.isCaughtUp() && state.isMissingSome) this.#fetches.add(state.id, () => this.#fetchSome(state));
  }

  async #fetchSome(state: ConversationState): Promise<void> {
    let mayBeMore = true;
    try {
      for (let page = 0; mayBeMore && page < PAGES_IN_A_ROW; page += 1) mayBeMore = await this.#fetchAfter(state);
    } catch (error) {
      mayBeMore = false;
      if (codeOf(error) === "conversation_not_found") this.#ports.onGone(state.id);
      else if (mayRetry(error)) throw error;
    }
    if (mayBeMore) this.fetchMissing(state);
  }

  /** Fetches one page of missing messages. Returns whether there may be more. */
  async #fetchAfter(state: ConversationState): Promise<boolean> {
    const { api, isCaughtUp } = this.#ports;
    if (this.#retries.isStopped || !isCaughtUp() || !state.isMissingSome) return false;
    const after_seq = state.haveSeq ?? 0;
    const page = await api.messages(state.id, { after_seq, limit: MISSING_PAGE });
    if (!state.entry) return false;
    const run = runOf(page);
    // A page proves that the user may see no message between `after_seq` and its first message.
    const first = run[0]?.seq ?? page.head_seq + 1;
    state.haveAtLeast(Math.min(first, page.head_seq + 1) - 1);
    for (const message of run) this.applyMessage(message);
    return (state.haveSeq ?? 0) > after_seq;
  }
}
