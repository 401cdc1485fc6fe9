// The state of one conversation on this device: its inbox entry, the rules by which frames change
// it, the seq up to which the device has all messages, and the loaded messages. Network calls and
// storage do not belong here.

import type { MemberStatusBody, ReceiptsFrame, StatusFrame } from "./generated.ts";
import { Timeline } from "./timeline.ts";
import type { StoredMessage } from "./timeline.ts";
import type { Absence, ReadState, InboxEntry, TimelineMessage, TimelineWindow } from "./types.ts";

/**
 * Upper bound on the arrived unread messages that the device remembers. An answer from the server
 * that is older than these would make the unread count wrong.
 */
const ARRIVALS = 100;
/**
 * Upper bound on the members of a group whose read states the client fetches and tracks for each
 * member. Larger groups get `receipts` frames. Must equal the server's `SMALL_GROUP`.
 */
export const SMALL_GROUP = 16;
/** Upper bound on the text of a preview, in UTF-16 units. It bounds the size of stored entries. */
const PREVIEW_CHARACTERS = 120;
/** Upper bound on the messages that the client asks the server to push again after a start. */
const ASK_AGAIN_LIMIT = 1_000;

/** The facts of a system notice. */
export interface Notice {
  readonly event?: string;
  readonly by?: string;
  readonly user_id?: string;
  readonly title?: string;
  readonly member_count?: number;
}

/** Parses a system notice. Returns null for any other message. */
export function readNotice({ content, content_type }: { content: string; content_type: string }): Notice | null {
  if (content_type !== "system") return null;
  try {
    return Object(JSON.parse(content)) as Notice;
  } catch {
    return {};
  }
}

/**
 * Why a message has no content. `erased`: it was deleted permanently. `lost`: it cannot be read at
 * the moment; the next start asks for it again. Null for any other message.
 */
export const absenceOf = ({ content_type }: { content_type: string }): Absence | null =>
  content_type === "erased" || content_type === "lost" ? content_type : null;

/**
 * Whether a message is a void: a seq that the server allocated and that holds no message. A void
 * counts when the client checks for gaps, and receipts cover it. Applications never see it.
 */
export const isVoid = ({ content_type }: { content_type: string }): boolean => content_type === "void";

/** By event of a notice, the change of the member count. */
const MEMBERS_CHANGE: Record<string, number> = { member_added: 1, member_removed: -1, member_left: -1 };

/** Merges two read states. A read state never moves back. */
const furthest = (one: ReadState, other: ReadState): ReadState =>
  one.last_delivered_seq >= other.last_delivered_seq && one.last_read_seq >= other.last_read_seq
    ? one
    : {
        last_delivered_seq: Math.max(one.last_delivered_seq, other.last_delivered_seq),
        last_read_seq: Math.max(one.last_read_seq, other.last_read_seq),
      };

/** Whether two entries have the same content. */
function isAlike(one: InboxEntry, other: InboxEntry): boolean {
  const names = Object.keys(other) as (keyof InboxEntry)[];
  return names.every((name) => one[name] === other[name] || JSON.stringify(one[name]) === JSON.stringify(other[name]));
}

/** The messages of the outbox, in sending order. */
export interface OutboxView {
  waiting(conversationId: string): readonly TimelineMessage[];
}

/** The state of one conversation on this device. */
export class ConversationState {
  readonly id: string;
  readonly userId: string;
  entry: InboxEntry | undefined;
  /** Whether the loaded part of the inbox contains it. */
  isListed = false;
  /** The device has all messages up to this seq; null while this is unknown. */
  haveSeq: number | null = null;
  readonly timeline = new Timeline();
  /** The number of open views of the conversation. */
  openCount = 0;
  isLoading = false;
  error: string | null = null;
  errorCode: string | null = null;
  /** Whether the timeline contains the stored messages, or does not need them. */
  isRestored = false;
  /** The read state of each other member of a small group; null while unknown. */
  #statuses: Map<string, MemberStatusBody> | null = null;
  /**
   * Read states from frames that arrived before `#statuses`. The answer with the statuses may be
   * older than these frames.
   */
  #earlyReadStates = new Map<string, ReadState>();
  /**
   * Changes when members change or the connection is lost. An answer that was requested under
   * another version is stale.
   */
  statusesVersion = 0;
  /** The seq of the latest notice that changed the member count here. */
  #membersSeq = 0;
  /** The seqs of unread messages that the latest entry from the server does not count. */
  #arrivedUnread: number[] = [];
  /** The `last_seq` of the latest entry from the server. Answers can arrive out of order. */
  #serverSeq = 0;
  #shown: readonly TimelineMessage[] | null = null;
  #window: TimelineWindow | null = null;

