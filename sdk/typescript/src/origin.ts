// The hint for a page whose server of another origin does not answer. A browser does not tell a
// page whether the server is down or refuses the origin: a call fails with "Failed to fetch", and a
// WebSocket closes with 1006. Other connection errors do not belong here.

/** Pairs of page origin and server origin with at least one answer that the page could read. */
const answered = new Set<string>();

const pairOf = (page: string, server: string): string => `${page} ${server}`;

/** Records that the server at `url` answered, which proves that it allows the page's origin. */
export function noteAnswer(url: string): void {
  const page = globalThis.location?.origin;
  if (page !== undefined) answered.add(pairOf(page, new URL(url, page).origin));
}

/**
 * Returns a sentence that names both causes and the setting. Returns null if the origin cannot be
 * the cause: the page has the server's origin, the server has answered this page before, or there
 * is no page.
 */
export function originHint(url: string): string | null {
  const page = globalThis.location?.origin;
  if (page === undefined) return null;
  const server = new URL(url, page).origin;
  if (server === page || answered.has(pairOf(page, server))) return null;
  return `The server at ${server} cannot be reached, or it does not allow pages of ${page}: its setting server.allowed_origins must list ${page}.`;
}
