// What a page can say about a server of another origin that does not answer. A browser tells a page
// neither that the server is down nor that it refused the page's origin: both are "Failed to
// fetch", or a WebSocket that closes with 1006.

/** Pairs of page and server origins with an answer that the page could read. */
const answered = new Set<string>();

const pairOf = (page: string, server: string): string => `${page} ${server}`;

/** The server at `url` answered, so it allows pages of this origin. */
export function noteAnswer(url: string): void {
  const page = globalThis.location?.origin;
  if (page !== undefined) answered.add(pairOf(page, new URL(url, page).origin));
}

/**
 * A sentence that names both causes and the setting. Null where the origin cannot be the cause: the
 * page has the server's own origin, the server has answered this page before, or there is no page.
 */
export function originHint(url: string): string | null {
  const page = globalThis.location?.origin;
  if (page === undefined) return null;
  const server = new URL(url, page).origin;
  if (server === page || answered.has(pairOf(page, server))) return null;
  return `The server at ${server} cannot be reached, or it does not allow pages of ${page}: its setting server.allowed_origins must list ${page}.`;
}
