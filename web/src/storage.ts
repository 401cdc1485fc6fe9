// Small things this browser remembers outside of the SDK's database: the log-in, drafts, the theme. Where the browser
// refuses to store, the visit works and nothing lasts.

import type { Session } from "@bluetick/client";

const fallback = new Map<string, string>();

function read(key: string, area: "localStorage" | "sessionStorage"): string | null {
  try {
    return window[area].getItem(key) ?? fallback.get(area + key) ?? null;
  } catch {
    return fallback.get(area + key) ?? null;
  }
}

function write(key: string, value: string | null, area: "localStorage" | "sessionStorage"): void {
  fallback.delete(area + key);
  try {
    if (value === null) window[area].removeItem(key);
    else window[area].setItem(key, value);
  } catch {
    if (value !== null) fallback.set(area + key, value);
  }
}

// The log-in belongs to the tab, so that one browser can try two people in two tabs; a new tab takes the latest.

const SESSION_KEY = "bluetick:session";

function parseSession(text: string | null): Session | null {
  try {
    const session = JSON.parse(text ?? "null") as Session | null;
    // Whether it is still good is the server's to say: the clock here may be wrong.
    return session && typeof session.token === "string" && typeof session.userId === "string" ? session : null;
  } catch {
    return null;
  }
}

export function loadSession(): Session | null {
  const session = parseSession(read(SESSION_KEY, "sessionStorage")) ?? parseSession(read(SESSION_KEY, "localStorage"));
  // From here on the tab stays with this person, whoever logs in elsewhere.
  if (session) write(SESSION_KEY, JSON.stringify(session), "sessionStorage");
  return session;
}

export function saveSession(session: Session): void {
  write(SESSION_KEY, JSON.stringify(session), "sessionStorage");
  write(SESSION_KEY, JSON.stringify(session), "localStorage");
}

export function clearSession(session: Session): void {
  write(SESSION_KEY, null, "sessionStorage");
  if (parseSession(read(SESSION_KEY, "localStorage"))?.token === session.token) write(SESSION_KEY, null, "localStorage");
}

// Why the last session of this tab ended, and whose it was: the log-in page shows it after a reload too.

const ENDED_KEY = "bluetick:ended";

export interface EndedSession {
  readonly note: string;
  readonly userId: string;
}

export function loadEnded(): EndedSession | null {
  try {
    const ended = JSON.parse(read(ENDED_KEY, "sessionStorage") ?? "null") as EndedSession | null;
    return ended && typeof ended.note === "string" && typeof ended.userId === "string" ? ended : null;
  } catch {
    return null;
  }
}

export const saveEnded = (ended: EndedSession | null): void => write(ENDED_KEY, ended && JSON.stringify(ended), "sessionStorage");

// Drafts. A user id may hold any visible character, so it is spelled out of the way of the separator.

export const draftKey = (user: string, conversation: string) => `bluetick:draft:${encodeURIComponent(user)}:${conversation}`;

export const loadDraft = (user: string, conversation: string): string =>
  read(draftKey(user, conversation), "localStorage") ?? "";

export const saveDraft = (user: string, conversation: string, text: string): void =>
  write(draftKey(user, conversation), text === "" ? null : text, "localStorage");

/** The message that the draft became, until that is safe. */
const sentKey = (user: string, conversation: string) => `bluetick:sent:${encodeURIComponent(user)}:${conversation}`;

export const loadSentMark = (user: string, conversation: string): string => read(sentKey(user, conversation), "localStorage") ?? "";

export const saveSentMark = (user: string, conversation: string, messageId: string): void =>
  write(sentKey(user, conversation), messageId === "" ? null : messageId, "localStorage");

export function clearDrafts(user: string): void {
  try {
    for (const key of Object.keys(localStorage)) {
      if (key.startsWith(draftKey(user, "")) || key.startsWith(sentKey(user, ""))) localStorage.removeItem(key);
    }
  } catch {
    // Refused storage holds no drafts.
  }
}

// The theme

export type Theme = "system" | "light" | "dark";
const THEME_KEY = "bluetick:theme";

export function loadTheme(): Theme {
  const stored = read(THEME_KEY, "localStorage");
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function applyTheme(theme: Theme): void {
  write(THEME_KEY, theme === "system" ? null : theme, "localStorage");
  document.documentElement.dataset.theme = theme;
}
