// Finds people while somebody types.

import type { Person } from "@bluetick/client";
import { createEffect, createSignal, onCleanup, type Accessor } from "solid-js";
import { useChat } from "./chat.ts";

const PAUSE_MS = 150;

export interface FoundPerson extends Person {
  /** Not found, only typed: somebody without an account here may still have this user id. */
  readonly isGuess: boolean;
}

export function createPeopleSearch(text: Accessor<string>): Accessor<readonly FoundPerson[]> {
  const chat = useChat();
  const [found, setFound] = createSignal<readonly FoundPerson[]>([]);
  createEffect(() => {
    const wanted = text().trim();
    if (wanted === "") return void setFound([]);
    let isCurrent = true;
    const timer = setTimeout(async () => {
      const people = await chat.client.people.search(wanted).catch(() => []);
      if (!isCurrent) return;
      const others = people.filter(({ userId }) => userId !== chat.me).map((person) => ({ ...person, isGuess: false }));
      const isExact = people.some(({ userId }) => userId === wanted) || wanted === chat.me || /\s/.test(wanted);
      setFound(isExact ? others : [...others, { userId: wanted, name: wanted, isGuess: true }]);
    }, PAUSE_MS);
    onCleanup(() => {
      isCurrent = false;
      clearTimeout(timer);
    });
  });
  return found;
}
