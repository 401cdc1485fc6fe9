// How fast the outbox may send after a temporary refusal: the conversation pauses, and the others
// continue at a lower rate. Sending does not belong here.

/** The pause of a conversation after the first refusal. A shorter one repeats the refusal. */
const PAUSE_FIRST_MS = 1_000;
/** Upper bound on the pause of a conversation. A longer one delays messages too much. */
const PAUSE_LIMIT_MS = 8_000;
/** The factor by which each further refusal lengthens the pause. */
const PAUSE_GROWTH = 1.5;
/** The interval between two messages of any conversations after the first refusal. */
const INTERVAL_FIRST_MS = 20;
/** Upper bound on that interval, so that a full outbox still drains. */
const INTERVAL_LIMIT_MS = 500;
/** The factor by which each acknowledged message shortens the interval. */
const INTERVAL_SHRINK = 0.98;
/** The interval below which it counts as zero, so that the rate becomes unlimited again. */
const INTERVAL_NONE_MS = 2;

interface ConversationPause {
  readonly until_ms: number;
  readonly refusals: number;
}

/** The send rate of one client. */
export class SendRate {
  #random: () => number;
  #pauses = new Map<string, ConversationPause>();
  #interval_ms = 0;
  #nextAt_ms = 0;
  #slowedAt_ms = Number.NEGATIVE_INFINITY;

  constructor(random: () => number) {
    this.#random = random;
  }

  /**
   * Records a refusal. A message that was sent before the last slowdown does not slow down the rate
   * again.
   */
  refused(conversationId: string, sentAt_ms: number, now_ms: number): void {
    const { refusals = 0 } = this.#pauses.get(conversationId) ?? {};
    const pause_ms = Math.min(PAUSE_LIMIT_MS, PAUSE_FIRST_MS * PAUSE_GROWTH ** refusals) * (0.75 + this.#random() / 2);
    this.#pauses.set(conversationId, { until_ms: now_ms + pause_ms, refusals: Math.min(refusals + 1, 10) });
    if (sentAt_ms <= this.#slowedAt_ms) return;
    this.#slowedAt_ms = now_ms;
    this.#interval_ms = Math.min(INTERVAL_LIMIT_MS, Math.max(INTERVAL_FIRST_MS, 2 * this.#interval_ms));
    this.#nextAt_ms = now_ms + this.#interval_ms;
  }

  acknowledged(conversationId: string): void {
    this.#pauses.delete(conversationId);
    this.#interval_ms *= INTERVAL_SHRINK;
    if (this.#interval_ms < INTERVAL_NONE_MS) this.#interval_ms = 0;
  }

  sent(now_ms: number): void {
    this.#nextAt_ms = Math.max(now_ms, this.#nextAt_ms) + this.#interval_ms;
  }

  /** The time until any message may be sent. */
  intervalLeft_ms(now_ms: number): number {
    return this.#interval_ms === 0 ? 0 : Math.max(0, this.#nextAt_ms - now_ms);
  }

  /** The time until a message of the conversation may be sent. */
  pauseLeft_ms(conversationId: string, now_ms: number): number {
    return Math.max(0, (this.#pauses.get(conversationId)?.until_ms ?? 0) - now_ms);
  }

  /** The outbox has no more messages for the conversation. */
  forget(conversationId: string): void {
    this.#pauses.delete(conversationId);
  }

  /** Ends all pauses, because the connection ended. */
  clearPauses(): void {
    this.#pauses.clear();
  }
}
