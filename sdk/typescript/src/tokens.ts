// Caches the token, and asks the token source of the application for a fresh one when the server
// refuses it. Login does not belong here; `api.ts` has it.

import type { Tokens } from "./api.ts";
import { BluetickError } from "./errors.ts";
import type { LoggedOut, TokenSource } from "./types.ts";

/**
 * Upper bound on a call of the token source. A slower call counts as failed and is repeated later.
 */
const ANSWERS_WITHIN_MS = 20_000;

/** Rejects if the work takes longer than the limit. */
function inTime<Answer>(work: Answer | Promise<Answer>): Promise<Answer> {
  let timer: ReturnType<typeof setTimeout>;
  const late = new Promise<never>((_, reject) => (timer = setTimeout(() => reject(new Error("no answer")), ANSWERS_WITHIN_MS)));
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/** The tokens of one client. */
export class TokenCache implements Tokens {
  #source: TokenSource;
  #token: string | null = null;
  #fetching: Promise<string> | null = null;
  #onLoggedOut: (reason: LoggedOut) => void;
  #hasEnded = false;

  constructor(source: TokenSource, onLoggedOut: (reason: LoggedOut) => void) {
    this.#source = source;
    this.#onLoggedOut = onLoggedOut;
  }

  /** Returns the cached token. Rejects with `logged_out` after the session ended. */
  async current(): Promise<string> {
    if (this.#hasEnded) throw new BluetickError("logged_out", "You are logged out.", 401);
    return this.#token ?? this.#fetchOnce();
  }

  /**
   * Returns a token other than `refused`, from the cache or from the source. If the source returns
   * the refused token again, the session ends and the result is null. Rejects with `network` if the
   * source fails.
   */
  async fresh(refused: string, reason: LoggedOut = "expired"): Promise<string | null> {
    if (this.#hasEnded) return null;
    if (this.#token !== null && this.#token !== refused) return this.#token;
    if (typeof this.#source === "function") {
      this.#token = null;
      const token = await this.#fetchOnce();
      if (token !== refused) return token;
    }
    this.end(reason);
    return null;
  }

  /** Ends the session because the server refused a fresh token as well. */
  end(reason: LoggedOut): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#onLoggedOut(reason);
  }

  #fetchOnce(): Promise<string> {
    this.#fetching ??= this.#fetchFromSource().finally(() => (this.#fetching = null));
    return this.#fetching;
  }

  async #fetchFromSource(): Promise<string> {
    try {
      const token = typeof this.#source === "function" ? await inTime(this.#source()) : this.#source;
      if (typeof token !== "string" || token === "") throw new TypeError("no token");
      return (this.#token = token);
    } catch {
      throw new BluetickError("network", "The app could not get a token. Check the connection and try again.");
    }
  }
}
