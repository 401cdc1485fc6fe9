// The messages of one conversation: each once, in the order of seq, without a hole. It fetches nothing itself.

/** More than this is cut off at the old end; "load older" brings it back. */
const LIMIT = 1_000;

export class Timeline {
  messages = [];
  loaded = false;
  /** Everything from the oldest message here up to this seq is here. */
  knownUpTo = 0;
  /** The next `before_seq`, or null at the beginning. */
  olderCursor = null;

  /** False when something before the message is missing: then the newest page is needed. */
  insert(message) {
    // It would stand apart from the others; "load older" comes to it.
    if (this.loaded && message.seq < (this.olderCursor ?? 0)) return true;
    let at = this.messages.length;
    while (at > 0 && this.messages[at - 1].seq > message.seq) at--;
    if (this.messages[at - 1]?.seq !== message.seq) this.messages.splice(at, 0, message);
    if (message.seq === this.knownUpTo + 1) this.knownUpTo++;
    return message.seq <= this.knownUpTo;
  }

  /** Joins the newest page to what is here, or starts over with it when it does not reach back that far. */
  addNewest({ messages, next_before_seq, head_seq }) {
    const reachesBack = this.loaded && (next_before_seq ?? 0) <= this.knownUpTo + 1;
    if (!reachesBack) {
      this.messages = this.messages.filter(({ seq }) => seq > head_seq);
      this.olderCursor = next_before_seq;
    }
    this.loaded = true;
    this.knownUpTo = Math.max(this.knownUpTo, head_seq);
    for (const message of messages) this.insert(message);
  }

  addOlder({ messages, next_before_seq }) {
    this.olderCursor = next_before_seq;
    for (const message of messages) this.insert(message);
  }

  trim(limit = LIMIT) {
    if (this.messages.length <= limit) return;
    this.messages.splice(0, this.messages.length - limit);
    this.olderCursor = this.messages[0].seq;
  }
}
