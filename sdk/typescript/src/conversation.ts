// One conversation as an application sees it. It holds no state of its own: that is in its thread, and the work is done
// by the parts it is given.

import type { Api } from "./api.ts";
import { BluetickError } from "./errors.ts";
import type { History } from "./history.ts";
import type { Outbox } from "./outbox.ts";
import type { Signals } from "./signals.ts";
import type { Sync } from "./sync.ts";
import type { Thread } from "./thread.ts";
import { tickState } from "./ticks.ts";
import type { ConversationWaiting, InboxEntry, Member, Presence, Readers, Receipts, Settings, Tick, TimelineMessage, TimelineWindow } from "./types.ts";

export interface ConversationParts {
  readonly userId: string;
  readonly api: Api;
  readonly history: History;
  readonly outbox: Outbox;
  readonly signals: Signals;
  readonly sync: Sync;
  onGone(conversationId: string): void;
}

export class Conversation {
  readonly id: string;
  #thread: Thread;
  #parts: ConversationParts;

  /** Use `client.conversation(id)`. */
  constructor(thread: Thread, parts: ConversationParts) {
    this.id = thread.id;
    this.#thread = thread;
    this.#parts = parts;
  }

  /** Its line of the inbox; undefined while it is not known here. */
  get entry(): InboxEntry | undefined {
    return this.#thread.entry;
  }

  /**
   * A run of stored messages without a gap, in order, each once; after the newest of them, what waits in the outbox. Places
   * that nobody wrote to are left out. The array stays the same object until something in it changed.
   */
  get messages(): readonly TimelineMessage[] {
    return this.#thread.shown(this.#parts.outbox);
  }

  /** Which part of the conversation `messages` is. */
  get window(): TimelineWindow {
    return this.#thread.window;
  }

  /** What is not with the server yet; cheap, and told as a change of the inbox. The same object until it changed. */
  get waiting(): ConversationWaiting {
    return this.#parts.outbox.summary(this.id);
  }

  /** How many messages lie beyond the window: for "jump to latest". */
  get newerCount(): number {
    return this.#thread.newerCount;
  }

  /**
   * A person looks at it: its newest messages, presence and ticks are brought up to date now and after every pause, and
   * the window is not cut until the function that is returned was called.
   */
  open(): () => void {
    return this.#parts.history.open(this.#thread);
  }

  /** Goes to the newest messages. Failures of this and the other loads are in `window.error`; none of them rejects. */
  loadNewest(): Promise<void> {
    return this.#parts.history.loadNewest(this.#thread);
  }

  /**
   * Goes to the newest messages that are at hand, without the network: what waits in the outbox is
   * among `messages` then. False, and nothing changes, where some of the newest are not at hand;
   * `loadNewest` leads there.
   */
  showLatest(): boolean {
    return this.#parts.history.showLatest(this.#thread);
  }

  /** One page more at the old end. */
  loadOlder(): Promise<void> {
    return this.#parts.history.loadOlder(this.#thread);
  }

  /** One page more at the new end, where the window does not reach the head. */
  loadNewer(): Promise<void> {
    return this.#parts.history.loadNewer(this.#thread);
  }

  /** Moves the window to the place of one message, with some before and after it. */
  showAround(seq: number): Promise<void> {
    return this.#parts.history.showAround(this.#thread, seq);
  }

  /** Lets go of messages at one end until `max` are left. `keep` is the end that stays. */
  trim(max: number, keep: "newer" | "older" = "newer"): void {
    this.#parts.history.trim(this.#thread, max, keep);
  }

  /**
   * Puts a message into the outbox, which keeps it until the server has it. Throws `outbox_full`, and
   * `invalid_request` where there is no text. What is returned is also the last of `messages`; its state moves on there.
   */
  send(content: string, options: { readonly contentType?: string } = {}): TimelineMessage {
    return this.#parts.outbox.add(this.#thread, content, options.contentType ?? "text");
  }

  /** Tries a failed message again. */
  retry(messageId: string): void {
    this.#parts.outbox.retry(messageId);
  }

  /**
   * Takes a message out of the outbox; also one that the server refused for the moment. False when it may be with the
   * server already: then it stays, and what the server says decides.
   */
  cancel(messageId: string): boolean {
    return this.#parts.outbox.cancel(messageId);
  }

  /** The person has read everything up to here; everything in the window where no seq is given. */
  markRead(upToSeq?: number): void {
    this.#parts.sync.markRead(this.#thread, upToSeq ?? this.#thread.window.toSeq);
  }

  /** The person is writing. May be called at every key; the others are told every three seconds. */
  typing(): void {
    this.#parts.signals.tellTyping(this.id);
  }

  /** Who else is writing. */
  get typists(): readonly string[] {
    return this.#parts.signals.typists(this.id);
  }

  /** Whether somebody is there; undefined where it is not known. */
  presence(userId: string): Presence | undefined {
    return this.#parts.signals.presence(userId);
  }

  /** What to draw beside a message of one's own. */
  tick(message: TimelineMessage): Tick {
    if (message.state === "failed") return "failed";
    if (message.seq === null) return "queued";
    const { last_delivered_seq = 0, last_read_seq = 0 } = this.entry?.peer_status ?? {};
    return tickState(message.seq, last_delivered_seq, last_read_seq);
  }

  /** How many have a message; cheap in groups of any size. */
  async receipts(seq: number): Promise<Receipts> {
    const { recipient_count, delivered_count, read_count } = await this.#parts.api.receipts(this.id, seq);
    return { recipients: recipient_count, delivered: delivered_count, read: read_count };
  }

  /** Who has a message. `senderId` is left out, as are those who joined later. */
  async readers(seq: number, senderId: string = this.#parts.userId): Promise<Readers> {
    const { members } = await this.#parts.api.statuses(this.id);
    const recipients = members.filter(({ user_id, joined_seq }) => user_id !== senderId && joined_seq <= seq);
    const lists = { read: [] as string[], delivered: [] as string[], sent: [] as string[] };
    for (const { user_id, last_delivered_seq, last_read_seq } of recipients) {
      lists[tickState(seq, last_delivered_seq, last_read_seq)].push(user_id);
    }
    return { read: lists.read, delivered: lists.delivered, waiting: lists.sent };
  }

  /** Asks the server who is in it. */
  async members(): Promise<readonly Member[]> {
    return this.#parts.sync.refresh(this.#thread);
  }

  async addMembers(userIds: readonly string[]): Promise<void> {
    await this.#parts.api.addMembers(this.id, userIds);
    await this.#parts.sync.refresh(this.#thread);
  }

  async removeMember(userId: string): Promise<void> {
    await this.#parts.api.removeMember(this.id, userId);
    if (userId !== this.#parts.userId) await this.#parts.sync.refresh(this.#thread);
  }

  /** Leaves the group; it is gone from the inbox when this resolves. */
  async leave(): Promise<void> {
    await this.#parts.api.removeMember(this.id, this.#parts.userId);
    this.#parts.onGone(this.id);
  }

  /** Pins, mutes, archives, or hides what one reads. What is not named stays as it is. */
  async settings(change: Settings): Promise<InboxEntry> {
    this.#parts.sync.learn(await this.#parts.api.changeSettings(this.id, change));
    if (!this.entry) throw new BluetickError("conversation_not_found", "You are not in this conversation.");
    return this.entry;
  }
}