  constructor(id: string, userId: string) {
    this.id = id;
    this.userId = userId;
  }

  // View

  /** Discards the cached `shown` and `window`. */
  invalidate(): void {
    this.#shown = null;
    this.#window = null;
  }

  shown(outbox: OutboxView): readonly TimelineMessage[] {
    this.#shown ??= this.#compose(outbox.waiting(this.id));
    return this.#shown;
  }

  #compose(waiting: readonly TimelineMessage[]): TimelineMessage[] {
    const { timeline } = this;
    const shown: TimelineMessage[] = timeline.messages.filter((message) => !isVoid(message));
    if (!timeline.isLive && timeline.messages.length > 0) return shown;
    // The user's own messages that the server acknowledged before an earlier message arrived.
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

  // Received messages

  /** Adds a message. Returns false if a message before it is missing. */
  receive(message: StoredMessage): boolean {
    const { seq } = message;
    const { timeline } = this;
    this.haveSeq ??= seq - 1;
    const isNext = seq === this.haveSeq + 1;
    if (isNext) this.#haveUpTo(seq);
    const isWhole = seq <= this.haveSeq;
    // An empty window starts only at `haveSeq`; older messages are history.
    const isAppended = (timeline.messages.length > 0 || isNext || seq === this.haveSeq) && timeline.append(message);
    const mayFollow = seq > timeline.toSeq && (timeline.isLive || this.isLoading);
    if (!isWhole || (!isAppended && mayFollow)) timeline.keepEarly(message);
    timeline.keepTail(message);
    this.settleEarly();
    this.invalidate();
    return isWhole;
  }

  /** Drops early messages that have their position in the timeline. */
  settleEarly(): void {
    const { timeline, haveSeq } = this;
    // A page in progress may end just before the early messages.
    if (!this.isLoading) timeline.forgetEarly(timeline.isLive ? Math.min(haveSeq ?? 0, timeline.toSeq) : (haveSeq ?? 0));
    // The device has messages that the window does not hold, so the window no longer follows the
    // head.
    if (timeline.isLive && timeline.messages.length > 0 && timeline.toSeq < (haveSeq ?? 0)) timeline.isLive = false;
  }

  /** The highest seq that this device knows of. */
  get headSeq(): number {
    return Math.max(this.entry?.last_seq ?? 0, this.haveSeq ?? 0);
  }

  /** Raises `haveSeq`, for example after a page of history. */
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

  // The inbox entry

