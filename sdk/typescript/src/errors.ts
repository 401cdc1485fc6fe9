// The error class of this library, and which errors are worth a retry. The table of codes does not
// belong here; `generated.ts` has it.

import { RETRY_CODES } from "./generated.ts";

/**
 * An error code of the server (docs/errors.md), or a code of this library: `network` (no answer),
 * `outbox_full`, `storage_in_use`, `no_websocket`, `logged_out`, `stopped`. Applications can show
 * the message to users.
 */
export class BluetickError extends Error {
  override readonly name = "BluetickError";
  readonly code: string;
  /** The HTTP status; 0 if there was none. */
  readonly status: number;
  /** How long the server asks to wait before a retry; null if the answer does not say. */
  readonly retryAfterMs: number | null;

  constructor(code: string, message: string, status = 0, retryAfterMs: number | null = null, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }

  /** Whether the same request may succeed later. */
  get isRetryable(): boolean {
    return isRetryable(this.code);
  }
}

/** The codes after which the same request may succeed. */
const RETRY = new Set(["network", ...RETRY_CODES]);

export const isRetryable = (code: string): boolean => RETRY.has(code);

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export const codeOf = (error: unknown): string => (error instanceof BluetickError ? error.code : "");
