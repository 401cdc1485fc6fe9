// How fast the outbox may send after the server has refused something for the moment: the conversation it was in rests for
// a while, and the others go on more slowly. Nothing is sent from here.

/** How long a conversation rests: at first, and after many refusals in a row. */
const REST_FIRST_MS = 1_000;
const REST_LIMIT_MS = 8_000;
const REST_GROWTH = 1.5;
/** Between two messages of any conversations: after the first refusal, and at most. */
const GAP_FIRST_MS = 20;
const GAP_LIMIT_MS = 500;
/** What the gap becomes with each message the server takes, until it is too small to matter. */
const GAP_SHRINK = 0.98;
const GAP_NONE_MS = 2;

interface Rest {
  readonly until_ms: number;
  readonly refusals: number;
}

export class Pace {
  #random: () => number;
  #rests = new Map<string, Rest>();
  #gap_ms = 0;
  #nextAt_ms = 0;
  #slowedAt_ms = Number.NEGATIVE_INFINITY;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** What was sent before the pace was last slowed down does not slow it down again. */
  refused(conversationId: string, sentAt_ms: number, now_ms: number): void {
    const { refusals = 0 } = this.#rests.get(conversationId) ?? {};
    const rest_ms = Math.min(REST_LIMIT_MS, REST_FIRST_MS * REST_GROWTH ** refusals) * (0.75 + this.#random() / 2);
    this.#rests.set(conversationId, { until_ms: now_ms + rest_ms, refusals: Math.min(refusals + 1, 10) });
    if (sentAt_ms <= this.#slowedAt_ms) return;
    this.#slowedAt_ms = now_ms;
    this.#gap_ms = Math.min(GAP_LIMIT_MS, Math.max(GAP_FIRST_MS, 2 * this.#gap_ms));
    this.#nextAt_ms = now_ms + this.#gap_ms;
  }

  acknowledged(conversationId: string): void {
    this.#rests.delete(conversationId);
    this.#gap_ms *= GAP_SHRINK;
    if (this.#gap_ms < GAP_NONE_MS) this.#gap_ms = 0;
  }

  sent(now_ms: number): void {
    this.#nextAt_ms = Math.max(now_ms, this.#nextAt_ms) + this.#gap_ms;
  }

  /** Until something may be sent at all. */
  gapLeft_ms(now_ms: number): number {
    return this.#gap_ms === 0 ? 0 : Math.max(0, this.#nextAt_ms - now_ms);
  }

  /** Until something may be sent in a conversation. */
  restLeft_ms(conversationId: string, now_ms: number): number {
    return Math.max(0, (this.#rests.get(conversationId)?.until_ms ?? 0) - now_ms);
  }

  /** There is nothing more to send in it. */
  forget(conversationId: string): void {
    this.#rests.delete(conversationId);
  }

  /** Another connection begins without rests. */
  clearRests(): void {
    this.#rests.clear();
  }
}
