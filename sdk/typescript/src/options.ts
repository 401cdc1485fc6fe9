// What a client has to be told before it can begin.

import { BluetickError } from "./errors.ts";
import type { ClientOptions } from "./types.ts";

/** Said here rather than by a connection that never comes about. */
export function assertUsable({ url, token, userId }: Partial<ClientOptions>): void {
  const isText = (value: unknown): boolean => typeof value === "string" && value !== "";
  const refuse = (message: string): never => {
    throw new BluetickError("invalid_request", message);
  };
  if (!/^https?:\/\/./.test(String(url))) refuse("`url` has to be the address of a server, such as https://chat.example.org.");
  if (!isText(token) && typeof token !== "function") refuse("`token` has to be a text or a function that gives one.");
  if (!isText(userId)) refuse("`userId` has to say whose token it is.");
}
