// The search field above the chat list, and its results: loaded conversations, and people to start
// a chat with.

import type { InboxEntry } from "@bluetick/client";
import { For, Show, createEffect, createMemo, createSignal, on, onCleanup } from "solid-js";
import { t } from "../i18n/index.ts";
import { useChat } from "../state/chat.ts";
import { messageOf } from "../state/load.ts";
import { memberCount, titleOf } from "../text/texts.ts";
import { Avatar } from "./Avatar.tsx";
import { Icon } from "./Icon.tsx";
import { createPeopleSearch } from "../state/people-search.ts";

/** Upper bound on the conversations that the results show. */
const CONVERSATIONS_LIMIT = 20;
/** Upper bound on the entries of the chat list that the search loads. Later chats are not found. */
const LIST_LIMIT = 1_000;
/** Upper bound on the requests for pages of the list, if pages add no entries. */
const LIST_ROUNDS = 60;
/** How long the search waits after a page that added no entry. */
const LIST_RETRY_MS = 200;

interface Result {
  key: string;
  id: string;
  name: string;
  hint: string;
  isGroup: boolean;
  /** The search did not find this user ID: Enter asks before it starts a chat. */
  isGuess: boolean;
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
  let focusedBefore: HTMLElement | null = null;
  const text = () => props.text;
  const found = createPeopleSearch(text);
  /** A user ID that the search did not find, after the first Enter. */
  const [guess, setGuess] = createSignal("");
  const [isEnterPending, setEnterPending] = createSignal(false);

  const conversations = createMemo((): Result[] => {
    const wanted = text().trim().toLocaleLowerCase();
    if (wanted === "") return [];
    const isMatch = (entry: InboxEntry) =>
      titleOf(entry, chat.me, chat.nameOf).toLocaleLowerCase().includes(wanted) || entry.peer?.toLocaleLowerCase().startsWith(wanted);
    return [...chat.entries(false), ...chat.entries(true)]
      .filter(isMatch)
      .slice(0, CONVERSATIONS_LIMIT)
      .map((entry) => ({
        key: entry.conversation_id,
        id: entry.peer ?? entry.conversation_id,
        name: titleOf(entry, chat.me, chat.nameOf),
        hint: entry.kind === "group" ? t("groupWith", { members: memberCount(entry.member_count) }) : (entry.peer ?? ""),
        isGroup: entry.kind === "group",
        isGuess: false,
        choose: () => open(entry.conversation_id),
      }));
  });

  const people = createMemo((): Result[] => {
    const known = new Set(conversations().map(({ id }) => id));
    return found.people()
      .filter(({ userId }) => !known.has(userId))
      .map(({ userId, name, isGuess }) => ({
        key: `person ${userId}`,
        id: userId,
        name,
        hint: isGuess ? t("startAnyway", { user: userId }) : userId,
        isGroup: false,
        isGuess,
        choose: () => startWith(userId),
      }));
  });

  const results = createMemo(() => [...conversations(), ...people()]);
  createEffect(on(text, () => {
    setActive(0);
    setGuess("");
    setEnterPending(false);
  }));

  // Enter chooses from the answer to the current text. Until that answer arrives, Enter waits.
  function enter(): void {
    const result = results()[active()];
    if (active() >= conversations().length && !found.isReady()) setEnterPending(true);
    else if (result?.isGuess && guess() !== result.id) setGuess(result.id);
    else void result?.choose();
  }
  createEffect(() => {
    if (!isEnterPending() || !found.isReady()) return;
    setEnterPending(false);
    enter();
  });

  // The server sends the list in pages, so the search loads the other pages.
  const isSearching = createMemo(() => text().trim() !== "");
  createEffect(() => {
    if (!isSearching()) return;
    let isOver = false;
    onCleanup(() => (isOver = true));
    void (async () => {
      const { inbox } = chat.client;
      for (const archived of [false, true]) {
        for (let round = 0; round < LIST_ROUNDS && inbox.hasMore(archived) && inbox.entries(archived).length < LIST_LIMIT; round += 1) {
          const before = inbox.entries(archived).length;
          await inbox.loadMore(archived).catch(() => undefined);
          if (isOver) return;
          if (inbox.entries(archived).length === before) await new Promise((resume) => setTimeout(resume, LIST_RETRY_MS));
        }
      }
    })();
  });

  /** Moves the focus back to the element that had it before. */
  function leave(): void {
    if (focusedBefore?.isConnected) focusedBefore.focus();
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
      chat.showToast(messageOf(failure));
    }
  }

  function onKeyDown(event: KeyboardEvent): void {
    const count = results().length;
    if (event.isComposing) return;
    if (event.key === "ArrowDown" && count > 0) setActive((active() + 1) % count);
    else if (event.key === "ArrowUp" && count > 0) setActive((active() + count - 1) % count);
    else if (event.key === "Enter") enter();
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
      <span class="names"><span><bdi>{result.name}</bdi></span><span class="hint"><bdi>{result.hint}</bdi></span></span>
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
          aria-label={t("search")}
          aria-expanded={results().length > 0}
          aria-controls="results"
          aria-activedescendant={results().length > 0 ? `result-${active()}` : undefined}
          aria-keyshortcuts="Control+K /"
          placeholder={t("search")}
          autocomplete="off"
          autocapitalize="none"
          spellcheck={false}
          value={text()}
          onInput={(event) => props.onText(event.currentTarget.value)}
          onFocus={(event) => (focusedBefore = event.relatedTarget as HTMLElement | null)}
          onKeyDown={onKeyDown}
        />
        <Show when={text() === ""} fallback={<button type="button" class="icon-button" aria-label={t("clearSearch")} onClick={() => { props.onText(""); field.focus(); }}><Icon name="close" /></button>}>
          <kbd aria-hidden="true">/</kbd>
        </Show>
      </div>
      <p class="visually-hidden" role="status">{guess() ? t("enterToStart", { user: guess() }) : ""}</p>
      <div id="results" class="results" role="listbox" aria-label={t("searchResults")} hidden={text() === ""}>
        <Show when={conversations().length > 0}>
          <ul role="group" aria-label={t("chats")}><li class="group-title" role="presentation">{t("chats")}</li><For each={conversations()}>{(result, index) => option(result, index)}</For></ul>
        </Show>
        <Show when={people().length > 0}>
          <ul role="group" aria-label={t("people")}><li class="group-title" role="presentation">{t("people")}</li><For each={people()}>{(result, index) => option(result, () => conversations().length + index())}</For></ul>
        </Show>
        <Show when={results().length === 0}><p class="empty" role="presentation">{found.hasFailed() ? t("searchFailed") : found.isReady() ? t("noResults") : t("searching")}</p></Show>
      </div>
    </>
  );
}
