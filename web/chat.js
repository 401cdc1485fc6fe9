// The state behind the screen, for one logged-in user, and the rules by which frames and answers change it. It
// draws nothing.

import { Api } from "./api.js";
import { Connection } from "./connection.js";
import { Outbox } from "./outbox.js";
import { keyFor, read, readAll, remove, write } from "./storage.js";
import { Timeline } from "./timeline.js";
import { previewOf, readNotice } from "./words.js";

const PAGE = 50;
const CLOSE_FRAME_TOO_LARGE = 1009;
/** The message goes again a little later; every other code is the user's to resolve. */
const RETRY_CODES = new Set(["rate_limited", "overloaded", "store_unavailable", "draining", "internal"]);

const MEMBERS_CHANGE = { member_added: 1, member_removed: -1, member_left: -1 };

export class Chat {
  open = null;
  connectionState = "connecting";
  #inFlight = new Set();

  /** `handlers`: onChange(), onTrouble(text), onExpired(), onGone(conversation id). */
  constructor(session, handlers) {
    this.user = session.user_id;
    this.handlers = handlers;
    this.api = new Api(session.token, handlers.onExpired);
    this.outbox = new Outbox(this.user);
    this.rows = new Map(readAll(keyFor("conversation", this.user)).map((row) => [row.id, row]));
    this.connection = new Connection(session.token, {
      onFrame: (frame) => this.#onFrame(frame),
      onState: (state, closeCode) => this.#onState(state, closeCode),
      onExpired: handlers.onExpired,
    });
  }

  stop() {
    this.connection.stop();
    this.connectionState = "offline";
    clearTimeout(this.retryTimer);
    this.open = null;
  }

  // The open conversation

  openConversation(id) {
    if (this.open?.id === id) return;
    this.open = id === "" ? null : { id, timeline: new Timeline(), busy: false, error: null };
    if (this.open) this.loadNewest();
    if (this.open && !this.rows.has(id)) this.refresh(id);
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
    const row = this.rows.get(this.open?.id);
    if (row && row.seenSeq < row.headSeq) this.#save(row, { seenSeq: row.headSeq });
  }

  // Sending

  /** False when the message cannot be taken. */
  send(content) {
    if (this.outbox.full) {
      this.handlers.onTrouble("Too many messages are waiting to be sent.");
      return false;
    }
    this.outbox.add(this.open.id, content, this.rows.get(this.open.id)?.headSeq ?? 0);
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
    if (state !== "online") this.#inFlight.clear();
    this.handlers.onChange();
  }

  #onFrame(frame) {
    const known = { welcome: this.#onWelcome, ack: this.#onAck, message: this.#onMessage, error: this.#onError };
    known[frame.type]?.call(this, frame);
  }

  async #onWelcome({ epoch }) {
    // The store went back to an earlier state: what this browser remembers may never have been.
    const key = keyFor("epoch", this.user);
    if ((read(key) ?? epoch) !== epoch) {
      for (const row of this.rows.values()) this.#save(row, { headSeq: 0, seenSeq: 0, previewSeq: 0 });
      if (this.open) this.open.timeline = new Timeline();
    }
    write(key, epoch);
    this.outbox.reload();
    this.#flush();
    if (this.open) this.loadNewest();
    for (const { id } of this.sortedRows()) if (this.connectionState === "online") await this.refresh(id);
  }

  /** The ack stands for the message, which is not sent back to this connection. */
  #onAck({ conversation_id, message_id, seq, received_at }) {
    this.#inFlight.delete(message_id);
    const item = this.outbox.settle(message_id);
    if (item) this.#take({ ...item, conversation_id, seq, received_at, sender_id: this.user });
    else if (this.open?.id === conversation_id) this.loadNewest();
  }

  /** Another tab may have sent what this one holds, or the ack was lost. */
  #settleOwn({ sender_id, message_id }) {
    if (sender_id === this.user) this.outbox.settle(message_id);
  }

  #onMessage(message) {
    this.#settleOwn(message);
    const notice = readNotice(message);
    const departed = MEMBERS_CHANGE[notice?.event] === -1;
    if (departed && notice.user_id === this.user) this.forget(message.conversation_id, "You are no longer in this group.");
    else this.#take(message, notice);
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
    this.handlers.onChange();
  }

  #flushLater() {
    clearTimeout(this.retryTimer);
    this.retryTimer = setTimeout(() => this.#flush(), 1_000 + Math.random() * 4_000);
  }

  #take(message, notice = null) {
    const { conversation_id: id, seq } = message;
    const row = this.rows.get(id);
    if (!row) {
      this.refresh(id);
    } else if (seq > row.previewSeq) {
      // A reply tells of having read; a notice is not to be read.
      const seen = message.sender_id === this.user || (notice && row.seenSeq === seq - 1);
      const joined = seq > row.headSeq ? (MEMBERS_CHANGE[notice?.event] ?? 0) : 0;
      this.#save(row, {
        headSeq: Math.max(row.headSeq, seq),
        seenSeq: seen ? seq : row.seenSeq,
        memberCount: row.memberCount + joined,
        lastAt: message.received_at,
        preview: previewOf(message, this.user),
        previewSeq: seq,
      });
    }
    if (this.open?.id === id && !this.open.timeline.insert(message)) this.loadNewest();
    this.handlers.onChange();
  }

  // The list of conversations

  sortedRows() {
    return [...this.rows.values()].sort((one, other) => other.lastAt - one.lastAt);
  }

  /** Asks the server about a conversation and remembers it. */
  async refresh(id) {
    try {
      const row = this.learn(await this.api.conversation(id));
      if (row.previewSeq >= row.headSeq) return;
      const [newest] = (await this.api.messages(id, { limit: 1 })).messages;
      if (newest) this.#save(row, { preview: previewOf(newest, this.user), previewSeq: newest.seq });
    } catch (error) {
      this.#forgetIfGone(id, error);
    }
    this.handlers.onChange();
  }

  learn(conversation) {
    const { conversation_id: id, kind, title, peer, member_count: memberCount } = conversation;
    const row = this.rows.get(id) ?? { id, headSeq: 0, seenSeq: 0, previewSeq: 0, lastAt: 0, preview: "" };
    const headSeq = Math.max(row.headSeq, conversation.head_seq);
    const lastAt = Math.max(row.lastAt, conversation.last_at);
    this.#save(row, { title: title ?? peer ?? this.user, kind, memberCount, headSeq, lastAt });
    this.handlers.onChange();
    return row;
  }

  #save(row, change) {
    Object.assign(row, change);
    this.rows.set(row.id, row);
    write(keyFor("conversation", this.user, row.id), row);
  }

  #forgetIfGone(id, error) {
    if (error.code === "conversation_not_found") this.forget(id, "You are not in this conversation.");
  }

  forget(id, why) {
    this.rows.delete(id);
    remove(keyFor("conversation", this.user, id));
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
