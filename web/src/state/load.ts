// Why something did not work, in words for people.

import { friendly } from "../text/plain.ts";

/** In friendly words where the server's are for programs. */
const WORDS: Readonly<Record<string, string>> = {
  archive_unavailable: "Older messages can't be loaded right now.",
  conversation_not_found: "You are not in this chat.",
  content_too_large: "This message is too long.",
  body_too_large: "This message is too long.",
  draining: "The server is restarting. Try again in a moment.",
  group_full: "This group is full.",
  internal: "Something went wrong on the server. Try again.",
  invalid_credentials: "Incorrect user ID or password.",
  login_disabled: "This server has no log-in.",
  name_reserved: "This user ID is reserved. Choose another one.",
  not_an_admin: "Only group admins can do that.",
  overloaded: "The server is busy. Try again in a moment.",
  rate_limited: "Too many requests. Try again in a moment.",
  request_timeout: "The server took too long to answer. Try again.",
  signup_disabled: "This server has no sign-up.",
  store_unavailable: "The server can't reach its storage. Try again later.",
  user_exists: "This user ID, or one that looks like it, is taken. Choose another one.",
  user_not_found: "No such user.",
};

/** A refusal that is about one field of a form. */
export interface FieldProblem {
  readonly field: string;
  readonly text: string;
}

const ABOUT_USER_ID = new Set(["name_reserved", "user_exists"]);

/**
 * The server names a field at the start of the message of `invalid_request`. Null where no field is
 * to blame.
 */
export function fieldProblemOf(failure: unknown): FieldProblem | null {
  if (!(failure instanceof Error)) return null;
  const { code = "" } = failure as { code?: string };
  if (ABOUT_USER_ID.has(code)) return { field: "user_id", text: messageOf(failure) };
  const [, field, reason = ""] = (code === "invalid_request" && /^(user_id|password|display_name): (.+)$/su.exec(failure.message)) || [];
  if (!field) return null;
  const isCommon = field === "password" && /\bcommon\b/u.test(reason);
  return { field, text: isCommon ? "This password is too common. Choose another one." : friendly(reason.replaceAll("user_id", "user ID")) };
}

export function messageOf(failure: unknown): string {
  if (!(failure instanceof Error) || !failure.message) return "That did not work. Try again.";
  return reasonText((failure as { code?: string }).code ?? "", failure.message);
}

export function reasonText(code: string, message: string): string {
  if (code !== "unknown_user") return WORDS[code] ?? friendly(message);
  // The server's sentence ends with the user ID.
  const user = message.split(" user ")[1];
  return user ? `No such user: ${user}.` : "No such user.";
}
