// Something that is fetched, kept while it is fetched again, and may fail. Only the panel of aside.ts
// does that, so it is a file of its own.

import { createEffect, createMemo, createSignal, onCleanup, type Accessor } from "solid-js";
import { messageOf } from "./load.ts";

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
