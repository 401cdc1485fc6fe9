// The state behind the screen, for one logged-in user, and the rules by which frames and answers change it. It
// draws nothing.

import { Api } from "./api.js";
import { Connection } from "./connection.js";
import { SMALL_GROUP } from "./inbox.js";
import { Outbox } from "./outbox.js";
import { Signals } from "./signals.js";
import { Sync } from "./sync.js";
import { Timeline } from "./timeline.js";
import { readNotice } from "./words.js";

const PAGE = 50;
/** Conversations whose messages are kept at hand, and how many of each that is not open. */
const TIMELINES = 50;
const CLOSED_TIMELINE = 100;
const CLOSE_FRAME_TOO_LARGE = 1009;
/** The message goes again a little later; every other code is the user's to resolve. */
const RETRY_CODES = new Set(["rate_limited", "overloaded", "store_unavailable", "draining", "internal"]);

export class Chat {
  open = null;
  connectionState = "connecting";
  #inFlight = new Set();
  #timelines = new Map();

  /** `handlers`: onChange(), onTrouble(text), onExpired(), onGone(conversation id). */
  constructor(session, handlers) {
    this.user = session.user_id;
    this.handlers = handlers;
    this.api = new Api(session.token, handlers.onExpired);
    this.outbox = new Outbox(this.user);
    this.signals = new Signals(handlers.onChange);
    this.sync = new Sync(this.user, this.api, {
      send: (frame) => this.connectionState === "online" && this.connection.send(frame),
      take: (message) => this.#take(message),
      onChange: handlers.onChange,
      onGone: (id, error) => this.#forgetIfGone(id, error),
      onPresence: (presence) => this.signals.onPresence(presence),
    });
    this.connection = new Connection(session.token, {
      onFrame: (frame) => this.#onFrame(frame),
      onState: (state, closeCode) => this.#onState(state, closeCode),
      onExpired: handlers.onExpired,
      positions: () => this.sync.positions(),
    });
  }

  get inbox() {
    return this.sync.inbox;
  }

  get openRow() {
    return this.inbox.rows.get(this.open?.id);
  }

  stop() {
    this.connection.stop();
    this.sync.stop();
    this.signals.clear();
    this.connectionState = "offline";
    clearTimeout(this.retryTimer);
    this.open = null;
  }

  // The open conversation

  openConversation(id) {
    if (this.open?.id === id) return;
    this.open = id === "" ? null : { id, timeline: this.#timelineOf(id), busy: false, error: null };
    if (this.open) this.#lookAtOpen();
    this.handlers.onChange();
  }

  #lookAtOpen() {
    const { id } = this.open;
    this.loadNewest();
    this.sync.noticed(id);
    // Of a large group the answer is large, and what the ticks need is pushed.
    if (!(this.openRow?.member_count > SMALL_GROUP)) this.sync.refresh(id);
    this.#askPresence();
  }

  /** What is at hand is bounded: the conversation that was quiet for longest goes first. */
  #timelineOf(id) {
    const timeline = this.#timelines.get(id) ?? new Timeline();
    this.#timelines.delete(id);
    this.#timelines.set(id, timeline);
    for (const oldest of this.#timelines.keys()) {
      if (this.#timelines.size <= TIMELINES) break;
      if (oldest !== this.open?.id) this.#timelines.delete(oldest);
    }
    return timeline;
  }

