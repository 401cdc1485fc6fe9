// What a page can say about a server of another origin that does not answer. A browser tells a page
// neither that the server is down nor that it refused the page's origin: both are "Failed to
// fetch", or a WebSocket that closes with 1006.

/**
 * A sentence that names both causes and the setting; null where the page has the server's own
 * origin, or there is no page.
 */
export function originHint(url: string): string | null {
  const page = globalThis.location?.origin;
  if (page === undefined) return null;
  const server = new URL(url, page).origin;
  if (server === page) return null;
  return `The server at ${server} cannot be reached, or it does not allow pages of ${page}: its setting server.allowed_origins must list ${page}.`;
}
