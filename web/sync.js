// Keeps this device in step with the server: the pages of the inbox, what the device has of each conversation, the acks
// that say so, and the fetching of what is missing.

import { Inbox } from "./inbox.js";
import { keyFor, read, remove, write } from "./storage.js";

const INBOX_PAGE = 50;
/** Lines that are kept for the first moment of the next visit. */
const CACHED_LINES = 50;
/** Lines that are asked for again after a pause, and positions in a hello. */
const KEPT_LINES = 200;
const MISSING_PAGE = 100;
/** Acks of this time go together. */
const ACK_AFTER_MS = 50;
const AGAIN_AFTER_MS = 5_000;
const SAVE_AFTER_MS = 1_000;

export class Sync {
  /** The next page of each part of the list; null at its end. */
  #cursors = new Map();
  #loading = false;
  #mustReload = false;
  /** Conversations that frames told of since the connection stands. */
  #told = new Set();
  /** Conversations that were pushed and are not in the list: up to where, without a gap. */
  #strangers = new Map();
  /** Those of them of which more was missed than was pushed. */
  #behind = new Set();
  #acks = new Map();
  #ackTimer = null;
  #saveTimer = null;
  #isStopped = false;
  #timers = new Set();
  /** By conversation, whether something happened since the question was put. */
  #asking = new Map();
  #missing = new Set();
  #fetching = Promise.resolve();
  isCaughtUp = false;

