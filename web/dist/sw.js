// The service worker: opens the page without a network. Hashed files never change, so they come
// from the cache. The page comes from the server, and from the cache only when the server cannot be
// reached. The service worker does not handle calls of the API. The build fills in the version and
// the files.

const CACHE = "bluetick-74116e2cbf67";
const FILES = ["/","/assets/icon.svg","/assets/index-tV0ORIO8.js","/assets/index-BuyZVdvP.css","/assets/de-hlS459CF.js","/assets/es-5-2HJrRO.js","/assets/on-demand-BG9u0GdL.js"];
/** How long the page waits for the server before it comes from the cache. */
const NETWORK_TIMEOUT_MS = 3_000;

self.addEventListener("install", (event) => {
  event.waitUntil(
    caches
      .open(CACHE)
      .then((cache) => cache.addAll(FILES.map((file) => new Request(file, { cache: "no-cache" }))))
      .then(() => self.skipWaiting()),
  );
});

// The caches of the latest two versions stay: a page of the previous version may still be open.
self.addEventListener("activate", (event) => {
  event.waitUntil(
    caches
      .keys()
      .then((names) => names.filter((name) => name.startsWith("bluetick-") && name !== CACHE))
      .then((old) => Promise.all(old.slice(0, -1).map((name) => caches.delete(name))))
      .then(() => self.clients.claim()),
  );
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (request.method !== "GET" || origin !== location.origin) return;
  if (pathname === "/") event.respondWith(page(request));
  else if (pathname.startsWith("/assets/")) event.respondWith(asset(request));
});

async function page(request) {
  const cached = await (await caches.open(CACHE)).match("/");
  const timeout = cached ? new Promise((resolve) => setTimeout(resolve, NETWORK_TIMEOUT_MS)) : new Promise(() => {});
  const fetched = fetch(request).catch(() => undefined);
  const response = await Promise.race([fetched, timeout]);
  return response?.status < 500 ? response : (cached ?? (await fetched) ?? Response.error());
}

async function asset(request) {
  return (await caches.match(request)) ?? fetch(request);
}
