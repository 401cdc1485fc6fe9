// What this browser remembers between visits. Each thing has a key of its own, so that two tabs never write over
// each other's lists.

// Stands in where the browser refuses to store: the visit works, nothing lasts.
const fallback = new Map();

export function read(key, area = "localStorage") {
  try {
    return fallback.get(key) ?? JSON.parse(window[area].getItem(key));
  } catch {
    return null;
  }
}

export function write(key, value, area = "localStorage") {
  try {
    window[area].setItem(key, JSON.stringify(value));
  } catch {
    fallback.set(key, value);
  }
}

export function remove(key, area = "localStorage") {
  fallback.delete(key);
  try {
    window[area].removeItem(key);
  } catch {
    // Nothing was stored.
  }
}

/** The values of all keys that start with `prefix`. */
export function readAll(prefix) {
  const keys = new Set(fallback.keys());
  try {
    for (const key of Object.keys(localStorage)) keys.add(key);
  } catch {
    // Refused storage is empty storage.
  }
  return [...keys].filter((key) => key.startsWith(prefix)).map((key) => read(key)).filter(Boolean);
}

/** A user id may hold any visible character, so it is spelled out of the way of our separator. */
export const keyFor = (kind, user, id = "") => `bluetick:${kind}:${encodeURIComponent(user)}:${id}`;

// The log-in belongs to the tab, so that one browser can try two people in two tabs; a new tab takes the latest.
const SESSION_KEY = "bluetick:session";

export function loadSession() {
  const session = read(SESSION_KEY, "sessionStorage") ?? read(SESSION_KEY);
  return session?.expires_at > Date.now() ? session : null;
}

export function saveSession(session) {
  write(SESSION_KEY, session, "sessionStorage");
  write(SESSION_KEY, session);
}

export function clearSession({ token }) {
  remove(SESSION_KEY, "sessionStorage");
  if (read(SESSION_KEY)?.token === token) remove(SESSION_KEY);
}
