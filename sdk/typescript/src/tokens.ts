// The token in use, and a fresh one when the server no longer takes it.

import type { Tokens } from "./api.ts";
import { BluetickError } from "./errors.ts";
import type { LoggedOut, TokenSource } from "./types.ts";

/** A source that takes longer has failed, and is asked again. */
const ANSWERS_WITHIN_MS = 20_000;

function inTime<Answer>(work: Answer | Promise<Answer>): Promise<Answer> {
  let timer: ReturnType<typeof setTimeout>;
  const late = new Promise<never>((_, reject) => (timer = setTimeout(() => reject(new Error("no answer")), ANSWERS_WITHIN_MS)));
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

export class TokenKeeper implements Tokens {
  #source: TokenSource;
  #token: string | null = null;
  #asking: Promise<string> | null = null;
  #onLoggedOut: (reason: LoggedOut) => void;
  #isOver = false;

  constructor(source: TokenSource, onLoggedOut: (reason: LoggedOut) => void) {
    this.#source = source;
    this.#onLoggedOut = onLoggedOut;
  }

  async current(): Promise<string> {
    if (this.#isOver) throw new BluetickError("logged_out", "You are logged out.", 401);
    return this.#token ?? this.#ask();
  }

  /**
   * Somebody else may have brought a fresh one already; otherwise the source is asked once. One that gives the refused
   * token again has nothing better, and the session is over. A source that fails is a network that fails.
   */
  async fresh(refused: string, reason: LoggedOut = "expired"): Promise<string | null> {
    if (this.#isOver) return null;
    if (this.#token !== null && this.#token !== refused) return this.#token;
    if (typeof this.#source === "function") {
      this.#token = null;
      const token = await this.#ask();
      if (token !== refused) return token;
    }
    this.end(reason);
    return null;
  }

  /** A fresh token was refused as well. */
  end(reason: LoggedOut): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#onLoggedOut(reason);
  }

  #ask(): Promise<string> {
    this.#asking ??= this.#askSource().finally(() => (this.#asking = null));
    return this.#asking;
  }

  async #askSource(): Promise<string> {
    try {
      const token = typeof this.#source === "function" ? await inTime(this.#source()) : this.#source;
      if (typeof token !== "string" || token === "") throw new TypeError("no token");
      return (this.#token = token);
    } catch {
      throw new BluetickError("network", "No token could be had. Check the connection and try again.");
    }
  }
}
