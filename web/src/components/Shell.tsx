// The chat of one logged-in person: the two panes, the dialogs over them, the keys that work everywhere, and what is
// told to those who do not look: the title and the live region.

import type { Session } from "@bluetick/client";
import { Match, Show, Switch, createEffect, createMemo, createSignal, onCleanup, onMount } from "solid-js";
import { ChatContext, createChat } from "../state/chat.ts";
import { ConversationPane } from "./ConversationPane.tsx";
import { Help, NewGroup, SettingsDialog } from "./later.ts";
import { Sidebar } from "./Sidebar.tsx";

type OpenDialog = "group" | "settings" | "help" | null;

const TITLE_PAUSE_MS = 300;
/** Nobody waits longer for a server that should hear of it. */
const LOG_OUT_MS = 3_000;
/** A shorter list is whole, or about to be. */
const LIST_PAGE = 50;

const isWriting = (target: EventTarget | null) => target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");

export function Shell(props: { session: Session; onEnd(note: string): void }) {
  const chat = createChat(props.session, (note) => props.onEnd(note));
  const [dialog, setDialog] = createSignal<OpenDialog>(null);
  const [isReady, setReady] = createSignal(false);
  let searchField: HTMLInputElement | undefined;

  onMount(async () => {
    await chat.client.start();
    setReady(true);
  });
  onCleanup(() => void chat.client.stop());

  // A title is dear to set, and what is read at once comes and goes within a frame.
  const isPart = () => chat.hasMore(false) && chat.entries(false).length >= LIST_PAGE;
  const title = createMemo(() => (chat.unreadTotal() > 0 ? `(${chat.unreadTotal()}${isPart() ? "+" : ""}) Bluetick` : "Bluetick"));
  let titleTimer: ReturnType<typeof setTimeout> | undefined;
  let shownTitle = document.title;
  function showTitle(): void {
    titleTimer = undefined;
    if (shownTitle === title()) return;
    document.title = shownTitle = title();
    titleTimer = setTimeout(showTitle, TITLE_PAUSE_MS);
  }
  createEffect(() => void (title() !== shownTitle && titleTimer === undefined && showTitle()));
  createEffect(() => (document.body.dataset.connection = chat.connectionState()));
  onCleanup(() => {
    clearTimeout(titleTimer);
    document.title = "Bluetick";
    delete document.body.dataset.connection;
  });

  async function logOut(): Promise<void> {
    // Whoever comes next to this browser finds nothing to read. A server that cannot be reached hears nothing, and the
    // token is gone from here all the same.
    const told = chat.client.logOut().catch(() => undefined);
    await Promise.race([told, new Promise((done) => setTimeout(done, LOG_OUT_MS))]);
    props.onEnd("");
  }

  function goBy(offset: number): void {
    const ids = chat.entries(false).map(({ conversation_id }) => conversation_id);
    const at = ids.indexOf(chat.openId());
    const next = ids[at < 0 ? 0 : Math.max(0, Math.min(at + offset, ids.length - 1))];
    if (next) chat.go(next);
  }

  function onKeyDown(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.isComposing || dialog()) return;
    const isCommand = event.ctrlKey || event.metaKey;
    if (isCommand && event.key.toLowerCase() === "k") searchField?.focus();
    else if (event.altKey && event.key === "ArrowUp") goBy(-1);
    else if (event.altKey && event.key === "ArrowDown") goBy(1);
    else if (event.key === "Escape" && chat.openId() !== "") chat.go("");
    else if (isWriting(event.target) || isCommand || event.altKey) return;
    else if (event.key === "/") searchField?.focus();
    else if (event.key === "?") setDialog("help");
    else return;
    event.preventDefault();
  }
  document.addEventListener("keydown", onKeyDown);
  onCleanup(() => document.removeEventListener("keydown", onKeyDown));

  return (
    <ChatContext.Provider value={chat}>
      <div class="shell" classList={{ "has-open": chat.openId() !== "" }}>
        <Show when={isReady()}>
          <Sidebar onNewGroup={() => setDialog("group")} onSettings={() => setDialog("settings")} onSearchField={(field) => (searchField = field)} />
          <Show when={chat.openId()} keyed fallback={<NothingOpen />}>
            {(id) => <ConversationPane id={id} />}
          </Show>
        </Show>
      </div>
      <Switch>
        <Match when={dialog() === "group"}><NewGroup onClose={() => setDialog(null)} /></Match>
        <Match when={dialog() === "settings"}><SettingsDialog onClose={() => setDialog((open) => (open === "settings" ? null : open))} onHelp={() => setDialog("help")} onLogOut={() => void logOut()} /></Match>
        <Match when={dialog() === "help"}><Help onClose={() => setDialog(null)} /></Match>
      </Switch>
      <p class="toast" role="alert" classList={{ shown: chat.toast() !== null }}>{chat.toast()?.text}</p>
      <p class="visually-hidden" role="status" aria-live="polite" id="announcer">{chat.announcement()}</p>
    </ChatContext.Provider>
  );
}

function NothingOpen() {
  return (
    <main class="pane nothing-open">
      <img src="/assets/icon.svg" alt="" width="72" height="72" />
      <strong>Select a chat</strong>
      <p class="hint">Or press <kbd>/</kbd> to search, <kbd>?</kbd> for keyboard shortcuts.</p>
    </main>
  );
}
