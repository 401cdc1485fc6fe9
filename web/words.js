// How things are put into words and times. The server's notices carry facts; the wording is the client's.

/** The facts of a system notice, or null for any other message. */
export function readNotice(message) {
  if (message.content_type !== "system") return null;
  try {
    return Object(JSON.parse(message.content));
  } catch {
    return {};
  }
}

export function noticeText({ event, by, user_id, title, member_count }, me) {
  const name = (user) => (user === me ? "you" : user);
  const sentences = {
    group_created: `${name(by)} created “${title}” with ${people(member_count)}`,
    member_added: `${name(by)} added ${name(user_id)}`,
    member_removed: `${name(by)} removed ${name(user_id)}`,
    member_left: `${name(user_id)} left`,
  };
  return (sentences[event] ?? "The group changed").replace(/^you /, "You ");
}

export const people = (count) => (count === 1 ? "1 member" : `${count} members`);

/** One line for the list of conversations. */
export function previewOf({ last_message: message, kind }, me) {
  if (!message) return "";
  const notice = readNotice(message);
  if (notice) return noticeText(notice, me);
  const start = Array.from(message.content.slice(0, 200)).slice(0, 80).join("");
  if (message.sender_id === me) return `You: ${start}`;
  return kind === "group" ? `${message.sender_id}: ${start}` : start;
}

export const titleOf = ({ title, peer }, me) => title ?? peer ?? me;

export function typingText(typists) {
  if (typists.length > 2) return `${typists.length} people are typing…`;
  return typists.length === 2 ? `${typists.join(" and ")} are typing…` : `${typists[0]} is typing…`;
}

/** Empty where nothing is known, or told. */
export function presenceText(presence) {
  if (presence?.online) return "online";
  return presence?.last_seen_at ? `last seen ${moment(presence.last_seen_at)}` : "";
}

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

// A sender's clock is the sender's own affair: what arrives may be beyond what a Date holds.
const format = (formatter, ms) => (Math.abs(ms) < 8e15 ? formatter.format(ms) : "?");

export const clockTime = (ms) => format(clock, ms);

export function dayName(ms) {
  const name = format(day, ms);
  return name === format(day, Date.now()) ? "Today" : name;
}

/** The time of today, or the day. */
export const moment = (ms) => (dayName(ms) === "Today" ? clockTime(ms) : dayName(ms));

/** A colour, always the same for the same person. */
export function hueOf(name) {
  let hash = 0;
  for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) % 360;
  return hash;
}
