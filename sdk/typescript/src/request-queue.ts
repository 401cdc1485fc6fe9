// Limits requests that can come in large numbers after a long absence: a few at a time, one per
// key, and none while the server asks to wait. The requests themselves do not belong here.

import { BluetickError } from "./errors.ts";

/** The first pause after a failure. It doubles with each further failure. */
const PAUSE_FIRST_MS = 1_000;
/** Upper bound on a pause. A longer `retry-after` of the server takes precedence. */
const PAUSE_LIMIT_MS = 30_000;
/**
 * The minimum time between the starts of two background requests. It leaves capacity for requests
 * that the user waits for.
 */
const BACKGROUND_INTERVAL_MS = 25;

/** A request. It rejects if the queue must repeat it. */
type Request = () => Promise<void>;

/** A queue of requests. */
export class RequestQueue {
  #limit: number;
  #random: () => number;
  #urgent = new Map<string, Request>();
  #background = new Map<string, Request>();
  #running = new Set<string>();
  #failures = 0;
  #pauseTimer: ReturnType<typeof setTimeout> | null = null;
  #spacingTimer: ReturnType<typeof setTimeout> | null = null;
  #isStopped = false;

  /** `limit` is the number of concurrent requests. */
  constructor(limit: number, random: () => number) {
    this.#limit = limit;
    this.#random = random;
  }

  /**
   * Adds a request, unless one with the same key is queued. If one with the same key is running,
   * the new one runs after it.
   */
  add(key: string, request: Request, isUrgent = true): void {
    if (this.#isStopped || this.#urgent.has(key)) return;
    if (isUrgent) this.#background.delete(key);
    (isUrgent ? this.#urgent : this.#background).set(key, request);
    this.#next();
  }

  /** Ends the pause, because the server is reachable again. */
  resume(): void {
    if (this.#pauseTimer) clearTimeout(this.#pauseTimer);
    this.#pauseTimer = null;
    this.#failures = 0;
    this.#next();
  }

  stop(): void {
    this.#isStopped = true;
    if (this.#pauseTimer) clearTimeout(this.#pauseTimer);
    if (this.#spacingTimer) clearTimeout(this.#spacingTimer);
    this.#urgent.clear();
    this.#background.clear();
  }

  #next(): void {
    while (this.#mayStart && this.#startOne(this.#urgent));
    if (!this.#mayStart || this.#spacingTimer !== null || !this.#startOne(this.#background)) return;
    this.#spacingTimer = setTimeout(() => {
      this.#spacingTimer = null;
      this.#next();
    }, BACKGROUND_INTERVAL_MS);
  }

  get #mayStart(): boolean {
    return this.#pauseTimer === null && this.#running.size < this.#limit && !this.#isStopped;
  }

  #startOne(queue: Map<string, Request>): boolean {
    for (const [key, request] of queue) {
      if (this.#running.has(key)) continue;
      queue.delete(key);
      this.#running.add(key);
      void this.#run(key, request, queue === this.#urgent);
      return true;
    }
    return false;
  }

  async #run(key: string, request: Request, isUrgent: boolean): Promise<void> {
    try {
      await request();
      this.#failures = 0;
    } catch (error) {
      this.#pause(error);
      this.add(key, request, isUrgent);
    }
    this.#running.delete(key);
    this.#next();
  }

  /** Pauses after a failure. Concurrent requests can fail together, which counts as one failure. */
  #pause(error: unknown): void {
    if (this.#pauseTimer !== null || this.#isStopped) return;
    const backoff_ms = Math.min(PAUSE_LIMIT_MS, PAUSE_FIRST_MS * 2 ** this.#failures) * (0.5 + this.#random());
    this.#failures = Math.min(this.#failures + 1, 10);
    const retryAfter_ms = (error instanceof BluetickError && error.retryAfterMs) || 0;
    this.#pauseTimer = setTimeout(() => {
      this.#pauseTimer = null;
      this.#next();
    }, Math.max(backoff_ms, retryAfter_ms));
  }
}