  /** The server tells of the latest conversations by itself; of others it has to be asked. */
  async #askPresence() {
    const { id } = this.open;
    if (this.connectionState !== "online" || !id.startsWith("d")) return;
    try {
      for (const presence of (await this.api.presence(id)).members) this.signals.onPresence(presence);
    } catch {
      // Then it is not known.
    }
    this.handlers.onChange();
  }

  loadNewest() {
    return this.#fetch({ limit: PAGE }, (timeline, page) => timeline.addNewest(page));
  }

  loadOlder() {
    const before_seq = this.open.timeline.olderCursor;
    return this.#fetch({ before_seq, limit: PAGE }, (timeline, page) => timeline.addOlder(page));
  }

  /** One page at a time; a failure is shown in the conversation. */
  async #fetch(query, add) {
    const opened = this.open;
    if (opened.busy) {
      opened.stale = true;
      return;
    }
    Object.assign(opened, { busy: true, stale: false, error: null });
    this.handlers.onChange();
    try {
      const page = await this.api.messages(opened.id, query);
      add(opened.timeline, page);
      for (const message of page.messages) this.#settleOwn(message);
    } catch (error) {
      opened.error = error.message;
      this.#forgetIfGone(opened.id, error);
    }
    opened.busy = false;
    // Meanwhile something came that the page may not hold.
    if (opened.stale && this.open === opened) this.loadNewest();
    this.handlers.onChange();
  }

  /** The user looks at the open conversation. */
  markSeen() {
    const { openRow: row } = this;
    if (!row || !this.open.timeline.loaded) return;
    const { knownUpTo, messages } = this.open.timeline;
    // What comes before a message of one's own counts as read already.
    if (row.unread > 0 || messages.at(-1)?.sender_id !== this.user) this.sync.readUpTo(row, knownUpTo);
  }

  /** The user writes in the open conversation. */
  composing() {
    const { id } = this.open ?? {};
    if (id && this.connectionState === "online" && this.signals.timeToTell(id)) {
      this.connection.send({ type: "typing", conversation_id: id });
    }
  }

  // Sending

  /** False when the message cannot be taken. */
  send(content) {
    if (this.outbox.full) {
      this.handlers.onTrouble("Too many messages are waiting to be sent.");
      return false;
    }
    this.outbox.add(this.open.id, content, this.openRow?.last_seq ?? 0);
    this.#flush();
    this.handlers.onChange();
    return true;
  }

  /** The user's decision about a refused message: "retry" or "discard". */
  resolveFailure(message_id, decision) {
    if (decision === "retry") this.outbox.setFailure(message_id, null);
    else this.outbox.settle(message_id);
    this.#flush();
    this.handlers.onChange();
  }

  #flush() {
    if (this.connectionState !== "online") return;
    for (const item of this.outbox.items.values()) {
      if (item.failure !== null || this.#inFlight.has(item.message_id)) continue;
      if (!this.connection.send(this.outbox.frameFor(item))) return;
      this.#inFlight.add(item.message_id);
    }
  }

  // What arrives

  #onState(state, closeCode) {
    this.connectionState = state;
    if (closeCode === CLOSE_FRAME_TOO_LARGE) {
      // Sent again, it would close the next connection too.
      for (const message_id of this.#inFlight) this.outbox.setFailure(message_id, "too large for this server");
    }
    if (state !== "online") {
      this.#inFlight.clear();
      this.sync.lost();
      this.signals.clear();
    }
    this.handlers.onChange();
  }

  #onFrame(frame) {
    const known = {
      welcome: this.#onWelcome,
      caught_up: () => this.sync.caughtUp(),
      backlog: () => this.sync.behind(frame.conversation_id, frame.head_seq),
      gone: () => this.forget(frame.conversation_id, "You are no longer in this group."),
      ack: this.#onAck,
      message: this.#onMessage,
      status: this.#onStatus,
      receipts: () => this.inbox.takeReceipts(frame),
      conversation: this.#onConversation,
      typing: () => this.signals.onTyping(frame),
      presence: () => this.signals.onPresence(frame),
      error: this.#onError,
    };
    known[frame.type]?.call(this, frame);
    if (frame.type !== "pong") this.handlers.onChange();
  }

  #onWelcome({ epoch }) {
    if (!this.sync.welcome(epoch)) {
      this.#timelines.clear();
      if (this.open) this.open.timeline = this.#timelineOf(this.open.id);
    }
    this.outbox.reload();
    this.#flush();
    if (this.open) this.#lookAtOpen();
  }

  /** The ack stands for the message, which is not sent back to this connection. */
  #onAck({ conversation_id, message_id, seq, received_at }) {
    this.#inFlight.delete(message_id);
    const item = this.outbox.settle(message_id);
    if (item) this.#take({ ...item, conversation_id, seq, received_at, sender_id: this.user }, false);
    else if (this.open?.id === conversation_id) this.loadNewest();
  }

  /** Another tab may have sent what this one holds, or the ack was lost. */
  #settleOwn({ sender_id, message_id }) {
    if (sender_id === this.user) this.outbox.settle(message_id);
  }

  #onMessage({ type, ...message }) {
    this.signals.stopTyping(message.conversation_id, message.sender_id);
    const { event, user_id } = readNotice(message) ?? {};
    const isDeparture = event === "member_removed" || event === "member_left";
    if (isDeparture && user_id === this.user) this.forget(message.conversation_id, "You are no longer in this group.");
    else this.#take(message);
  }

  #onStatus(frame) {
    const { conversation_id: id } = frame;
    const held = this.#timelines.get(id)?.messages ?? [];
    if (!this.inbox.takeStatus(frame, held)) this.sync.refresh(id);
  }

  #onConversation({ type, ...entry }) {
    this.sync.noticed(entry.conversation_id);
    this.sync.learn(entry);
  }

  #onError({ code, message, message_id }) {
    if (!message_id) {
      // It may be about any of those on their way, and no ack may ever come: all go again, which is safe.
      this.#inFlight.clear();
      this.#flushLater();
      return this.handlers.onTrouble(message);
    }
    this.#inFlight.delete(message_id);
    if (RETRY_CODES.has(code)) this.#flushLater();
    else this.outbox.setFailure(message_id, message);
  }

  #flushLater() {
    clearTimeout(this.retryTimer);
    this.retryTimer = setTimeout(() => this.#flush(), 1_000 + Math.random() * 4_000);
  }

  #take(message, needsAck) {
    const { conversation_id: id } = message;
    this.#settleOwn(message);
    const isOpen = this.open?.id === id;
    const timeline = isOpen ? this.open.timeline : this.#timelineOf(id);
    const isWhole = timeline.insert(message);
    if (!isOpen) timeline.trim(CLOSED_TIMELINE);
    else if (!isWhole) this.loadNewest();
    this.sync.received(message, needsAck);
  }

  // The user's wishes about a conversation

  /** Pinned, muted, archived, read_receipts: what `change` names. */
  async set(id, change) {
    this.sync.learn(await this.api.setConversation(id, change));
  }

  /** "Read by 2 of 5", in words. */
  async tellReceipts(seq) {
    try {
      const { read_count, delivered_count, recipient_count } = await this.api.receipts(this.open.id, seq);
      this.handlers.onTrouble(`Read by ${read_count} of ${recipient_count}, delivered to ${delivered_count}.`);
    } catch (error) {
      this.handlers.onTrouble(error.message);
    }
  }

  #forgetIfGone(id, error) {
    if (error.code === "conversation_not_found") this.forget(id, "You are not in this conversation.");
  }

  forget(id, why) {
    this.sync.forget(id);
    this.#timelines.delete(id);
    for (const item of this.outbox.items.values()) {
      if (item.conversation_id === id) this.outbox.settle(item.message_id);
    }
    if (this.open?.id === id) {
      this.open = null;
      this.handlers.onTrouble(why);
    }
    this.handlers.onGone(id);
    this.handlers.onChange();
  }
}
