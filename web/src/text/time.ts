// Times in words, in the reader's own language and zone.

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const weekday = new Intl.DateTimeFormat(undefined, { weekday: "long" });
const dayOfYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "long" });
const fullDay = new Intl.DateTimeFormat(undefined, { dateStyle: "long" });
const shortDay = new Intl.DateTimeFormat(undefined, { dateStyle: "short" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

const DAY_MS = 86_400_000;

// A sender's clock is the sender's own affair: what arrives may be beyond what a Date holds.
const isSayable = (ms: number) => Math.abs(ms) < 8e15;
const format = (formatter: Intl.DateTimeFormat, ms: number) => (isSayable(ms) ? formatter.format(ms) : "?");

export const clockTime = (ms: number): string => format(clock, ms);
export const fullTime = (ms: number): string => format(full, ms);

// Midnights are asked for once per message and frame, so the last answer is kept.
let knownFrom = 0;
let knownUntil = -1;
let knownStart = 0;

/** The local midnight before `ms`, which names its day. */
export function startOfDay(ms: number): number {
  if (ms >= knownFrom && ms < knownUntil) return knownStart;
  if (!isSayable(ms)) return 0;
  const date = new Date(ms);
  const [year, month, day] = [date.getFullYear(), date.getMonth(), date.getDate()];
  knownStart = new Date(year, month, day).getTime();
  knownUntil = new Date(year, month, day + 1).getTime();
  knownFrom = knownStart;
  return knownStart;
}

const daysAgo = (ms: number, now: number) => Math.round((startOfDay(now) - startOfDay(ms)) / DAY_MS);
const isThisYear = (ms: number, now: number) => new Date(ms).getFullYear() === new Date(now).getFullYear();

// What is said of a moment changes with the time: whoever says it tells what time it is now.

/** For the separators between days. */
export function dayName(ms: number, now: number): string {
  const ago = daysAgo(ms, now);
  if (ago === 0) return "Today";
  if (ago === 1) return "Yesterday";
  if (ago > 1 && ago < 7) return format(weekday, ms);
  return format(isThisYear(ms, now) ? dayOfYear : fullDay, ms);
}

/** As short as it can be said: the time of today, else the day. */
export function moment(ms: number, now: number): string {
  const ago = daysAgo(ms, now);
  if (ago === 0) return clockTime(ms);
  if (ago === 1) return "Yesterday";
  return ago > 1 && ago < 7 ? format(weekday, ms) : format(shortDay, ms);
}

export function lastSeen(ms: number, now: number): string {
  const minutes = Math.floor((now - ms) / 60_000);
  if (minutes < 1) return "last seen just now";
  if (minutes < 60) return `last seen ${minutes} min ago`;
  const ago = daysAgo(ms, now);
  if (ago === 0) return `last seen at ${clockTime(ms)}`;
  return ago === 1 ? `last seen yesterday at ${clockTime(ms)}` : `last seen ${dayName(ms, now)}`;
}
