// Searches for people while the user types. An answer keeps the text that it belongs to, so that
// the user cannot choose from the answer to an earlier text.

import type { Person } from "@bluetick/client";
import { createEffect, createMemo, createSignal, onCleanup, type Accessor } from "solid-js";
import { useChat } from "./chat.ts";

/** How long the user has to stop typing before the search starts. Bounds the number of requests. */
const PAUSE_MS = 150;

export interface FoundPerson extends Person {
  /**
   * The search did not find this user ID; the user typed it. Where tokens come from the operator's
   * own product, a user may exist who has not logged in here yet.
   */
  readonly isGuess: boolean;
}

export interface PeopleSearch {
  readonly people: Accessor<readonly FoundPerson[]>;
  /** The answer belongs to the current text. */
  readonly isReady: Accessor<boolean>;
  readonly hasFailed: Accessor<boolean>;
}

interface Answer {
  readonly text: string;
  readonly people: readonly FoundPerson[];
  readonly hasFailed: boolean;
}

export function createPeopleSearch(text: Accessor<string>): PeopleSearch {
  const chat = useChat();
  const wanted = createMemo(() => text().trim());
  const [answer, setAnswer] = createSignal<Answer>({ text: "", people: [], hasFailed: false });

  async function find(asked: string): Promise<Answer> {
    try {
      const [people, { canSignUp }] = await Promise.all([chat.client.people.search(asked), chat.offer()]);
      const others = people.filter(({ userId }) => userId !== chat.me).map((person) => ({ ...person, isGuess: false }));
      // With sign-up open, the server refuses user IDs that it does not know.
      const mayGuess = !canSignUp && asked !== chat.me && !/\s/.test(asked) && !people.some(({ userId }) => userId === asked);
      return { text: asked, people: !mayGuess ? others : [...others, { userId: asked, name: asked, isGuess: true }], hasFailed: false };
    } catch {
      // After a failed search, the page does not call the user unknown.
      return { text: asked, people: [], hasFailed: true };
    }
  }

  createEffect(() => {
    const asked = wanted();
    if (asked === "") return void setAnswer({ text: "", people: [], hasFailed: false });
    let isCurrent = true;
    const timer = setTimeout(async () => {
      const found = await find(asked);
      if (isCurrent) setAnswer(found);
    }, PAUSE_MS);
    onCleanup(() => {
      isCurrent = false;
      clearTimeout(timer);
    });
  });

  const isReady = createMemo(() => answer().text === wanted());
  return {
    isReady,
    hasFailed: () => isReady() && answer().hasFailed,
    people: createMemo(() => (wanted() === "" ? [] : isReady() ? answer().people : answer().people.filter(({ isGuess }) => !isGuess))),
  };
}
