// Who is typing and who is there. None of it is stored; it fades by itself.

const TELL_EVERY_MS = 3_000;
const SHOWN_MS = 5_000;

export class Signals {
  /** By conversation, a timer for each who types. */
  #typing = new Map();
  #presence = new Map();
  #toldAt = new Map();

  constructor(onChange) {
    this.onChange = onChange;
  }

  /** Whether it is time to say again that one types. */
  timeToTell(conversation_id) {
    if (Date.now() - (this.#toldAt.get(conversation_id) ?? 0) < TELL_EVERY_MS) return false;
    this.#toldAt.set(conversation_id, Date.now());
    return true;
  }

  onTyping({ conversation_id, user_id }) {
    this.stopTyping(conversation_id, user_id);
    const timer = setTimeout(() => {
      this.stopTyping(conversation_id, user_id);
      this.onChange();
    }, SHOWN_MS);
    if (!this.#typing.has(conversation_id)) this.#typing.set(conversation_id, new Map());
    this.#typing.get(conversation_id).set(user_id, timer);
  }

  /** The time is over, or what was typed has come. */
  stopTyping(conversation_id, user_id) {
    const typists = this.#typing.get(conversation_id);
    clearTimeout(typists?.get(user_id));
    typists?.delete(user_id);
  }

  typists(conversation_id) {
    return [...(this.#typing.get(conversation_id)?.keys() ?? [])];
  }

  onPresence(presence) {
    this.#presence.set(presence.user_id, presence);
  }

  presenceOf(user_id) {
    return this.#presence.get(user_id);
  }

  /** Without a connection nothing is known. */
  clear() {
    for (const typists of this.#typing.values()) for (const timer of typists.values()) clearTimeout(timer);
    this.#typing.clear();
    this.#presence.clear();
    this.#toldAt.clear();
  }
}
