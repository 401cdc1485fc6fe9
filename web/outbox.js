// Messages on their way: stored before the first attempt, and kept under the same message_id until acknowledged, so
// that neither a cut connection nor a closed tab loses or doubles one.

import { keyFor, readAll, remove, write } from "./storage.js";

/** Beyond this, sending is refused with a word to the user. */
const LIMIT = 200;

export class Outbox {
  constructor(user) {
    this.user = user;
    this.reload();
  }

  /** Takes over what other tabs left behind, and lets go of what they have seen acknowledged. */
  reload() {
    const items = readAll(keyFor("outbox", this.user));
    items.sort((one, other) => (one.message_id < other.message_id ? -1 : 1));
    this.items = new Map(items.map((item) => [item.message_id, item]));
  }

  get full() {
    return this.items.size >= LIMIT;
  }

  /** `after_seq` is where the conversation stood: on a late retry the server searches for a duplicate from there. */
  add(conversation_id, content, after_seq) {
    const message = { message_id: newMessageId(), conversation_id, content, timestamp: Date.now() };
    this.#save({ ...message, after_seq, attempted: false, failure: null });
  }

  /** The frame for the next attempt. The attempt is noted first, since after it the message may exist. */
  frameFor(item) {
    const { attempted, failure, after_seq, ...message } = item;
    if (attempted) return { type: "send", ...message, retry: true, after_seq };
    this.#save(Object.assign(item, { attempted: true }));
    return { type: "send", ...message };
  }

  /** Removes and returns the item, if it was waiting: it was acknowledged or given up. */
  settle(message_id) {
    const item = this.items.get(message_id);
    this.items.delete(message_id);
    remove(this.#key(message_id));
    return item;
  }

  /** Stays on the screen until the user tries again (`reason` null) or discards the message. */
  setFailure(message_id, reason) {
    const item = this.items.get(message_id);
    if (item) this.#save(Object.assign(item, { failure: reason }));
  }

  #save(item) {
    this.items.set(item.message_id, item);
    write(this.#key(item.message_id), item);
  }

  #key(message_id) {
    return keyFor("outbox", this.user, message_id);
  }
}

/** A UUIDv7: its text sorts by time, so what waits goes again in the order it was written. */
function newMessageId() {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  const random = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const time = Date.now().toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-8${random.slice(3, 6)}-${random.slice(6)}`;
}
