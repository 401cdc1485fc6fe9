// Facts as text: group events, previews, names, presence. The server's notices carry facts; the
// client words them.

import { absenceOf, readNotice, type InboxEntry } from "@bluetick/client";
import { formatList, formatNumber, t } from "../i18n/index.ts";
import { firstLine } from "./plain.ts";
import { lastSeen } from "./time.ts";

/** A name for a user ID. */
export type NameOf = (user: string) => string;

/** A name may have another direction than the sentence, so it is isolated. */
const isolated = (text: string): string => `\u2068${text}\u2069`;

export function noticeText(message: { content: string; content_type: string }, me: string, nameOf: NameOf): string {
  const { event, by: actor, user_id: user, title: groupTitle, member_count = 0 } = readNotice(message) ?? {};
  const nameOrSomeone = (id?: string) => (id === undefined ? t("someone") : isolated(nameOf(id)));
  const [by, name] = [nameOrSomeone(actor), nameOrSomeone(user)];
  switch (event) {
    case "group_created": {
      const group = { title: isolated(groupTitle ?? ""), members: memberCount(member_count) };
      return actor === me ? t("youCreatedGroup", group) : t("groupCreated", { ...group, name: by });
    }
    case "member_added":
      if (actor === me) return t("youAdded", { name });
      return user === me ? t("addedYou", { by }) : t("memberAdded", { by, name });
    case "member_removed":
      if (actor === me) return t("youRemoved", { name });
      return user === me ? t("removedYou", { by }) : t("memberRemoved", { by, name });
    case "member_left":
      return user === me ? t("youLeft") : t("memberLeft", { name });
    default:
      return t("groupChanged");
  }
}

/** The text in place of a content that is missing; empty where the content is there. */
export function absenceText(message: { content_type: string }): string {
  const absence = absenceOf(message);
  if (!absence) return "";
  return absence === "erased" ? t("messageDeleted") : t("messageUnavailable");
}

export const memberCount = (count: number): string => t("memberCount", { count });

export function titleOf(entry: InboxEntry | undefined, me: string, nameOf: NameOf): string {
  if (!entry) return "";
  if (entry.kind === "group") return entry.title ?? t("group");
  return !entry.peer || entry.peer === me ? t("nameYou", { name: nameOf(me) }) : nameOf(entry.peer);
}

export interface Preview {
  /** The sender; empty in a direct chat, where the sender is clear. */
  by: string;
  text: string;
  /** The content is missing; the text says why. */
  isAbsent?: boolean;
}

/** One line for the chat list. */
export function previewOf(entry: InboxEntry, me: string, nameOf: NameOf): Preview {
  const message = entry.last_message;
  if (!message || message.content_type === "void") return { by: "", text: "" };
  if (message.content_type === "system") return { by: "", text: noticeText(message, me, nameOf) };
  const absence = absenceText(message);
  const text = absence || firstLine(message.content);
  const by = message.sender_id === me ? t("you") : entry.kind === "group" ? nameOf(message.sender_id) : "";
  return { by, text, isAbsent: absence !== "" };
}

export function typingText(typists: readonly string[], isGroup: boolean, nameOf: NameOf): string {
  if (!isGroup) return t("typing");
  const count = typists.length;
  if (count > 2) return t("typingMany", { count });
  return t("typingNames", { count, names: formatList(typists.map(nameOf)) });
}

/** Empty where the server tells no presence. */
export function presenceText(presence: { online: boolean; last_seen_at: number | null } | undefined, now: number): string {
  if (presence?.online) return t("online");
  return presence?.last_seen_at ? lastSeen(presence.last_seen_at, now) : "";
}

/** One or two letters that represent a name. */
export function initials(name: string): string {
  const words = name.split(/[\s._-]+/u).filter(Boolean);
  const letters = words.length > 1 ? [words[0], words.at(-1)] : words;
  return letters.map((word) => Array.from(word ?? "")[0] ?? "").join("").toLocaleUpperCase();
}

/**
 * The colour of a user, which never changes. FNV-1a and the finalizer of MurmurHash3: IDs that
 * differ in one character get colours far apart.
 */
export function hueOf(id: string): number {
  let hash = 0x811c9dc5;
  for (const letter of id) hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) % 360;
}

/** The largest count that a badge shows as a number. A larger text does not fit into the badge. */
const COUNT_LIMIT = 999;

export const countText = (count: number): string => (count > COUNT_LIMIT ? `${formatNumber(COUNT_LIMIT)}+` : formatNumber(count));
