// Keeps this device in step with the server: what is known of each conversation, what the device has of it, and the
// fetching of what is missing.

import { Acks } from "./acks.ts";
import type { Api } from "./api.ts";
import type { Cache } from "./cache.ts";
import type { Changes } from "./changes.ts";
import { BluetickError, codeOf } from "./errors.ts";
import type { BacklogFrame, ClientFrame, ConversationDetailBody, HelloFrame, InboxEntryBody, MemberBody, MessageBody, ReceiptsFrame, StatusFrame } from "./generated.ts";
import type { Inbox } from "./inbox.ts";
import { Later } from "./later.ts";
import { Listing } from "./listing.ts";
import type { Outbox } from "./outbox.ts";
import type { Signals } from "./signals.ts";
import { isVoid, SMALL_GROUP } from "./thread.ts";
import type { Thread } from "./thread.ts";
import type { Threads } from "./threads.ts";
import { runOf, storedMessage } from "./timeline.ts";
import type { StoredMessage } from "./timeline.ts";
import { Turns } from "./turns.ts";

const POSITIONS = 200;
const MISSING_PAGE = 100;
/** Then it is the turn of another conversation. */
const PAGES_IN_A_ROW = 5;
/** Conversations that are asked about at a time. */
const QUESTIONS = 4;

const mayWorkLater = (error: unknown): boolean => !(error instanceof BluetickError) || error.isRetryable;

export interface SyncPorts {
  readonly userId: string;
  readonly random: () => number;
  readonly api: Api;
  readonly threads: Threads;
  readonly changes: Changes;
  readonly cache: Cache;
  readonly signals: Signals;
  readonly outbox: Outbox;
  readonly inbox: Inbox;
  send(frame: ClientFrame): boolean;
  isCaughtUp(): boolean;
  /** One is not in a conversation any more. */
  onGone(conversationId: string): void;
  /** The line of a conversation is known. */
  onLearned(conversationId: string): void;
  /** The person has read something here. */
  onRead(conversationId: string, seq: number): void;
  /** The window of a conversation followed what arrives, and cannot any more. */
  onWindowLost(thread: Thread): void;
}

export class Sync {
  #ports: SyncPorts;
  #acks: Acks;
  #listing: Listing;
  #later = new Later();
  /** Conversations that frames told of since the connection stands. */
  #told = new Set<string>();
  /** Unknown ones of which more was missed than was pushed. */
  #behind = new Set<string>();
  /** Of conversations whose line is still on its way, the latest of each person: the line may be older. */
  #early = new Map<string, Map<string, StatusFrame | ReceiptsFrame>>();
  #questions: Turns;
  /** Fetches what is missing, one conversation after the other. */
  #fetches: Turns;
  /** Under which number of theirs. */
  #askingStatuses = new Map<Thread, number>();

