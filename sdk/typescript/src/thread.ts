// What this device knows of one conversation: its line of the inbox and the rules by which frames move it on until the
// server is asked again, how far the device has everything, and the messages at hand. It fetches and sends nothing.

import type { MemberStatusBody, ReceiptsFrame, StatusFrame } from "./generated.ts";
import { Timeline } from "./timeline.ts";
import type { StoredMessage } from "./timeline.ts";
import type { Absence, Boundaries, InboxEntry, TimelineMessage, TimelineWindow } from "./types.ts";

/** How many of the latest arrivals are remembered; a late answer of the server is older than these at most. */
const ARRIVALS = 100;
/** Of larger groups the server tells by itself how far all have come. */
export const SMALL_GROUP = 64;
const PREVIEW_CHARACTERS = 120;
/** More than this is not pushed again. */
const ASK_AGAIN_LIMIT = 1_000;

/** The facts of a notice by the server. */
export interface Notice {
  readonly event?: string;
  readonly by?: string;
  readonly user_id?: string;
  readonly title?: string;
  readonly member_count?: number;
}

/** The facts of a system notice; null for any other message. */
export function readNotice({ content, content_type }: { content: string; content_type: string }): Notice | null {
  if (content_type !== "system") return null;
  try {
    return Object(JSON.parse(content)) as Notice;
  } catch {
    return {};
  }
}

/**
 * Why a message has no content: `erased`, it was deleted for good; `lost`, it cannot be read at the moment and is asked for
 * again at the next visit. Null for any other message.
 */
export const absenceOf = ({ content_type }: { content_type: string }): Absence | null =>
  content_type === "erased" || content_type === "lost" ? content_type : null;

/**
 * Nobody's message: a place that was given out and never written to. It is counted, so that a run can be seen to be whole,
 * and acknowledged with those around it; it is never shown.
 */
export const isVoid = ({ content_type }: { content_type: string }): boolean => content_type === "void";

const MEMBERS_CHANGE: Record<string, number> = { member_added: 1, member_removed: -1, member_left: -1 };

/** Boundaries only move forward. */
const furthest = (one: Boundaries, other: Boundaries): Boundaries =>
  one.last_delivered_seq >= other.last_delivered_seq && one.last_read_seq >= other.last_read_seq
    ? one
    : {
        last_delivered_seq: Math.max(one.last_delivered_seq, other.last_delivered_seq),
        last_read_seq: Math.max(one.last_read_seq, other.last_read_seq),
      };

/** Whether two lines say the same. */
function isAlike(one: InboxEntry, other: InboxEntry): boolean {
  const names = Object.keys(other) as (keyof InboxEntry)[];
  return names.every((name) => one[name] === other[name] || JSON.stringify(one[name]) === JSON.stringify(other[name]));
}

/** What waits to be sent, in order. */
export interface Waiting {
  waiting(conversationId: string): readonly TimelineMessage[];
}

export class Thread {
  readonly id: string;
  readonly userId: string;
  entry: InboxEntry | undefined;
  /** It is in the part of the inbox that was loaded. */
  isListed = false;
  /** Up to here the device has everything; null while nothing is known. */
  haveSeq: number | null = null;
  readonly timeline = new Timeline();
  /** How many look at it. */
  openCount = 0;
  isLoading = false;
  error: string | null = null;
  errorCode: string | null = null;
  /** The remembered messages were put into the timeline, or there is no need. */
  isRestored = false;
  /** Of a small group: how far each of the others has come. */
  #statuses: Map<string, MemberStatusBody> | null = null;
  /** What frames told of others while that was not known: the answer that brings it may be older. */
  #heard = new Map<string, Boundaries>();
  /** An answer that was asked for under another number is about other members, or misses what was not heard. */
  statusesNumber = 0;
  /** The latest notice by which members were counted here. */
  #membersSeq = 0;
  /** Counted here and not by the server's last word. */
  #arrived: number[] = [];
  /** How many messages the server's latest word knew of: answers may come in another order than they were given. */
  #wordSeq = 0;
  #shown: readonly TimelineMessage[] | null = null;
  #window: TimelineWindow | null = null;

  constructor(id: string, userId: string) {
    this.id = id;
    this.userId = userId;
  }

  // What is shown

  /** The next look makes it anew. */
  touch(): void {
    this.#shown = null;
    this.#window = null;
  }

  shown(outbox: Waiting): readonly TimelineMessage[] {
    this.#shown ??= this.#compose(outbox.waiting(this.id));
    return this.#shown;
  }

