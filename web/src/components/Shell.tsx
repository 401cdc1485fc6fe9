// The chat of the logged-in user: the two panes, the dialogs, the global keyboard shortcuts, the
// page title and the live region for screen readers.

import type { Session } from "@bluetick/client";
import { Match, Show, Switch, createEffect, createMemo, createSignal, onCleanup, onMount } from "solid-js";
import { parts, t } from "../i18n/index.ts";
import { ChatContext, createChat, useChat } from "../state/chat.ts";
import type { EndReason } from "../storage.ts";
import { ConversationPane } from "./ConversationPane.tsx";
import { Help, NewGroup, SettingsDialog } from "./lazy.ts";
import { Sidebar } from "./Sidebar.tsx";

type OpenDialog = "group" | "settings" | "help" | null;

/** The shortest time between two changes of the page title. Each change is expensive. */
const TITLE_INTERVAL_MS = 300;
/** How long a log-out waits for the server. The token then stays valid until it expires. */
const LOG_OUT_TIMEOUT_MS = 3_000;
/** The number of entries of a page of the list. A list with fewer entries has no further page. */
const LIST_PAGE = 50;

const isWriting = (target: EventTarget | null) => target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");

export function Shell(props: { session: Session; onEnd(reason: EndReason | null): void }) {
  const chat = createChat(props.session, (reason) => props.onEnd(reason));
  const [dialog, setDialog] = createSignal<OpenDialog>(null);
  const [isReady, setReady] = createSignal(false);
  let searchField: HTMLInputElement | undefined;

  onMount(async () => {
    await chat.client.start();
    setReady(true);
  });
  onCleanup(() => void chat.client.stop());

  // Setting the title is expensive, and the unread count may change in every frame.
  const isPart = () => chat.hasMore(false) && chat.entries(false).length >= LIST_PAGE;
  const title = createMemo(() => (chat.unreadTotal() > 0 ? `(${chat.unreadTotal()}${isPart() ? "+" : ""}) Bluetick` : "Bluetick"));
  let titleTimer: ReturnType<typeof setTimeout> | undefined;
  let shownTitle = document.title;
  function showTitle(): void {
    titleTimer = undefined;
    if (shownTitle === title()) return;
    document.title = shownTitle = title();
    titleTimer = setTimeout(showTitle, TITLE_INTERVAL_MS);
  }
  createEffect(() => void (title() !== shownTitle && titleTimer === undefined && showTitle()));
  createEffect(() => (document.body.dataset.connection = chat.connectionState()));
  onCleanup(() => {
    clearTimeout(titleTimer);
    document.title = "Bluetick";
    delete document.body.dataset.connection;
  });

  async function logOut(): Promise<void> {
    // The client deletes the stored messages and the token, also when the server cannot be reached.
    const loggedOut = chat.client.logOut().catch(() => undefined);
    await Promise.race([loggedOut, new Promise((done) => setTimeout(done, LOG_OUT_TIMEOUT_MS))]);
    props.onEnd(null);
  }

  function goToNeighbor(offset: number): void {
    const ids = chat.entries(false).map(({ conversation_id }) => conversation_id);
    const at = ids.indexOf(chat.openId());
    const next = ids[at < 0 ? 0 : Math.max(0, Math.min(at + offset, ids.length - 1))];
    if (next) chat.go(next);
  }

  function onKeyDown(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.isComposing || dialog()) return;
    const isCommand = event.ctrlKey || event.metaKey;
    if (isCommand && event.key.toLowerCase() === "k") searchField?.focus();
    else if (event.altKey && event.key === "ArrowUp") goToNeighbor(-1);
    else if (event.altKey && event.key === "ArrowDown") goToNeighbor(1);
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
          <Sidebar onNewChat={() => searchField?.focus()} onNewGroup={() => setDialog("group")} onSettings={() => setDialog("settings")} onSearchField={(field) => (searchField = field)} />
          <Show when={chat.openId()} keyed fallback={<NoChatSelected />}>
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

function NoChatSelected() {
  const chat = useChat();
  // Without chats, the list says how to start one.
  const isEmpty = () => chat.entries(false).length === 0 && chat.entries(true).length === 0;
  return (
    <main class="pane no-chat">
      <img src="/assets/icon.svg" alt="" width="72" height="72" />
      <Show when={!isEmpty()}><strong>{t("selectChat")}</strong></Show>
      <p class="hint">{parts("selectChatHint", { search: <kbd>/</kbd>, help: <kbd>?</kbd> })}</p>
    </main>
  );
}
