// The service worker: lets the page open without a network. Hashed files never change, so they come from the cache; the
// page itself comes from the server and from the cache only when the server cannot be reached. The API is never touched.
// The build fills in the version and the files.

const CACHE = "bluetick-db8f25ee9050";
const FILES = ["/","/assets/icon.svg","/assets/index-B0AGK5Up.js","/assets/index-BwWfPr__.css","/assets/aside-B9NCtvI_.js"];
const PATIENCE_MS = 3_000;

self.addEventListener("install", (event) => {
  event.waitUntil(
    caches
      .open(CACHE)
      .then((cache) => cache.addAll(FILES.map((file) => new Request(file, { cache: "no-cache" }))))
      .then(() => self.skipWaiting()),
  );
});

// The caches of the latest two versions stay: a page of the one before may still be open.
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
  const kept = await (await caches.open(CACHE)).match("/");
  // A network that answers nobody is no network.
  const patience = kept ? new Promise((resolve) => setTimeout(resolve, PATIENCE_MS)) : new Promise(() => {});
  const fetched = fetch(request).catch(() => undefined);
  const response = await Promise.race([fetched, patience]);
  return response?.status < 500 ? response : (kept ?? (await fetched) ?? Response.error());
}

async function asset(request) {
  return (await caches.match(request)) ?? fetch(request);
}
