// Checks the options of a client before it starts. Defaults do not belong here; `client.ts` has
// them.

import { BluetickError } from "./errors.ts";
import type { ClientOptions } from "./types.ts";

/** Throws `invalid_request` for options with which no connection could open. */
export function assertValidOptions({ url, token, userId }: Partial<ClientOptions>): void {
  const isText = (value: unknown): boolean => typeof value === "string" && value !== "";
  const refuse = (message: string): never => {
    throw new BluetickError("invalid_request", message);
  };
  if (!/^https?:\/\/./.test(String(url))) refuse("`url` must be the URL of a server, such as https://chat.example.org.");
  if (!isText(token) && typeof token !== "function") refuse("`token` must be a string or a function that returns one.");
  if (!isText(userId)) refuse("`userId` must name the user of the token.");
}
