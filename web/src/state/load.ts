// Something that is fetched, kept while it is fetched again, and may fail.

import { friendly } from "../text/plain.ts";
import { createEffect, createMemo, createSignal, onCleanup, type Accessor } from "solid-js";

export interface Load<T> {
  value: Accessor<T | undefined>;
  error: Accessor<string>;
  reload(): void;
}

/** Fetches now and whenever what `source` reads changes; a null source fetches nothing. */
export function createLoad<S, T>(source: () => S | null, fetch: (source: S) => Promise<T>): Load<T> {
  const [value, setValue] = createSignal<T>();
  const [error, setError] = createSignal("");
  let latest = 0;
  async function load(wanted: S | null): Promise<void> {
    const mine = ++latest;
    if (wanted === null) return void setValue(undefined);
    try {
      const fetched = await fetch(wanted);
      if (mine !== latest) return;
      setValue(() => fetched);
      setError("");
    } catch (failure) {
      if (mine === latest) setError(messageOf(failure));
    }
  }
  // Only another value is a reason: what is read on the way may change much oftener.
  const wanted = createMemo(source);
  createEffect(() => void load(wanted()));
  onCleanup(() => (latest = -1));
  return { value, error, reload: () => void load(wanted()) };
}

/** In friendly words where the server's are for programs. */
const WORDS: Readonly<Record<string, string>> = {
  archive_unavailable: "Older messages cannot be loaded right now.",
  conversation_not_found: "You are not in this conversation.",
  content_too_large: "This is too long for the server.",
  body_too_large: "This is too long for the server.",
  draining: "The server is restarting. Try again in a moment.",
  group_full: "This group can take no more people.",
  internal: "The server had a problem. Try again.",
  invalid_credentials: "The user ID or the password is wrong.",
  login_disabled: "There is no log-in on this server.",
  not_an_admin: "Only an admin of the group can do that.",
  overloaded: "The server is busy. Try again in a moment.",
  rate_limited: "That was too much at once. Try again in a moment.",
  request_timeout: "The server did not answer in time. Try again.",
  signup_disabled: "There is no sign-up on this server.",
  store_unavailable: "The server cannot reach its storage now. Try again later.",
  user_exists: "This user ID is taken.",
  user_not_found: "There is nobody with this user ID.",
};

export function messageOf(failure: unknown): string {
  if (!(failure instanceof Error) || !failure.message) return "That did not work. Try again.";
  return reasonText((failure as { code?: string }).code ?? "", failure.message);
}

export const reasonText = (code: string, message: string): string => WORDS[code] ?? friendly(message);
