// How facts are put into words. The server's notices carry facts; the wording is the client's.

import { absenceOf, readNotice, type InboxEntry } from "@bluetick/client";
import { firstLine } from "./plain.ts";
import { lastSeen } from "./time.ts";

/** A name for a user id. */
export type NameOf = (user: string) => string;

export function noticeText(message: { content: string; content_type: string }, me: string, nameOf: NameOf): string {
  const { event, by, user_id, title, member_count = 0 } = readNotice(message) ?? {};
  // A name may run the other way than the sentence; it is kept to itself.
  const name = (user = "somebody") => (user === me ? "you" : `\u2068${nameOf(user)}\u2069`);
  const sentences: Record<string, string> = {
    group_created: `${name(by)} created “\u2068${title}\u2069” with ${memberCount(member_count)}`,
    member_added: `${name(by)} added ${name(user_id)}`,
    member_removed: `${name(by)} removed ${name(user_id)}`,
    member_left: `${name(user_id)} left`,
  };
  return (sentences[event ?? ""] ?? "The group changed").replace(/^you /, "You ");
}

/** What stands in place of a content that is not there; empty where it is. */
export function absenceText(message: { content_type: string }): string {
  const absence = absenceOf(message);
  return absence ? (absence === "erased" ? "This message was deleted" : "This message cannot be read at the moment") : "";
}

export const memberCount = (count: number): string => (count === 1 ? "1 member" : `${count} members`);

export function titleOf(entry: InboxEntry | undefined, me: string, nameOf: NameOf): string {
  if (!entry) return "";
  if (entry.kind === "group") return entry.title ?? "Group";
  return !entry.peer || entry.peer === me ? `${nameOf(me)} (you)` : nameOf(entry.peer);
}

export interface Preview {
  /** Who says it, where that is not plain. */
  by: string;
  text: string;
  /** There is no content to be shown. */
  isAbsent?: boolean;
}

/** One line for the list of conversations. */
export function previewOf(entry: InboxEntry, me: string, nameOf: NameOf): Preview {
  const message = entry.last_message;
  if (!message || message.content_type === "void") return { by: "", text: "" };
  if (message.content_type === "system") return { by: "", text: noticeText(message, me, nameOf) };
  const absence = absenceText(message);
  const text = absence || firstLine(message.content);
  const by = message.sender_id === me ? "You" : entry.kind === "group" ? nameOf(message.sender_id) : "";
  return { by, text, isAbsent: absence !== "" };
}

export function typingText(typists: readonly string[], isGroup: boolean, nameOf: NameOf): string {
  const [first = "", second = ""] = typists;
  if (!isGroup) return "typing…";
  if (typists.length > 2) return `${typists.length} people are typing…`;
  return typists.length === 2 ? `${nameOf(first)} and ${nameOf(second)} are typing…` : `${nameOf(first)} is typing…`;
}

/** Empty where nothing is known, or told. */
export function presenceText(presence: { online: boolean; last_seen_at: number | null } | undefined, now: number): string {
  if (presence?.online) return "online";
  return presence?.last_seen_at ? lastSeen(presence.last_seen_at, now) : "";
}

/** One or two letters that stand for a name. */
export function initials(name: string): string {
  const words = name.split(/[\s._-]+/u).filter(Boolean);
  const letters = words.length > 1 ? [words[0], words.at(-1)] : words;
  return letters.map((word) => Array.from(word ?? "")[0] ?? "").join("").toLocaleUpperCase();
}

/**
 * A colour, always the same for the same person. FNV-1a and the finalizer of MurmurHash3: ids that
 * differ in one character get colours far apart.
 */
export function hueOf(id: string): number {
  let hash = 0x811c9dc5;
  for (const letter of id) hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) % 360;
}

export const countText = (count: number): string => (count > 999 ? "999+" : String(count));
