// The delay before the next connection attempt, and the close codes that decide about it. Delays
// are random, so that clients that are disconnected together do not reconnect together. Timers do
// not belong here; `connection.ts` has them.

/** Upper bound on the first random delay. The bound doubles with each attempt. */
const FIRST_MS = 500;
/** Upper bound on the random delay, and the minimum delay after a close code in `LONG`. */
const LIMIT_MS = 30_000;

// The close codes of the server that the client handles (docs/websocket.json).
export const CLOSE = {
  FRAME_TOO_LARGE: 1009,
  RESTARTING: 1012,
  HELLO_EXPECTED: 4400,
  UNAUTHENTICATED: 4401,
  TOKEN_REVOKED: 4402,
  TOKEN_EXPIRED: 4403,
  TOO_MANY_CONNECTIONS: 4409,
  FLOOD: 4429,
} as const;

/** Close codes after which an immediate attempt would end in the same way. */
const LONG: readonly number[] = [CLOSE.HELLO_EXPECTED, CLOSE.TOO_MANY_CONNECTIONS, CLOSE.FLOOD];

/**
 * Returns the delay in milliseconds. `attempt` counts the consecutive connections that were not
 * stable, from 0.
 */
export function reconnectDelay_ms(attempt: number, closeCode: number, random: () => number): number {
  if (LONG.includes(closeCode)) return LIMIT_MS * (1 + random());
  // A server that restarts assigns a delay to each client in a `come_back` frame. A client that
  // missed the frame chooses a delay from 0.5 s to 3 s.
  if (closeCode === CLOSE.RESTARTING && attempt === 0) return 500 + random() * 2_500;
  return random() * Math.min(LIMIT_MS, FIRST_MS * 2 ** Math.min(attempt, 10));
}
