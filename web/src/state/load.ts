// The text for a failure. The server's error codes select it; the English messages of the server
// and of the SDK are for programmers.

import { errorText, language, t } from "../i18n/index.ts";
import { asSentence } from "../text/plain.ts";

/** A refusal that is about one field of a form. */
export interface FieldProblem {
  readonly field: string;
  readonly text: string;
}

/** Codes that are about the user ID of the sign-up form. */
const ABOUT_USER_ID = new Set(["name_reserved", "user_exists"]);
/** The texts for a field that the server does not accept. */
const INVALID = { user_id: "invalidUserId", password: "invalidPassword", display_name: "invalidName" } as const;

const codeOf = (failure: unknown): string => (failure as { code?: string } | null)?.code ?? "";

/**
 * The server names a field at the start of the message of `invalid_request`. Null where the failure
 * is not about a field.
 */
export function fieldProblemOf(failure: unknown): FieldProblem | null {
  if (!(failure instanceof Error)) return null;
  const code = codeOf(failure);
  if (ABOUT_USER_ID.has(code)) return { field: "user_id", text: messageOf(failure) };
  const [, field, reason = ""] = (code === "invalid_request" && /^(user_id|password|display_name): (.+)$/su.exec(failure.message)) || [];
  if (!field) return null;
  const isCommon = field === "password" && /\bcommon\b/u.test(reason);
  return { field, text: t(isCommon ? "commonPassword" : INVALID[field as keyof typeof INVALID]) };
}

export function messageOf(failure: unknown): string {
  return failure instanceof Error ? reasonText(codeOf(failure), failure.message) : t("errorUnknown");
}

/** `message` is the server's. It names the user of `unknown_user` at its end. */
export function reasonText(code: string, message: string): string {
  const user = code === "unknown_user" ? message.split(" user ")[1] : undefined;
  if (user) return t("noSuchUser", { user });
  return errorText(code) ?? (code === "" ? t("errorUnknown") : t("errorCode", { code }));
}

/**
 * A reason that the SDK gives as English text without a code. Empty in other languages, where the
 * page shows a general text.
 */
export const englishReason = (reason: string): string => (language() === "en" ? asSentence(reason) : "");
