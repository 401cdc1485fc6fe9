// The search field over the list, and what it finds: conversations at hand, and people to start one with.

import type { InboxEntry } from "@bluetick/client";
import { For, Show, createEffect, createMemo, createSignal, on } from "solid-js";
import { useChat } from "../state/chat.ts";
import { messageOf } from "../state/load.ts";
import { titleOf } from "../text/words.ts";
import { Avatar } from "./Avatar.tsx";
import { Icon } from "./Icon.tsx";
import { createPeopleSearch } from "../state/people-search.ts";

const MOST_CONVERSATIONS = 20;

interface Result {
  key: string;
  id: string;
  name: string;
  hint: string;
  isGroup: boolean;
  choose(): Promise<void> | void;
}

interface SearchProps {
  text: string;
  onText(text: string): void;
  ref(field: HTMLInputElement): void;
}

export function Search(props: SearchProps) {
  const chat = useChat();
  const [active, setActive] = createSignal(0);
  let field!: HTMLInputElement;
  let cameFrom: HTMLElement | null = null;
  const text = () => props.text;
  const found = createPeopleSearch(text);

  const conversations = createMemo((): Result[] => {
    const wanted = text().trim().toLocaleLowerCase();
    if (wanted === "") return [];
    const isMatch = (entry: InboxEntry) =>
      titleOf(entry, chat.me, chat.nameOf).toLocaleLowerCase().includes(wanted) || entry.peer?.toLocaleLowerCase().startsWith(wanted);
    return [...chat.entries(false), ...chat.entries(true)]
      .filter(isMatch)
      .slice(0, MOST_CONVERSATIONS)
      .map((entry) => ({
        key: entry.conversation_id,
        id: entry.peer ?? entry.conversation_id,
        name: titleOf(entry, chat.me, chat.nameOf),
        hint: entry.kind === "group" ? `Group, ${entry.member_count} members` : (entry.peer ?? ""),
        isGroup: entry.kind === "group",
        choose: () => open(entry.conversation_id),
      }));
  });

  const people = createMemo((): Result[] => {
    const known = new Set(conversations().map(({ id }) => id));
    return found()
      .filter(({ userId }) => !known.has(userId))
      .map(({ userId, name, isGuess }) => ({
        key: `person ${userId}`,
        id: userId,
        name,
        hint: isGuess ? "exact user ID" : userId,
        isGroup: false,
        choose: () => startWith(userId),
      }));
  });

  const results = createMemo(() => [...conversations(), ...people()]);
  createEffect(on(text, () => setActive(0)));

  /** Back to where the keyboard was. */
  function leave(): void {
    if (cameFrom?.isConnected) cameFrom.focus();
    else field.blur();
  }

  function open(id: string): void {
    props.onText("");
    field.blur();
    chat.go(id);
  }

  async function startWith(userId: string): Promise<void> {
    try {
      open((await chat.client.openDirect(userId)).id);
    } catch (failure) {
      chat.tell(messageOf(failure));
    }
  }

  function onKeyDown(event: KeyboardEvent): void {
    const count = results().length;
    if (event.isComposing) return;
    if (event.key === "ArrowDown" && count > 0) setActive((active() + 1) % count);
    else if (event.key === "ArrowUp" && count > 0) setActive((active() + count - 1) % count);
    else if (event.key === "Enter") void results()[active()]?.choose();
    else if (event.key === "Escape") {
      if (text() === "") leave();
      props.onText("");
    } else return;
    event.preventDefault();
    event.stopPropagation();
    document.getElementById(`result-${active()}`)?.scrollIntoView({ block: "nearest" });
  }

  const option = (result: Result, index: () => number) => (
    <li id={`result-${index()}`} class="option" role="option" aria-selected={index() === active()} onPointerDown={(event) => event.preventDefault()} onClick={() => void result.choose()}>
      <Avatar id={result.id} name={result.name} isGroup={result.isGroup} />
      <span class="names"><span dir="auto">{result.name}</span><span class="hint">{result.hint}</span></span>
    </li>
  );

  return (
    <>
      <div class="search" role="search">
        <Icon name="search" />
        <input
          ref={(element) => { field = element; props.ref(element); }}
          type="search"
          role="combobox"
          aria-label="Search people and conversations"
          aria-expanded={results().length > 0}
          aria-controls="results"
          aria-activedescendant={results().length > 0 ? `result-${active()}` : undefined}
          aria-keyshortcuts="Control+K /"
          placeholder="Search people and chats"
          autocomplete="off"
          autocapitalize="none"
          spellcheck={false}
          value={text()}
          onInput={(event) => props.onText(event.currentTarget.value)}
          onFocus={(event) => (cameFrom = event.relatedTarget as HTMLElement | null)}
          onKeyDown={onKeyDown}
        />
        <Show when={text() === ""} fallback={<button type="button" class="icon-button" aria-label="Clear search" onClick={() => { props.onText(""); field.focus(); }}><Icon name="close" /></button>}>
          <kbd aria-hidden="true">/</kbd>
        </Show>
      </div>
      <div id="results" class="results" role="listbox" aria-label="Search results" hidden={text() === ""}>
        <Show when={conversations().length > 0}>
          <ul role="group" aria-label="Conversations"><li class="group-title" role="presentation">Conversations</li><For each={conversations()}>{(result, index) => option(result, index)}</For></ul>
        </Show>
        <Show when={people().length > 0}>
          <ul role="group" aria-label="People"><li class="group-title" role="presentation">People</li><For each={people()}>{(result, index) => option(result, () => conversations().length + index())}</For></ul>
        </Show>
        <Show when={results().length === 0}><p class="empty" role="presentation">Nobody found yet.</p></Show>
      </div>
    </>
  );
}
