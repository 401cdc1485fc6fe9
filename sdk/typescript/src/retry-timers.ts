// Repeats failed work after a delay, until the client stops. Decisions about which errors are worth
// a retry do not belong here; `errors.ts` has them.

import { BluetickError } from "./errors.ts";

/** The minimum delay before a retry. A shorter one adds load to a failing server. */
const RETRY_AFTER_MS = 5_000;

/** The pending retries of one client. */
export class RetryTimers {
  #timers = new Set<ReturnType<typeof setTimeout>>();
  isStopped = false;

  /**
   * Runs the work after a delay. The delay is longer if `error` contains a longer `retryAfterMs`.
   */
  retry(work: () => void, error: unknown): void {
    if (this.isStopped) return;
    const pause_ms = Math.max(RETRY_AFTER_MS, (error instanceof BluetickError && error.retryAfterMs) || 0);
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      work();
    }, pause_ms);
    this.#timers.add(timer);
  }

  stop(): void {
    this.isStopped = true;
    for (const timer of this.#timers) clearTimeout(timer);
  }
}
