// One conversation, as applications see it. It holds no state: `conversation-state.ts` has the
// state, and other modules do the work.

import type { Api } from "./api.ts";
import { BluetickError } from "./errors.ts";
import type { History } from "./history.ts";
import type { Outbox } from "./outbox.ts";
import type { EphemeralState } from "./ephemeral-state.ts";
import type { Sync } from "./sync.ts";
import type { ConversationState } from "./conversation-state.ts";
import { tickState } from "./ticks.ts";
import type { ConversationWaiting, InboxEntry, Member, Presence, Readers, Receipts, Settings, Tick, TimelineMessage, TimelineWindow } from "./types.ts";

/** The modules that do the work of a conversation. */
export interface ConversationParts {
  readonly userId: string;
  readonly api: Api;
  readonly history: History;
  readonly outbox: Outbox;
  readonly ephemeral: EphemeralState;
  readonly sync: Sync;
  onGone(conversationId: string): void;
}

/** One conversation. Get it from `client.conversation(id)`. */
export class Conversation {
  readonly id: string;
  #state: ConversationState;
  #parts: ConversationParts;

  /** Use `client.conversation(id)`. */
  constructor(state: ConversationState, parts: ConversationParts) {
    this.id = state.id;
    this.#state = state;
    this.#parts = parts;
  }

  /** Its inbox entry; undefined while this device does not know the conversation. */
  get entry(): InboxEntry | undefined {
    return this.#state.entry;
  }

  /**
   * Consecutive stored messages, each once, followed by the messages of the outbox if the window
   * reaches the newest message. Voids are left out. The array stays the same object until its
   * content changes.
   */
  get messages(): readonly TimelineMessage[] {
    return this.#state.shown(this.#parts.outbox);
  }

  /** Which part of the conversation `messages` holds. */
  get window(): TimelineWindow {
    return this.#state.window;
  }

  /**
   * A summary of the outbox for this conversation. Reading it is cheap, and a change of it counts
   * as a change of the inbox. It stays the same object until its content changes.
   */
  get waiting(): ConversationWaiting {
    return this.#parts.outbox.summary(this.id);
  }

  /** The number of messages after the window, for a "jump to latest" button. */
  get newerCount(): number {
    return this.#state.newerCount;
  }

  /**
   * Call this when the conversation appears on the screen. The client loads its newest messages,
   * presence and ticks now and after every reconnect, and does not evict its messages. Call the
   * returned function when the conversation disappears.
   */
  open(): () => void {
    return this.#parts.history.open(this.#state);
  }

  /**
   * Loads the newest messages. This call and the other loads never reject; `window.error` has the
   * reason of a failure.
   */
  loadNewest(): Promise<void> {
    return this.#parts.history.loadNewest(this.#state);
  }

  /**
   * Moves the window to the newest messages without the network, so that `messages` contains the
   * outbox. Returns false and changes nothing if some of the newest messages are not loaded; call
   * `loadNewest` then.
   */
  showLatest(): boolean {
    return this.#parts.history.showLatest(this.#state);
  }

  /** Loads one page of older messages. */
  loadOlder(): Promise<void> {
    return this.#parts.history.loadOlder(this.#state);
  }

  /** Loads one page of newer messages, if the window does not reach the newest message. */
  loadNewer(): Promise<void> {
    return this.#parts.history.loadNewer(this.#state);
  }

  /** Moves the window to a message, with some messages before and after it. */
  showAround(seq: number): Promise<void> {
    return this.#parts.history.showAround(this.#state, seq);
  }

  /**
   * Removes messages from one end of the window until `max` are left. `keep` names the end that
   * stays.
   */
  trim(max: number, keep: "newer" | "older" = "newer"): void {
    this.#parts.history.trim(this.#state, max, keep);
  }