  #compose(waiting: readonly TimelineMessage[]): TimelineMessage[] {
    const { timeline } = this;
    const shown: TimelineMessage[] = timeline.messages.filter((message) => !isVoid(message));
    if (!timeline.isLive && timeline.messages.length > 0) return shown;
    // What was acknowledged ahead of what is still missing before it.
    for (const message of timeline.early) if (this.#isOwn(message) && message.seq > timeline.toSeq) shown.push(message);
    shown.push(...waiting);
    return shown;
  }

  get window(): TimelineWindow {
    this.#window ??= this.#describe();
    return this.#window;
  }

  #describe(): TimelineWindow {
    const { timeline, entry, isLoading: loading, error, errorCode } = this;
    const { fromSeq, toSeq } = timeline;
    const isEmpty = entry?.last_seq === 0;
    const reachesStart = timeline.reachesStart || isEmpty || (fromSeq > 0 && fromSeq <= (entry?.first_seq ?? 1));
    return { fromSeq, toSeq, reachesStart, reachesHead: timeline.isLive || isEmpty, loading, error, errorCode };
  }

  get newerCount(): number {
    const { timeline, entry } = this;
    return timeline.isLive || timeline.messages.length === 0 ? 0 : Math.max(0, (entry?.last_seq ?? 0) - timeline.toSeq);
  }

  // What the device has

  /** A message is here. False when something before it is missing. */
  receive(message: StoredMessage): boolean {
    const { seq } = message;
    const { timeline } = this;
    this.haveSeq ??= seq - 1;
    const isNext = seq === this.haveSeq + 1;
    if (isNext) this.#haveUpTo(seq);
    const isWhole = seq <= this.haveSeq;
    // An empty window begins only at the end of what the device has: the rest is history.
    const isAppended = (timeline.messages.length > 0 || isNext || seq === this.haveSeq) && timeline.append(message);
    const mayFollow = seq > timeline.toSeq && (timeline.isLive || this.isLoading);
    if (!isWhole || (!isAppended && mayFollow)) timeline.keepEarly(message);
    timeline.keepTail(message);
    this.settleEarly();
    this.touch();
    return isWhole;
  }

  /** Lets go of messages that came early and have found their place. */
  settleEarly(): void {
    const { timeline, haveSeq } = this;
    // A page that is on its way may end just before them.
    if (!this.isLoading) timeline.forgetEarly(timeline.isLive ? Math.min(haveSeq ?? 0, timeline.toSeq) : (haveSeq ?? 0));
    // What lies between is with the device and not at hand: the window has lost the end.
    if (timeline.isLive && timeline.messages.length > 0 && timeline.toSeq < (haveSeq ?? 0)) timeline.isLive = false;
  }

  /** The newest message anybody has told of. */
  get headSeq(): number {
    return Math.max(this.entry?.last_seq ?? 0, this.haveSeq ?? 0);
  }

  /** The device has everything up to here by other ways. */
  haveAtLeast(seq: number): void {
    if (seq > (this.haveSeq ?? -1)) this.#haveUpTo(seq);
  }

  #haveUpTo(seq: number): void {
    let end = seq;
    while (this.timeline.hasEarly(end + 1)) end += 1;
    this.haveSeq = end;
  }

  get isMissingSome(): boolean {
    return this.entry !== undefined && (this.haveSeq ?? 0) < this.entry.last_seq;
  }

  // The line of the inbox

  #change(facts: Partial<InboxEntry>): void {
    if (!this.entry) return;
    this.entry = { ...this.entry, ...facts };
    this.touch();
  }

  /** The server's word about the conversation. Frames may have overtaken it. False when it is no news. */
  learn(word: InboxEntry): boolean {
    const known = this.entry;
    const my_status = known ? furthest(known.my_status, word.my_status) : word.my_status;
    const peer_status = known ? furthest(known.peer_status, word.peer_status) : word.peer_status;
    if (known && word.last_seq < this.#wordSeq) {
      this.#change({ my_status, peer_status });
      return known.my_status !== my_status || known.peer_status !== peer_status;
    }
    this.#wordSeq = word.last_seq;
    this.haveSeq = Math.max(this.haveSeq ?? word.my_status.last_delivered_seq, word.first_seq - 1);
    this.#arrived = this.#arrived.filter((seq) => seq > Math.max(word.last_seq, my_status.last_read_seq));
    const overtaken: { -readonly [Key in keyof InboxEntry]?: InboxEntry[Key] } = {};
    if (known && known.last_seq > word.last_seq) {
      const { last_seq, last_at, last_message, preview } = known;
      Object.assign(overtaken, { last_seq, last_at, last_message, preview });
      // Counted here by a notice that the word does not know of; otherwise the word is the better count.
      if (this.#membersSeq > word.last_seq) overtaken.member_count = known.member_count;
    }
    // What was read here may not be with the server yet.
    const isReadFurther = my_status.last_read_seq > word.my_status.last_read_seq;
    const counted = isReadFurther ? this.#countBetween(my_status.last_read_seq, word.last_seq) : word.unread;
    const unread = counted === null ? (known?.unread ?? word.unread) : counted + this.#arrived.length;
    const entry = { ...word, ...overtaken, my_status, peer_status, unread };
    if (known && isAlike(known, entry)) return false;
    if (known?.member_count !== entry.member_count) this.forgetStatuses();
    this.entry = entry;
    this.touch();
    return true;
  }

  /** Messages by others above `afterSeq` up to `upToSeq`; null where they are not at hand. */
  #countBetween(afterSeq: number, upToSeq: number): number | null {
    if (afterSeq >= upToSeq) return 0;
    if (!this.timeline.covers(afterSeq, upToSeq)) return null;
    return this.timeline.above(afterSeq).filter((message) => message.seq <= upToSeq && this.#isUnreadWorthy(message)).length;
  }

  #isUnreadWorthy(message: { sender_id: string; content_type: string }): boolean {
    return message.sender_id !== this.userId && message.content_type !== "system" && !isVoid(message);
  }

  /** A void names a sender that somebody may be called. */
  #isOwn(message: { sender_id: string; content_type: string }): boolean {
    return message.sender_id === this.userId && !isVoid(message);
  }

  /** Moves the line on by a message. */
  noteMessage(message: StoredMessage): void {
    const { seq, received_at, content, content_type } = message;
    const { entry } = this;
    this.noteMembers(message);
    if (!entry || seq <= (entry.last_message?.seq ?? 0)) return;
    const isNews = seq > entry.last_seq;
    const last_seq = Math.max(seq, entry.last_seq);
    if (isVoid(message)) return this.#change({ last_seq });
    const notice = readNotice(message);
    const { message_id, sender_id, timestamp } = message;
    // Never half a character at the end.
    const text = notice ? content : content.slice(0, PREVIEW_CHARACTERS).replace(/[\ud800-\udbff]$/, "");
    const last_message = { seq, message_id, sender_id, content: text, content_type, timestamp, received_at };
    this.#change({ last_seq, last_at: Math.max(entry.last_at, received_at), last_message, preview: notice ? "" : text });
    // What the server's word has counted already only brings the preview up to date.
    if (!isNews) return;
    if (notice) {
      const change = MEMBERS_CHANGE[notice.event ?? ""] ?? 0;
      if (change !== 0) {
        this.#membersSeq = seq;
        this.#change({ member_count: entry.member_count + change });
      }
    } else if (sender_id === this.userId) {
      // A reply tells of having read what came before it.
      this.#read(seq - 1, 0);
    } else if (seq > entry.my_status.last_read_seq) {
      // Otherwise another tab or device was faster: the person has read it there.
      this.#arrived.push(seq);
      if (this.#arrived.length > 2 * ARRIVALS) this.#arrived.splice(0, ARRIVALS);
      this.#change({ unread: entry.unread + 1 });
    }
  }

  /** The person has read everything up to `seq`. `unread` is what is left, where that is known; null: nobody here knows. */
  #read(seq: number, unread: number | null): void {
    if (!this.entry) return;
    const { my_status, last_seq } = this.entry;
    this.#arrived = this.#arrived.filter((arrived) => arrived > seq);
    const left = unread ?? this.#countBetween(seq, last_seq) ?? this.entry.unread;
    this.#change({ unread: left, my_status: furthest(my_status, { last_delivered_seq: seq, last_read_seq: seq }) });
  }

  /** On this device. `none` when that is no news; `unsure` when how much is left is for the server to say. */
  readHere(seq: number): "none" | "exact" | "unsure" {
    const { entry } = this;
    if (!entry || seq <= entry.my_status.last_read_seq) return "none";
    const isKnown = this.#countBetween(seq, entry.last_seq) !== null;
    this.#read(seq, null);
    this.haveAtLeast(seq);
    return isKnown ? "exact" : "unsure";
  }

  /** The server was told what this device has. False when that is no news. */
  noteDelivered(seq: number): boolean {
    const { entry } = this;
    if (!entry || seq <= entry.my_status.last_delivered_seq) return false;
    this.#change({ my_status: { ...entry.my_status, last_delivered_seq: seq } });
    return true;
  }

  /** Somebody has come further. Where the frame does not say enough: what the server is to be asked for. */
  noteStatus({ user_id, unread, last_delivered_seq, last_read_seq }: StatusFrame): "entry" | "statuses" | null {
    const { entry } = this;
    if (!entry) return null;
    const status = { last_delivered_seq, last_read_seq };
    if (user_id === this.userId) {
      const isNews = last_read_seq > entry.my_status.last_read_seq;
      this.#change({ my_status: furthest(entry.my_status, status) });
      if (!isNews) return null;
      const left = last_read_seq >= entry.last_seq ? 0 : (unread ?? this.#countBetween(last_read_seq, entry.last_seq));
      this.#read(last_read_seq, left);
      return left === null ? "entry" : null;
    }
    if (entry.kind === "direct") {
      this.#change({ peer_status: furthest(entry.peer_status, status) });
      return null;
    }
    const known = this.#statuses?.get(user_id);
    if (known) {
      this.#statuses?.set(user_id, { ...known, ...furthest(known, status) });
      this.#deriveReceipts();
      return null;
    }
    // Only where a tick can still change does it matter who is furthest behind.
    if (entry.member_count > SMALL_GROUP || !this.#waitsForTicks()) return null;
    this.#heard.set(user_id, furthest(this.#heard.get(user_id) ?? status, status));
    return "statuses";
  }

  /** Who has come how far is not known, of a small group, and a tick depends on it. */
  get lacksStatuses(): boolean {
    return this.#statuses === null && this.entry?.kind === "group" && this.entry.member_count <= SMALL_GROUP && this.#waitsForTicks();
  }

  #waitsForTicks(): boolean {
    const { last_message, peer_status } = this.entry as InboxEntry;
    const isWaiting = (message: { sender_id: string; content_type: string; seq: number }) => this.#isOwn(message) && message.seq > peer_status.last_read_seq;
    return (last_message !== null && isWaiting(last_message)) || this.timeline.above(peer_status.last_read_seq).some(isWaiting);
  }

  /** How far each member of a small group has come: from then on frames alone tell the ticks. */
  noteStatuses(members: readonly MemberStatusBody[]): void {
    const others = members.filter(({ user_id }) => user_id !== this.userId);
    this.#statuses = new Map(others.map((member) => [member.user_id, { ...member, ...furthest(member, this.#heard.get(member.user_id) ?? member) }]));
    this.#heard.clear();
    this.#deriveReceipts();
  }

  /** Also where the number of members is known already: one may have come and another gone. */
  noteMembers(message: StoredMessage): void {
    if ((readNotice(message)?.event ?? "") in MEMBERS_CHANGE) this.forgetStatuses();
  }

  /** Somebody came or went, or frames may have been missed: who has come how far is to be asked again. */
  forgetStatuses(): void {
    this.#statuses = null;
    this.#heard.clear();
    this.statusesNumber += 1;
  }

  /** The member furthest behind decides; what lies before somebody's joining does not concern them. */
  #deriveReceipts(): void {
    if (!this.#statuses || this.#statuses.size === 0 || !this.entry) return;
    let delivered = Number.MAX_SAFE_INTEGER;
    let read = Number.MAX_SAFE_INTEGER;
    for (const { last_delivered_seq, last_read_seq, joined_seq } of this.#statuses.values()) {
      delivered = Math.min(delivered, Math.max(last_delivered_seq, joined_seq - 1));
      read = Math.min(read, Math.max(last_read_seq, joined_seq - 1));
    }
    this.#change({ peer_status: furthest(this.entry.peer_status, { last_delivered_seq: delivered, last_read_seq: read }) });
  }

  /** How far all others of a group have come. */
  noteReceipts({ last_delivered_seq, last_read_seq }: ReceiptsFrame): void {
    if (this.entry) this.#change({ peer_status: furthest(this.entry.peer_status, { last_delivered_seq, last_read_seq }) });
  }

  /** There are messages up to here. */
  noteHead(seq: number): void {
    if (this.entry && seq > this.entry.last_seq) this.#change({ last_seq: seq });
  }

  /** What this device remembers from an earlier visit. */
  remember(entry: InboxEntry, haveSeq: number): void {
    this.entry = entry;
    this.haveSeq = haveSeq;
    this.isListed = true;
    this.touch();
  }

  /** Remembered messages. Before the hello (`mayAskAgain`), what they lack can be had by saying that one lacks it. */
  restore(run: StoredMessage[], reachesStart: boolean, mayAskAgain: boolean): void {
    const [from, to] = [run[0]?.seq ?? 0, run.at(-1)?.seq ?? 0];
    if (run.length === 0) return;
    if (mayAskAgain && from <= (this.haveSeq ?? 0) + 1 && to >= (this.haveSeq ?? 0) - ASK_AGAIN_LIMIT) this.haveSeq = to;
    this.timeline.restore(run, reachesStart, to >= (this.haveSeq ?? 0));
    this.touch();
  }

  /** Forgets everything but who looks at it. */
  reset(): void {
    this.entry = undefined;
    this.isListed = false;
    this.haveSeq = null;
    this.forgetStatuses();
    this.#membersSeq = 0;
    this.#wordSeq = 0;
    this.#arrived = [];
    this.timeline.clear();
    this.touch();
  }
}
