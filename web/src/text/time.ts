// Dates and times as text, in the language of the page and the zone of the browser.

import { formatterOf, t } from "../i18n/index.ts";

const FORMATS = {
  clock: { timeStyle: "short" },
  weekday: { weekday: "long" },
  dayOfYear: { day: "numeric", month: "long" },
  fullDay: { dateStyle: "long" },
  shortDay: { dateStyle: "short" },
  full: { dateStyle: "full", timeStyle: "medium" },
} satisfies Record<string, Intl.DateTimeFormatOptions>;

/** One day without a change of the clocks. */
const DAY_MS = 86_400_000;

// A sender may set any timestamp, also one beyond the range of Date.
const isInRange = (ms: number) => Math.abs(ms) < 8e15;

const format = (name: keyof typeof FORMATS, ms: number): string =>
  isInRange(ms) ? formatterOf(name, (locale) => new Intl.DateTimeFormat(locale, FORMATS[name])).format(ms) : "?";

const formatRelative = (value: number, unit: "day" | "minute"): string =>
  formatterOf("relative", (locale) => new Intl.RelativeTimeFormat(locale, { numeric: "auto" })).format(value, unit);

export const clockTime = (ms: number): string => format("clock", ms);
export const fullTime = (ms: number): string => format("full", ms);

// `startOfDay` runs once per message and frame, so it caches the last day.
let cachedFrom = 0;
let cachedUntil = -1;
let cachedStart = 0;

/** The local midnight before `ms`, which identifies its day. */
export function startOfDay(ms: number): number {
  if (ms >= cachedFrom && ms < cachedUntil) return cachedStart;
  if (!isInRange(ms)) return 0;
  const date = new Date(ms);
  const [year, month, day] = [date.getFullYear(), date.getMonth(), date.getDate()];
  cachedStart = new Date(year, month, day).getTime();
  cachedUntil = new Date(year, month, day + 1).getTime();
  cachedFrom = cachedStart;
  return cachedStart;
}

const daysAgo = (ms: number, now: number) => Math.round((startOfDay(now) - startOfDay(ms)) / DAY_MS);
const isThisYear = (ms: number, now: number) => new Date(ms).getFullYear() === new Date(now).getFullYear();

function capitalized(text: string): string {
  const [first = ""] = text;
  return first.toLocaleUpperCase() + text.slice(first.length);
}

// The texts below depend on the current time, so the caller passes it and draws again when it
// changes.

/** A weekday or a date; not for today and yesterday. */
function weekdayOrDate(ms: number, now: number): string {
  const ago = daysAgo(ms, now);
  if (ago > 1 && ago < 7) return format("weekday", ms);
  return format(isThisYear(ms, now) ? "dayOfYear" : "fullDay", ms);
}

/** For the separators between days. */
export function dayName(ms: number, now: number): string {
  const ago = daysAgo(ms, now);
  return capitalized(ago === 0 || ago === 1 ? formatRelative(-ago, "day") : weekdayOrDate(ms, now));
}

/** The shortest text for a time: the clock time of today, else the day. */
export function shortTime(ms: number, now: number): string {
  const ago = daysAgo(ms, now);
  if (ago === 0) return clockTime(ms);
  if (ago === 1) return capitalized(formatRelative(-1, "day"));
  return ago > 1 && ago < 7 ? capitalized(format("weekday", ms)) : format("shortDay", ms);
}

export function lastSeen(ms: number, now: number): string {
  const minutes = Math.floor((now - ms) / 60_000);
  if (minutes < 1) return t("lastSeenJustNow");
  if (minutes < 60) return t("lastSeenAgo", { ago: formatRelative(-minutes, "minute") });
  const ago = daysAgo(ms, now);
  if (ago === 0 || ago === 1) return t("lastSeenAt", { day: formatRelative(-ago, "day"), time: clockTime(ms) });
  return t("lastSeenOn", { day: weekdayOrDate(ms, now) });
}
