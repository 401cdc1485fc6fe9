// A value that is fetched, kept while it is fetched again, and may fail. Only the chunk of
// on-demand.ts uses it, so it is not part of state/load.ts.

import { createEffect, createMemo, createSignal, onCleanup, type Accessor } from "solid-js";
import { messageOf } from "./load.ts";

export interface Load<T> {
  value: Accessor<T | undefined>;
  error: Accessor<string>;
  reload(): void;
}

/** Fetches now, and again when the value of `source` changes. A null source fetches nothing. */
export function createLoad<S, T>(source: () => S | null, fetch: (source: S) => Promise<T>): Load<T> {
  const [value, setValue] = createSignal<T>();
  const [failure, setFailure] = createSignal<unknown>(null);
  let latest = 0;
  async function load(wanted: S | null): Promise<void> {
    const current = ++latest;
    if (wanted === null) return void setValue(undefined);
    try {
      const fetched = await fetch(wanted);
      if (current !== latest) return;
      setValue(() => fetched);
      setFailure(null);
    } catch (failed) {
      if (current === latest) setFailure(failed);
    }
  }
  // A memo: `source` may read signals that change more often than its value.
  const wanted = createMemo(source);
  createEffect(() => void load(wanted()));
  onCleanup(() => (latest = -1));
  return { value, error: () => (failure() === null ? "" : messageOf(failure())), reload: () => void load(wanted()) };
}