  /**
   * Adds a message to the outbox, which keeps it until the server has it. Returns the message;
   * later states of it are in `messages`. Throws `outbox_full`, and `invalid_request` for an empty
   * text.
   */
  send(content: string, options: { readonly contentType?: string } = {}): TimelineMessage {
    return this.#parts.outbox.add(this.#state, content, options.contentType ?? "text");
  }

  /** Sends a failed message again. */
  retry(messageId: string): void {
    this.#parts.outbox.retry(messageId);
  }

  /**
   * Removes a message from the outbox. Returns false if the server may already have the message;
   * the message then stays, and the server's answer decides.
   */
  cancel(messageId: string): boolean {
    return this.#parts.outbox.cancel(messageId);
  }

  /**
   * Reports that the user has read everything up to a seq; without a seq, everything in the window.
   */
  markRead(upToSeq?: number): void {
    this.#parts.sync.markRead(this.#state, upToSeq ?? this.#state.window.toSeq);
  }

  /**
   * Reports that the user is typing. Call it at every key press; the client sends at most one frame
   * per 3 s.
   */
  typing(): void {
    this.#parts.ephemeral.sendTyping(this.id);
  }

  /** The other users who are typing. */
  get typists(): readonly string[] {
    return this.#parts.ephemeral.typists(this.id);
  }

  /** The presence of a user; undefined while it is unknown. */
  presence(userId: string): Presence | undefined {
    return this.#parts.ephemeral.presence(userId);
  }

  /** The tick of one of the user's own messages. */
  tick(message: TimelineMessage): Tick {
    if (message.state === "failed") return "failed";
    if (message.seq === null) return "queued";
    const { last_delivered_seq = 0, last_read_seq = 0 } = this.entry?.peer_status ?? {};
    return tickState(message.seq, last_delivered_seq, last_read_seq);
  }

  /**
   * How many users have received and read a message. The cost does not depend on the size of the
   * group.
   */
  async receipts(seq: number): Promise<Receipts> {
    const { recipient_count, delivered_count, read_count } = await this.#parts.api.receipts(this.id, seq);
    return { recipients: recipient_count, delivered: delivered_count, read: read_count };
  }

  /**
   * Which users have received and read a message. `senderId` and users who joined later are left
   * out.
   */
  async readers(seq: number, senderId: string = this.#parts.userId): Promise<Readers> {
    const { members } = await this.#parts.api.statuses(this.id);
    const recipients = members.filter(({ user_id, joined_seq }) => user_id !== senderId && joined_seq <= seq);
    const lists = { read: [] as string[], delivered: [] as string[], sent: [] as string[] };
    for (const { user_id, last_delivered_seq, last_read_seq } of recipients) {
      lists[tickState(seq, last_delivered_seq, last_read_seq)].push(user_id);
    }
    return { read: lists.read, delivered: lists.delivered, waiting: lists.sent };
  }

  /** Fetches the members from the server. */
  async members(): Promise<readonly Member[]> {
    return this.#parts.sync.refresh(this.#state);
  }

  /** Adds users to the group. */
  async addMembers(userIds: readonly string[]): Promise<void> {
    await this.#parts.api.addMembers(this.id, userIds);
    await this.#parts.sync.refresh(this.#state);
  }

  /** Removes a user from the group. */
  async removeMember(userId: string): Promise<void> {
    await this.#parts.api.removeMember(this.id, userId);
    if (userId !== this.#parts.userId) await this.#parts.sync.refresh(this.#state);
  }

  /** Leaves the group. When this resolves, the group is no longer in the inbox. */
  async leave(): Promise<void> {
    await this.#parts.api.removeMember(this.id, this.#parts.userId);
    this.#parts.onGone(this.id);
  }

  /**
   * Changes the user's settings for the conversation: pinned, muted, archived, read receipts.
   * Settings that are not given keep their values.
   */
  async settings(change: Settings): Promise<InboxEntry> {
    this.#parts.sync.applyEntry(await this.#parts.api.changeSettings(this.id, change));
    if (!this.entry) throw new BluetickError("conversation_not_found", "You are not in this conversation.");
    return this.entry;
  }
}
