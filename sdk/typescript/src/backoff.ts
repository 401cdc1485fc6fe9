// How long to wait before the next connection. At random, so that a thousand clients cut off at once do not come back at
// once.

const FIRST_MS = 500;
const LIMIT_MS = 30_000;

// From the server's table of close codes.
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

/** An attempt in a moment would end the same way. */
const LONG: readonly number[] = [CLOSE.HELLO_EXPECTED, CLOSE.TOO_MANY_CONNECTIONS, CLOSE.FLOOD];

/** `attempt` counts the connections in a row that did not last, from 0. */
export function pauseBeforeNext_ms(attempt: number, closeCode: number, random: () => number): number {
  if (LONG.includes(closeCode)) return LIMIT_MS * (1 + random());
  // The server spreads those who were told; those who were not spread by themselves.
  if (closeCode === CLOSE.RESTARTING && attempt === 0) return 500 + random() * 2_500;
  return random() * Math.min(LIMIT_MS, FIRST_MS * 2 ** Math.min(attempt, 10));
}
