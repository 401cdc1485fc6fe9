// Work that failed for now and is done again in a while, unless everything has ended by then.

import { BluetickError } from "./errors.ts";

const AGAIN_AFTER_MS = 5_000;

export class Later {
  #timers = new Set<ReturnType<typeof setTimeout>>();
  isStopped = false;

  /** `error` may say when the server wants to be asked again. */
  again(work: () => void, error: unknown): void {
    if (this.isStopped) return;
    const pause_ms = Math.max(AGAIN_AFTER_MS, (error instanceof BluetickError && error.retryAfterMs) || 0);
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