  constructor(ports: SyncPorts) {
    this.#ports = ports;
    const { threads, api, inbox, changes, random } = ports;
    this.#questions = new Turns(QUESTIONS, random);
    this.#fetches = new Turns(1, random);
    this.#acks = new Acks(threads, api, {
      send: (frame) => ports.send(frame),
      onTold: (id) => this.refreshSoon(threads.get(id)),
      onDelivered: (thread) => this.#lineChanged(thread),
    });
    this.#listing = new Listing({
      api,
      inbox,
      threads,
      changes,
      later: this.#later,
      learn: (entry) => this.learn(entry),
      isNoticed: (id) => this.#told.has(id),
    });
  }

  stop(): void {
    this.#acks.stop();
    this.#later.stop();
    this.#questions.stop();
    this.#fetches.stop();
  }

  #lineChanged(thread: Thread): void {
    const { cache, inbox, changes } = this.#ports;
    cache.lineChanged(thread);
    inbox.touch();
    changes.mark("inbox");
    changes.markConversation(thread.id);
  }

  // The connection

  /** What this device has, for the hello. */
  positions(): NonNullable<HelloFrame["positions"]> {
    const { cache, threads } = this.#ports;
    const { epoch } = cache;
    if (epoch === null) return {};
    const known = [...threads.all()].filter(({ haveSeq, entry }) => haveSeq !== null && entry !== undefined);
    known.sort((one, other) => (other.entry?.last_at ?? 0) - (one.entry?.last_at ?? 0));
    return Object.fromEntries(known.slice(0, POSITIONS).map(({ id, haveSeq }) => [id, { epoch, seq: haveSeq ?? 0 }]));
  }

  /** False when the store went back to an earlier state: what this device remembers may never have been. */
  welcome(epoch: number): boolean {
    const { cache, threads, inbox, outbox, changes } = this.#ports;
    this.#told.clear();
    this.#behind.clear();
    this.#early.clear();
    this.lost();
    this.#questions.resume();
    this.#fetches.resume();
    const isSame = cache.setEpoch(epoch);
    if (!isSame) {
      for (const { id } of threads.all()) changes.markConversation(id);
      threads.clear();
      this.#acks.clear();
      outbox.forgetPlaces();
      inbox.relist();
    }
    // What was remembered is shown meanwhile; with nothing to show there is nothing to wait for.
    if (inbox.entries().length === 0) this.#listing.reload();
    return isSame;
  }

  /** What the frames of a connection told is complete only while it stands. */
  lost(): void {
    for (const thread of this.#ports.threads.all()) thread.forgetStatuses();
  }

  caughtUp(): void {
    const { threads } = this.#ports;
    for (const thread of threads.all()) this.fetchMissing(thread);
    this.#acks.flush();
    // Ticks, settings and membership that moved while one was away are not replayed.
    this.#listing.reload();
    for (const id of this.#behind) this.#questions.add(id, () => this.#learnUnlisted(threads.get(id)), false);
  }

  // The inbox

  /** The person came to the end of what is listed. */
  loadMore(archived: boolean): Promise<void> {
    return this.#listing.loadMore(archived);
  }

  /** The server's word about a conversation: a line of its inbox. */
  learn(word: InboxEntryBody): void {
    const { threads, signals, changes, inbox } = this.#ports;
    const thread = threads.get(word.conversation_id);
    const isNew = !thread.isListed;
    const isNews = thread.learn(word) || isNew;
    thread.isListed = true;
    if (isNew) inbox.relist();
    if (word.peer_presence && signals.notePresence(word.peer_presence)) changes.markConversation(thread.id);
    if ((thread.entry?.my_status.last_read_seq ?? 0) > word.my_status.last_read_seq) this.#acks.add(thread.id, "read");
    else if ((thread.haveSeq ?? 0) > word.my_status.last_delivered_seq) this.#acks.add(thread.id);
    this.fetchMissing(thread);
    if (isNews) this.#lineChanged(thread);
    this.#noteEarly(thread.id);
    this.#ports.onLearned(thread.id);
  }

  #noteEarly(conversationId: string): void {
    const early = this.#early.get(conversationId);
    this.#early.delete(conversationId);
    for (const frame of early?.values() ?? []) {
      if (frame.type === "status") this.noteStatus(frame);
      else this.noteReceipts(frame);
    }
  }

  /** The thread of a frame; nothing where its line is not known yet, and the frame is kept for it. */
  #placeOf(frame: StatusFrame | ReceiptsFrame): Thread | undefined {
    const thread = this.#ports.threads.known(frame.conversation_id);
    if (thread?.entry) return thread;
    const early = this.#early.get(frame.conversation_id) ?? new Map<string, StatusFrame | ReceiptsFrame>();
    this.#early.set(frame.conversation_id, early.set(frame.type === "status" ? frame.user_id : "", frame));
    return undefined;
  }

  /** A frame told of the conversation, so that it stays in the list whatever an older page says. */
  noticed(conversationId: string): void {
    this.#told.add(conversationId);
  }

  // One conversation

  /** Asks about one conversation, wherever in the list it is. Rejects when it cannot be had. */
  async refresh(thread: Thread): Promise<readonly MemberBody[]> {
    const { api } = this.#ports;
    this.noticed(thread.id);
    try {
      const detail = await api.conversation(thread.id);
      // Fetched first: a line that tells of a message shows it.
      const isBehind = (thread.entry?.last_message?.seq ?? 0) < detail.head_seq;
      const newest = isBehind ? await this.#newestMessage(thread.id, detail.head_seq) : undefined;
      this.learn(this.#lineOf(detail, thread));
      if (newest) thread.noteMessage(storedMessage(newest));
      return detail.members;
    } catch (error) {
      if (codeOf(error) === "conversation_not_found") this.#ports.onGone(thread.id);
      throw error;
    }
  }

  /**
   * What a line tells of: the newest that is no void. Where there are only voids, nothing. Never one the line does not know
   * of: the messages in between would count as known, and be missing from the count of the unread.
   */
  async #newestMessage(conversationId: string, headSeq: number): Promise<MessageBody | undefined> {
    const { api } = this.#ports;
    const before_seq = headSeq + 1;
    const [newest] = (await api.messages(conversationId, { before_seq, limit: 1 })).messages;
    if (!newest || !isVoid(newest)) return newest;
    return (await api.messages(conversationId, { before_seq, limit: MISSING_PAGE })).messages.find((message) => !isVoid(message));
  }

  #lineOf({ members, head_seq, created_at: _, created_by: __, ...detail }: ConversationDetailBody, { entry }: Thread): InboxEntryBody {
    const first_seq = members.find(({ user_id }) => user_id === this.#ports.userId)?.joined_seq ?? 1;
    const { last_message = null, preview = "" } = entry ?? {};
    const peer_presence = (detail.peer !== null && this.#ports.signals.presence(detail.peer)) || null;
    return { ...detail, first_seq, last_seq: head_seq, last_message, preview, peer_presence };
  }

  /** The same in a while, once for many wishes. */
  refreshSoon(thread: Thread): void {
    this.#questions.add(thread.id, () => this.#refreshOrGiveUp(thread));
  }

  async #refreshOrGiveUp(thread: Thread): Promise<void> {
    try {
      await this.refresh(thread);
    } catch (error) {
      if (mayWorkLater(error)) throw error;
    }
  }

  /** The list may have told of it meanwhile. */
  async #learnUnlisted(thread: Thread): Promise<void> {
    if (!thread.isListed) await this.#refreshOrGiveUp(thread);
  }

  noteStatus(frame: StatusFrame): void {
    const thread = this.#placeOf(frame);
    if (!thread) return;
    const wish = thread.noteStatus(frame);
    this.#lineChanged(thread);
    if (wish === "entry") this.refreshSoon(thread);
    else if (wish === "statuses") void this.#askStatuses(thread);
  }

  /** Once for a small group: from then on the frames say enough. An answer that is never had holds up no later question. */
  async #askStatuses(thread: Thread): Promise<void> {
    const number = thread.statusesNumber;
    if (this.#later.isStopped || this.#askingStatuses.get(thread) === number) return;
    this.#askingStatuses.set(thread, number);
    try {
      const { members } = await this.#ports.api.statuses(thread.id);
      if (number === thread.statusesNumber) {
        thread.noteStatuses(members);
        this.#lineChanged(thread);
      }
    } catch (error) {
      if (mayWorkLater(error)) this.#later.again(() => this.bringTicksUpToDate(thread), error);
    }
    if (this.#askingStatuses.get(thread) === number) this.#askingStatuses.delete(thread);
    // Members changed, or a pause was made, while the answer was on its way.
    if (number !== thread.statusesNumber) this.bringTicksUpToDate(thread);
  }

  /** Where a tick at hand depends on who has come how far, and that is not known. */
  bringTicksUpToDate(thread: Thread): void {
    if (thread.lacksStatuses) void this.#askStatuses(thread);
  }

  noteReceipts(frame: ReceiptsFrame): void {
    const thread = this.#placeOf(frame);
    if (!thread) return;
    thread.noteReceipts(frame);
    this.#lineChanged(thread);
  }

  /** There is a message of which only the place is known. */
  noteHead(conversationId: string, seq: number): void {
    const thread = this.#ports.threads.get(conversationId);
    thread.noteHead(seq);
    this.fetchMissing(thread);
  }

  forget(conversationId: string): void {
    const { threads, cache, inbox, changes } = this.#ports;
    const thread = threads.known(conversationId);
    this.#told.delete(conversationId);
    this.#behind.delete(conversationId);
    this.#early.delete(conversationId);
    this.#acks.forget(conversationId);
    if (!thread) return;
    cache.forget(thread);
    thread.reset();
    inbox.relist();
    changes.mark("inbox");
    changes.markConversation(conversationId);
  }

  // What this device has

  /** A message is here. One of which the server was told by sending it needs no ack. */
  take(message: StoredMessage, needsAck = true): void {
    const { threads, cache, outbox, changes, inbox, isCaughtUp } = this.#ports;
    const thread = threads.get(message.conversation_id);
    this.noticed(thread.id);
    outbox.noteStoredByServer([message]);
    const { entry } = thread;
    thread.noteMessage(message);
    const wasLive = thread.timeline.isLive;
    const isWhole = thread.receive(message);
    if (wasLive && !thread.timeline.isLive) this.#ports.onWindowLost(thread);
    // The one who was furthest behind may have left.
    if (message.content_type === "system") {
      this.bringTicksUpToDate(thread);
      // A count kept by hearsay drifts where a notice was only skipped over; of a large group the answer is large.
      if (isCaughtUp() && (thread.entry?.member_count ?? 0) <= SMALL_GROUP) this.refreshSoon(thread);
    }
    threads.used(thread);
    cache.messagesChanged(thread);
    changes.markConversation(thread.id);
    if (thread.entry !== entry) {
      inbox.touch();
      changes.mark("inbox");
    }
    if (!isWhole) this.fetchMissing(thread);
    // The backlog may be of many conversations far down the list; what comes later belongs to its top.
    if (!thread.isListed && isCaughtUp()) this.refreshSoon(thread);
    if (needsAck) this.#acks.add(thread.id);
  }

  /** Another client of the same storage has sent it. What lies before it comes by this client's own connection. */
  takeFromTab(message: StoredMessage): void {
    const { threads, changes } = this.#ports;
    const thread = threads.known(message.conversation_id);
    if (!thread || thread.haveSeq === null) return;
    if (message.seq <= thread.haveSeq + 1) {
      this.take(message, false);
      return;
    }
    thread.timeline.keepEarly(message);
    thread.touch();
    changes.markConversation(thread.id);
  }

  /** A page of history was read. */
  notePage(thread: Thread, run: readonly StoredMessage[]): void {
    const { threads, cache, outbox } = this.#ports;
    outbox.noteStoredByServer(run);
    const [from, to] = [run[0]?.seq ?? 0, run.at(-1)?.seq ?? 0];
    if (thread.haveSeq !== null && from <= thread.haveSeq + 1 && to > thread.haveSeq) {
      for (const message of run) if (message.seq > thread.haveSeq) thread.noteMembers(message);
      thread.haveAtLeast(to);
      this.#acks.add(thread.id);
    }
    threads.used(thread);
    cache.messagesChanged(thread);
    // While one's own messages were not at hand, nobody minded their ticks.
    if (thread.openCount > 0) this.bringTicksUpToDate(thread);
  }

  markRead(thread: Thread, upToSeq: number): void {
    const { entry } = thread;
    if (!entry) return;
    // What comes before a message of one's own counts as read already.
    if (entry.unread === 0 && entry.last_message?.sender_id === this.#ports.userId) return;
    const seq = Math.min(Math.floor(upToSeq), entry.last_seq);
    // Also false for what is no number.
    if (!(seq > 0)) return;
    const outcome = thread.readHere(seq);
    if (outcome === "none") return;
    this.#acks.add(thread.id, "read", outcome === "unsure");
    this.#lineChanged(thread);
    this.#ports.onRead(thread.id, seq);
  }

  /** Another client of the same storage has told the server. */
  noteRead(conversationId: string, seq: number): void {
    const thread = this.#ports.threads.known(conversationId);
    if (thread && thread.readHere(seq) !== "none") this.#lineChanged(thread);
  }

  /** An ack was refused for now. */
  tellAgain(conversationId: string, error: unknown): void {
    this.#later.again(() => this.#acks.add(conversationId, "read"), error);
  }

  /** More was missed than is pushed. */
  noteBehind({ conversation_id, head_seq, next_after_seq }: BacklogFrame): void {
    const thread = this.#ports.threads.get(conversation_id);
    this.noticed(conversation_id);
    // What is pushed next lies beyond the gap, and must not count as following on what the device has.
    thread.haveSeq ??= next_after_seq;
    if (thread.entry) thread.noteHead(head_seq);
    else this.#behind.add(conversation_id);
  }

  /** One conversation after the other. While the backlog comes in, what is missing may still be in it. */
  fetchMissing(thread: Thread): void {
    if (this.#ports.isCaughtUp() && thread.isMissingSome) this.#fetches.add(thread.id, () => this.#fetchSome(thread));
  }

  async #fetchSome(thread: Thread): Promise<void> {
    let mayBeMore = true;
    try {
      for (let page = 0; mayBeMore && page < PAGES_IN_A_ROW; page += 1) mayBeMore = await this.#fetchAfter(thread);
    } catch (error) {
      mayBeMore = false;
      if (codeOf(error) === "conversation_not_found") this.#ports.onGone(thread.id);
      else if (mayWorkLater(error)) throw error;
    }
    if (mayBeMore) this.fetchMissing(thread);
  }

  /** Whether there may be more. */
  async #fetchAfter(thread: Thread): Promise<boolean> {
    const { api, isCaughtUp } = this.#ports;
    if (this.#later.isStopped || !isCaughtUp() || !thread.isMissingSome) return false;
    const after_seq = thread.haveSeq ?? 0;
    const page = await api.messages(thread.id, { after_seq, limit: MISSING_PAGE });
    if (!thread.entry) return false;
    const run = runOf(page);
    // A page proves that nothing one may see lies before its first message, or at all.
    const first = run[0]?.seq ?? page.head_seq + 1;
    thread.haveAtLeast(Math.min(first, page.head_seq + 1) - 1);
    for (const message of run) this.take(message);
    return (thread.haveSeq ?? 0) > after_seq;
  }
}