  /**
   * `handlers`: send(frame), which is false without a connection; take(message) for what is fetched; onChange();
   * onGone(conversation id, error); onPresence(presence).
   */
  constructor(user, api, handlers) {
    Object.assign(this, { user, api, handlers, cacheKey: keyFor("inbox", user) });
    const { epoch = null, lines = [] } = read(this.cacheKey) ?? {};
    this.epoch = epoch;
    this.inbox = new Inbox(user, lines);
    addEventListener("pagehide", this.#save);
  }

  stop() {
    this.#save();
    this.#isStopped = true;
    this.isCaughtUp = false;
    removeEventListener("pagehide", this.#save);
    clearTimeout(this.#ackTimer);
    for (const timer of this.#timers) clearTimeout(timer);
  }

  #save = () => {
    clearTimeout(this.#saveTimer);
    this.#saveTimer = null;
    if (this.#isStopped || this.epoch === null) return;
    const all = [...this.inbox.sorted(false), ...this.inbox.sorted(true)];
    const lines = all.slice(0, CACHED_LINES).map(({ arrived, ...line }) => line);
    write(this.cacheKey, { epoch: this.epoch, lines });
  };

  #saveSoon() {
    this.#saveTimer ??= setTimeout(this.#save, SAVE_AFTER_MS);
  }

  #later(work) {
    if (this.#isStopped) return;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      work();
    }, AGAIN_AFTER_MS);
    this.#timers.add(timer);
  }

  // The connection

  /** What this device has, for the hello. */
  positions() {
    const { epoch } = this;
    const rows = epoch === null ? [] : [...this.inbox.rows.values()];
    rows.sort((one, other) => other.last_at - one.last_at);
    const position = ({ conversation_id, have_seq }) => [conversation_id, { epoch, seq: have_seq }];
    return Object.fromEntries(rows.slice(0, KEPT_LINES).map(position));
  }

  /** False when the store went back to an earlier state: what this device remembers may never have been. */
  welcome(epoch) {
    const isSame = (this.epoch ?? epoch) === epoch;
    this.epoch = epoch;
    this.isCaughtUp = false;
    this.#told.clear();
    this.#strangers.clear();
    this.#behind.clear();
    if (!isSame) {
      this.inbox.rows.clear();
      this.#acks.clear();
      remove(this.cacheKey);
    }
    this.#reload();
    return isSame;
  }

  caughtUp() {
    this.isCaughtUp = true;
    for (const id of [...this.inbox.rows.keys(), ...this.#behind]) this.fetchMissing(id);
    this.#flushAcks();
    // They may have moved up while the list was read.
    if (this.#strangers.size > 0) this.#reload();
  }

  lost() {
    this.isCaughtUp = false;
  }

  // The pages of the inbox

  /** Reads anew as much of the list as there was, and lets go of lines of which nobody speaks any more. */
  async #reload() {
    this.#mustReload = true;
    if (this.#loading) return;
    this.#loading = true;
    this.#mustReload = false;
    const confirmed = new Set();
    try {
      for (const archived of [false, true]) {
        let wanted = Math.min(this.inbox.sorted(archived).length, KEPT_LINES);
        this.#cursors.delete(archived);
        do {
          const ids = await this.#page(archived);
          for (const id of ids) confirmed.add(id);
          wanted -= ids.length;
        } while (wanted > 0 && this.#cursors.get(archived));
      }
      for (const id of this.inbox.rows.keys()) {
        if (!confirmed.has(id) && !this.#told.has(id)) this.inbox.rows.delete(id);
      }
    } catch {
      this.#later(() => this.#reload());
    }
    this.#loading = false;
    if (this.#mustReload) this.#reload();
    this.handlers.onChange();
  }

  async #page(archived) {
    const cursor = this.#cursors.get(archived);
    const query = { limit: INBOX_PAGE, archived };
    const page = await this.api.inbox(cursor ? { ...query, cursor } : query);
    this.#cursors.set(archived, page.next_cursor);
    for (const entry of page.conversations) this.learn(entry);
    return page.conversations.map(({ conversation_id }) => conversation_id);
  }

  hasMore(archived) {
    return Boolean(this.#cursors.get(archived));
  }

  /** The person came to the end of what is shown. */
  async loadMore(archived) {
    if (this.#loading || !this.hasMore(archived)) return;
    this.#loading = true;
    const done = () => {
      this.#loading = false;
      if (this.#mustReload) this.#reload();
    };
    try {
      await this.#page(archived);
      done();
    } catch {
      // Until then, further wishes are passed over.
      this.#later(done);
    }
    this.handlers.onChange();
  }

  /** The server's word about a conversation: a line of its inbox. */
  learn(entry) {
    const { conversation_id, my_status, peer_presence } = entry;
    const row = this.inbox.learn(entry);
    row.have_seq = Math.max(row.have_seq, this.#strangers.get(conversation_id) ?? 0);
    this.#strangers.delete(conversation_id);
    if (peer_presence) this.handlers.onPresence(peer_presence);
    if (row.my_status.last_read_seq > my_status.last_read_seq) this.#ack(conversation_id, "read");
    else if (row.have_seq > my_status.last_delivered_seq) this.#ack(conversation_id);
    this.fetchMissing(conversation_id);
    this.#saveSoon();
    this.handlers.onChange();
    return row;
  }

  /** A frame told of the conversation, so that it stays in the list whatever an older page says. */
  noticed(conversation_id) {
    this.#told.add(conversation_id);
  }

  forget(id) {
    this.inbox.rows.delete(id);
    this.#told.delete(id);
    this.#acks.delete(id);
    this.#saveSoon();
  }

  /** Asks about one conversation, wherever in the list it is. */
  async refresh(id) {
    if (this.#asking.has(id)) return this.#asking.set(id, true);
    this.#asking.set(id, false);
    this.noticed(id);
    try {
      const { head_seq: last_seq, members, ...detail } = await this.api.conversation(id);
      const first_seq = members.find(({ user_id }) => user_id === this.user)?.joined_seq ?? 1;
      const last_message = this.inbox.rows.get(id)?.last_message ?? null;
      const row = this.learn({ ...detail, first_seq, last_seq, last_message });
      if ((row.last_message?.seq ?? 0) < row.last_seq) {
        const { messages } = await this.api.messages(id, { limit: 1 });
        row.last_message = messages[0] ?? null;
      }
    } catch (error) {
      this.handlers.onGone(id, error);
    }
    const isOld = this.#asking.get(id);
    this.#asking.delete(id);
    if (isOld && this.inbox.rows.has(id)) this.refresh(id);
    this.handlers.onChange();
  }

  // What this device has

  /** A message is here. One of which the server was told by sending it needs no ack. */
  received(message, needsAck = true) {
    const { conversation_id, seq } = message;
    this.noticed(conversation_id);
    const row = this.inbox.takeMessage(message);
    this.#saveSoon();
    if (row && !this.inbox.have(row, seq)) this.fetchMissing(conversation_id);
    if (!row) {
      const end = this.#strangers.get(conversation_id) ?? seq - 1;
      this.#strangers.set(conversation_id, seq === end + 1 ? seq : end);
      // The backlog may be of many conversations far down the list; what comes later belongs to its top.
      if (this.isCaughtUp) this.refresh(conversation_id);
    }
    if (needsAck) this.#ack(conversation_id);
  }

  readUpTo(row, seq) {
    if (this.inbox.readHere(row, seq)) this.#ack(row.conversation_id, "read");
  }

  /** More was missed than is pushed. */
  behind(id, head_seq) {
    const row = this.inbox.rows.get(id);
    if (row) row.last_seq = Math.max(row.last_seq, head_seq);
    else this.#behind.add(id);
  }

  /** One conversation after the other. While the backlog comes in, what is missing may still be in it. */
  fetchMissing(id) {
    const row = this.inbox.rows.get(id);
    const isMissing = row ? row.have_seq < row.last_seq : this.#behind.has(id);
    if (!this.isCaughtUp || !isMissing || this.#missing.has(id)) return;
    this.#missing.add(id);
    this.#fetching = this.#fetching.then(async () => {
      try {
        if (!this.inbox.rows.has(id)) await this.refresh(id);
        while (await this.#fetchAfter(id));
      } catch (error) {
        if (error.status === 404) this.handlers.onGone(id, error);
        else this.#later(() => this.fetchMissing(id));
      }
      this.#missing.delete(id);
    });
  }

  /** Whether there may be more. */
  async #fetchAfter(id) {
    const row = this.inbox.rows.get(id);
    if (!this.isCaughtUp || !row || row.have_seq >= row.last_seq) return false;
    const after_seq = row.have_seq;
    const { messages } = await this.api.messages(id, { after_seq, limit: MISSING_PAGE });
    for (const message of messages) this.handlers.take(message);
    return (this.inbox.rows.get(id)?.have_seq ?? 0) > after_seq;
  }

  // Acks

  /** Says in a moment how far this device has come ("delivered") or the person has read ("read"). */
  #ack(id, kind = "delivered") {
    if (this.#acks.get(id) !== "read") this.#acks.set(id, kind);
    this.#ackTimer ??= setTimeout(this.#flushAcks, ACK_AFTER_MS);
  }

  #flushAcks = () => {
    clearTimeout(this.#ackTimer);
    this.#ackTimer = null;
    for (const [id, kind] of this.#acks) {
      // Without a connection they wait for the next one.
      if (!this.#tell(id, kind)) return;
      this.#acks.delete(id);
    }
  };

  #tell(conversation_id, kind) {
    const { send } = this.handlers;
    const { my_status, have_seq = this.#strangers.get(conversation_id) ?? 0 } = this.inbox.rows.get(conversation_id) ?? {};
    const read = kind === "read" && my_status ? my_status.last_read_seq : 0;
    if (read > 0 && !send({ type: "read", conversation_id, seq: read })) return false;
    return have_seq <= read || send({ type: "delivered", conversation_id, seq: have_seq });
  }
}
