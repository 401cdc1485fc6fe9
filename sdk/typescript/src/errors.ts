// What this library throws, and which refusals are worth another attempt.

import { RETRY_CODES } from "./generated.ts";

/**
 * A refusal by the server, with a code of its table (docs/errors.md); or one of this library's own: `network` (no answer
 * came), `outbox_full`, `storage_in_use`, `no_websocket`, `logged_out`, `stopped`. The message is for people.
 */
export class BluetickError extends Error {
  override readonly name = "BluetickError";
  readonly code: string;
  /** The HTTP status; 0 where there was none. */
  readonly status: number;
  /** When the server wants to be asked again, where it said so. */
  readonly retryAfterMs: number | null;

  constructor(code: string, message: string, status = 0, retryAfterMs: number | null = null, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }

  /** The same request may succeed later. */
  get isRetryable(): boolean {
    return isRetryable(this.code);
  }
}

const RETRY = new Set(["network", ...RETRY_CODES]);

export const isRetryable = (code: string): boolean => RETRY.has(code);

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export const codeOf = (error: unknown): string => (error instanceof BluetickError ? error.code : "");