  #change(facts: Partial<InboxEntry>): void {
    if (!this.entry) return;
    this.entry = { ...this.entry, ...facts };
    this.invalidate();
  }

  /**
   * Applies an entry from the server. Frames that arrived before it can be newer than the entry.
   * Returns whether the state changed.
   */
  applyServerEntry(serverEntry: InboxEntry): boolean {
    const known = this.entry;
    const my_status = known ? furthest(known.my_status, serverEntry.my_status) : serverEntry.my_status;
    const peer_status = known ? furthest(known.peer_status, serverEntry.peer_status) : serverEntry.peer_status;
    if (known && serverEntry.last_seq < this.#serverSeq) {
      this.#change({ my_status, peer_status });
      return known.my_status !== my_status || known.peer_status !== peer_status;
    }
    this.#serverSeq = serverEntry.last_seq;
    this.haveSeq = Math.max(this.haveSeq ?? serverEntry.my_status.last_delivered_seq, serverEntry.first_seq - 1);
    this.#arrivedUnread = this.#arrivedUnread.filter((seq) => seq > Math.max(serverEntry.last_seq, my_status.last_read_seq));
    const overtaken: { -readonly [Key in keyof InboxEntry]?: InboxEntry[Key] } = {};
    if (known && known.last_seq > serverEntry.last_seq) {
      const { last_seq, last_at, last_message, preview } = known;
      Object.assign(overtaken, { last_seq, last_at, last_message, preview });
      // A notice above the server's `last_seq` changed the count here. Otherwise the server's count
      // is right.
      if (this.#membersSeq > serverEntry.last_seq) overtaken.member_count = known.member_count;
    }
    // The server may not know yet what the user has read here.
    const isReadFurther = my_status.last_read_seq > serverEntry.my_status.last_read_seq;
    const counted = isReadFurther ? this.#countBetween(my_status.last_read_seq, serverEntry.last_seq) : serverEntry.unread;
    const unread = counted === null ? (known?.unread ?? serverEntry.unread) : counted + this.#arrivedUnread.length;
    const entry = { ...serverEntry, ...overtaken, my_status, peer_status, unread };
    if (known && isAlike(known, entry)) return false;
    if (known?.member_count !== entry.member_count) this.forgetStatuses();
    this.entry = entry;
    this.invalidate();
    return true;
  }

  /**
   * Counts the unread messages from others above `afterSeq` up to `upToSeq`. Returns null if the
   * timeline does not hold all of them.
   */
  #countBetween(afterSeq: number, upToSeq: number): number | null {
    if (afterSeq >= upToSeq) return 0;
    if (!this.timeline.covers(afterSeq, upToSeq)) return null;
    return this.timeline.above(afterSeq).filter((message) => message.seq <= upToSeq && this.#countsAsUnread(message)).length;
  }

  #countsAsUnread(message: { sender_id: string; content_type: string }): boolean {
    return message.sender_id !== this.userId && message.content_type !== "system" && !isVoid(message);
  }

  /** A void can have a sender id that belongs to a real user. */
  #isOwn(message: { sender_id: string; content_type: string }): boolean {
    return message.sender_id === this.userId && !isVoid(message);
  }

  /** Updates the entry with a message. */
  noteMessage(message: StoredMessage): void {
    const { seq, received_at, content, content_type } = message;
    const { entry } = this;
    this.noteMembers(message);
    if (!entry || seq <= (entry.last_message?.seq ?? 0)) return;
    const isAboveLast = seq > entry.last_seq;
    const last_seq = Math.max(seq, entry.last_seq);
    if (isVoid(message)) return this.#change({ last_seq });
    const notice = readNotice(message);
    const { message_id, sender_id, timestamp } = message;
    // Do not cut a surrogate pair.
    const text = notice ? content : content.slice(0, PREVIEW_CHARACTERS).replace(/[\ud800-\udbff]$/, "");
    const last_message = { seq, message_id, sender_id, content: text, content_type, timestamp, received_at };
    this.#change({ last_seq, last_at: Math.max(entry.last_at, received_at), last_message, preview: notice ? "" : text });
    // The server's entry already counts this message, so only the preview changes.
    if (!isAboveLast) return;
    if (notice) {
      const change = MEMBERS_CHANGE[notice.event ?? ""] ?? 0;
      if (change !== 0) {
        this.#membersSeq = seq;
        this.#change({ member_count: entry.member_count + change });
      }
    } else if (sender_id === this.userId) {
      // The user's own message implies that the user has read everything before it.
      this.#read(seq - 1, 0);
    } else if (seq > entry.my_status.last_read_seq) {
      // The user has not read the message on another device or in another tab.
      this.#arrivedUnread.push(seq);
      if (this.#arrivedUnread.length > 2 * ARRIVALS) this.#arrivedUnread.splice(0, ARRIVALS);
      this.#change({ unread: entry.unread + 1 });
    }
  }

  /**
   * Moves the user's read state to `seq`. `unread` is the number of messages that are left; null if
   * it is unknown.
   */
  #read(seq: number, unread: number | null): void {
    if (!this.entry) return;
    const { my_status, last_seq } = this.entry;
    this.#arrivedUnread = this.#arrivedUnread.filter((arrived) => arrived > seq);
    const left = unread ?? this.#countBetween(seq, last_seq) ?? this.entry.unread;
    this.#change({ unread: left, my_status: furthest(my_status, { last_delivered_seq: seq, last_read_seq: seq }) });
  }

  /**
   * Moves the user's read state because the user has read on this device. Returns `none` if nothing
   * changed, and `unknown` if only the server knows how many unread messages are left.
   */
  readHere(seq: number): "none" | "exact" | "unknown" {
    const { entry } = this;
    if (!entry || seq <= entry.my_status.last_read_seq) return "none";
    const isKnown = this.#countBetween(seq, entry.last_seq) !== null;
    this.#read(seq, null);
    this.haveAtLeast(seq);
    return isKnown ? "exact" : "unknown";
  }

  /** Records that the server knows what this device has. Returns whether the state changed. */
  noteDelivered(seq: number): boolean {
    const { entry } = this;
    if (!entry || seq <= entry.my_status.last_delivered_seq) return false;
    this.#change({ my_status: { ...entry.my_status, last_delivered_seq: seq } });
    return true;
  }

  /**
   * Applies the read state of a user. Returns what the client must fetch if the frame is not
   * enough.
   */
  noteStatus({ user_id, unread, last_delivered_seq, last_read_seq }: StatusFrame): "entry" | "statuses" | null {
    const { entry } = this;
    if (!entry) return null;
    const status = { last_delivered_seq, last_read_seq };
    if (user_id === this.userId) {
      const isReadFurther = last_read_seq > entry.my_status.last_read_seq;
      this.#change({ my_status: furthest(entry.my_status, status) });
      if (!isReadFurther) return null;
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
    // The slowest member matters only while a tick can still change.
    if (entry.member_count > SMALL_GROUP || !this.#waitsForTicks()) return null;
    this.#earlyReadStates.set(user_id, furthest(this.#earlyReadStates.get(user_id) ?? status, status));
    return "statuses";
  }

  /** Whether a tick depends on the read states of a small group and they are unknown. */
  get lacksStatuses(): boolean {
    return this.#statuses === null && this.entry?.kind === "group" && this.entry.member_count <= SMALL_GROUP && this.#waitsForTicks();
  }

  #waitsForTicks(): boolean {
    const { last_message, peer_status } = this.entry as InboxEntry;
    const isWaiting = (message: { sender_id: string; content_type: string; seq: number }) => this.#isOwn(message) && message.seq > peer_status.last_read_seq;
    return (last_message !== null && isWaiting(last_message)) || this.timeline.above(peer_status.last_read_seq).some(isWaiting);
  }

  /**
   * Sets the read state of each member of a small group. From then on, frames are enough to derive
   * the ticks.
   */
  noteStatuses(members: readonly MemberStatusBody[]): void {
    const others = members.filter(({ user_id }) => user_id !== this.userId);
    this.#statuses = new Map(others.map((member) => [member.user_id, { ...member, ...furthest(member, this.#earlyReadStates.get(member.user_id) ?? member) }]));
    this.#earlyReadStates.clear();
    this.#deriveReceipts();
  }

  /**
   * Forgets the statuses if the message adds or removes a member. The member count alone is not
   * enough: a join and a leave cancel out.
   */
  noteMembers(message: StoredMessage): void {
    if ((readNotice(message)?.event ?? "") in MEMBERS_CHANGE) this.forgetStatuses();
  }

  /**
   * Forgets the read states of the members, because members changed or frames may have been missed.
   */
  forgetStatuses(): void {
    this.#statuses = null;
    this.#earlyReadStates.clear();
    this.statusesVersion += 1;
  }

  /**
   * Derives the ticks from the slowest member. Messages before a member joined do not count for
   * that member.
   */
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

  /** Applies the lowest read state of all other members of a group. */
  noteReceipts({ last_delivered_seq, last_read_seq }: ReceiptsFrame): void {
    if (this.entry) this.#change({ peer_status: furthest(this.entry.peer_status, { last_delivered_seq, last_read_seq }) });
  }

  /** Records that messages exist up to `seq`. */
  noteHead(seq: number): void {
    if (this.entry && seq > this.entry.last_seq) this.#change({ last_seq: seq });
  }

  /** Restores the entry from an earlier start. */
  remember(entry: InboxEntry, haveSeq: number): void {
    this.entry = entry;
    this.haveSeq = haveSeq;
    this.isListed = true;
    this.invalidate();
  }

  /**
   * Restores stored messages. Before the hello (`mayAskAgain`), it may lower `haveSeq` to the last
   * of them; the server then pushes the missing messages again.
   */
  restore(run: StoredMessage[], reachesStart: boolean, mayAskAgain: boolean): void {
    const [from, to] = [run[0]?.seq ?? 0, run.at(-1)?.seq ?? 0];
    if (run.length === 0) return;
    if (mayAskAgain && from <= (this.haveSeq ?? 0) + 1 && to >= (this.haveSeq ?? 0) - ASK_AGAIN_LIMIT) this.haveSeq = to;
    this.timeline.restore(run, reachesStart, to >= (this.haveSeq ?? 0));
    this.invalidate();
  }

  /** Resets everything except the number of open views. */
  reset(): void {
    this.entry = undefined;
    this.isListed = false;
    this.haveSeq = null;
    this.forgetStatuses();
    this.#membersSeq = 0;
    this.#serverSeq = 0;
    this.#arrivedUnread = [];
    this.timeline.clear();
    this.invalidate();
  }
}
