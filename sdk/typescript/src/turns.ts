// Questions to the server that come in great numbers when a device was far behind: a few at a time, each for one key, and
// none while the server wants to be left alone.

import { BluetickError } from "./errors.ts";

const PAUSE_FIRST_MS = 1_000;
const PAUSE_LIMIT_MS = 30_000;
/** Those that nobody waits for leave room for what a person does. */
const PATIENT_EVERY_MS = 25;

/** Rejects where it is to be done again. */
type Work = () => Promise<void>;

export class Turns {
  #limit: number;
  #random: () => number;
  #urgent = new Map<string, Work>();
  #patient = new Map<string, Work>();
  #running = new Set<string>();
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #spacer: ReturnType<typeof setTimeout> | null = null;
  #isStopped = false;

  /** At most `limit` at a time. */
  constructor(limit: number, random: () => number) {
    this.#limit = limit;
    this.#random = random;
  }

  /** Once for many wishes of the same key; a wish that comes while its work is under way is done after it. */
  add(key: string, work: Work, isUrgent = true): void {
    if (this.#isStopped || this.#urgent.has(key)) return;
    if (isUrgent) this.#patient.delete(key);
    (isUrgent ? this.#urgent : this.#patient).set(key, work);
    this.#next();
  }

  /** The server is there again. */
  resume(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#failures = 0;
    this.#next();
  }

  stop(): void {
    this.#isStopped = true;
    if (this.#timer) clearTimeout(this.#timer);
    if (this.#spacer) clearTimeout(this.#spacer);
    this.#urgent.clear();
    this.#patient.clear();
  }

  #next(): void {
    while (this.#mayStart && this.#startOne(this.#urgent));
    if (!this.#mayStart || this.#spacer !== null || !this.#startOne(this.#patient)) return;
    this.#spacer = setTimeout(() => {
      this.#spacer = null;
      this.#next();
    }, PATIENT_EVERY_MS);
  }

  get #mayStart(): boolean {
    return this.#timer === null && this.#running.size < this.#limit && !this.#isStopped;
  }

  #startOne(line: Map<string, Work>): boolean {
    for (const [key, work] of line) {
      if (this.#running.has(key)) continue;
      line.delete(key);
      this.#running.add(key);
      void this.#run(key, work, line === this.#urgent);
      return true;
    }
    return false;
  }

  async #run(key: string, work: Work, isUrgent: boolean): Promise<void> {
    try {
      await work();
      this.#failures = 0;
    } catch (error) {
      this.#pause(error);
      this.add(key, work, isUrgent);
    }
    this.#running.delete(key);
    this.#next();
  }

  /** Those under way may fail together, which is one failure. */
  #pause(error: unknown): void {
    if (this.#timer !== null || this.#isStopped) return;
    const own_ms = Math.min(PAUSE_LIMIT_MS, PAUSE_FIRST_MS * 2 ** this.#failures) * (0.5 + this.#random());
    this.#failures = Math.min(this.#failures + 1, 10);
    const asked_ms = (error instanceof BluetickError && error.retryAfterMs) || 0;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#next();
    }, Math.max(own_ms, asked_ms));
  }
}
