// The values that the browser stores outside of the SDK's database: session, drafts, theme and
// language. If the browser refuses to store them, the page keeps them in memory.

import type { Session } from "@bluetick/client";
import { asLanguageChoice, type LanguageChoice } from "./i18n/index.ts";

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

// The session belongs to the tab, so that two users can be logged in in two tabs. A new tab takes
// the latest session.

/** The key of the session. Another key logs every user out. */
const SESSION_KEY = "bluetick:session";

function parseSession(text: string | null): Session | null {
  try {
    const session = JSON.parse(text ?? "null") as Session | null;
    // The server decides whether the session has expired, because the clock here may be wrong.
    return session && typeof session.token === "string" && typeof session.userId === "string" ? session : null;
  } catch {
    return null;
  }
}

export function loadSession(): Session | null {
  const session = parseSession(read(SESSION_KEY, "sessionStorage")) ?? parseSession(read(SESSION_KEY, "localStorage"));
  // The tab keeps this user after another user logs in in another tab.
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

// Why the last session of this tab ended, and of which user. The log-in screen shows it, also after
// a reload.

/** The key of the end reason. */
const ENDED_KEY = "bluetick:ended";

const END_REASONS = ["expired", "revoked", "wrong_user"] as const;

export type EndReason = (typeof END_REASONS)[number];

export const isEndReason = (reason: unknown): reason is EndReason => (END_REASONS as readonly unknown[]).includes(reason);

export interface EndedSession {
  readonly reason: EndReason;
  readonly userId: string;
}

export function loadEnded(): EndedSession | null {
  try {
    const ended = JSON.parse(read(ENDED_KEY, "sessionStorage") ?? "null") as EndedSession | null;
    return ended && isEndReason(ended.reason) && typeof ended.userId === "string" ? ended : null;
  } catch {
    return null;
  }
}

export const saveEnded = (ended: EndedSession | null): void => write(ENDED_KEY, ended && JSON.stringify(ended), "sessionStorage");

// Drafts. A user ID may contain the separator, so the key holds it percent-encoded.

export const draftKey = (user: string, conversation: string) => `bluetick:draft:${encodeURIComponent(user)}:${conversation}`;

export const loadDraft = (user: string, conversation: string): string =>
  read(draftKey(user, conversation), "localStorage") ?? "";

export const saveDraft = (user: string, conversation: string, text: string): void =>
  write(draftKey(user, conversation), text === "" ? null : text, "localStorage");

/** The message that the draft became, until the outbox has stored it. */
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
    // A storage that the browser refuses holds no drafts.
  }
}

// The theme

export type Theme = "system" | "light" | "dark";
/** The key of the theme. */
const THEME_KEY = "bluetick:theme";

export function loadTheme(): Theme {
  const stored = read(THEME_KEY, "localStorage");
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function applyTheme(theme: Theme): void {
  write(THEME_KEY, theme === "system" ? null : theme, "localStorage");
  document.documentElement.dataset.theme = theme;
}

// The language

/** The key of the language choice. */
const LANGUAGE_KEY = "bluetick:language";

export const loadLanguageChoice = (): LanguageChoice => asLanguageChoice(read(LANGUAGE_KEY, "localStorage"));

export const saveLanguageChoice = (choice: LanguageChoice): void => write(LANGUAGE_KEY, choice === "automatic" ? null : choice, "localStorage");
