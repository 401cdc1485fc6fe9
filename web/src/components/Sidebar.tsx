// The sidebar: profile, connection notice, search, and the chat list or the archived chats.

import { Show, createEffect, createSignal } from "solid-js";
import { formatNumber, t } from "../i18n/index.ts";
import { useChat } from "../state/chat.ts";
import { Avatar } from "./Avatar.tsx";
import { Icon } from "./Icon.tsx";
import { InboxList } from "./InboxList.tsx";
import { Search } from "./Search.tsx";

interface SidebarProps {
  onNewChat(): void;
  onNewGroup(): void;
  onSettings(): void;
  onSearchField(field: HTMLInputElement): void;
}

export function Sidebar(props: SidebarProps) {
  const chat = useChat();
  const [text, setText] = createSignal("");
  const [isArchive, setArchive] = createSignal(false);
  const archivedCount = () => chat.entries(true).length;
  const archivedUnread = () => chat.entries(true).filter(({ unread, muted }) => unread > 0 && !muted).length;

  createEffect(() => {
    if (isArchive() && archivedCount() === 0 && !chat.hasMore(true)) setArchive(false);
  });

  return (
    <nav class="pane sidebar" aria-label={t("chats")}>
      <header class="bar">
        <Show
          when={!isArchive()}
          fallback={<><button type="button" class="icon-button" aria-label={t("backToChats")} onClick={() => setArchive(false)}><Icon name="back" /></button><h1>{t("archived")}</h1></>}
        >
          <button type="button" class="me" aria-label={t("yourProfile")} onClick={() => props.onSettings()}>
            <Avatar id={chat.me} name={chat.nameOf(chat.me)} />
          </button>
          <h1>{t("chats")}</h1>
          <button type="button" class="icon-button" aria-label={t("newChat")} title={t("newChat")} onClick={() => props.onNewChat()}><Icon name="compose" /></button>
          <button type="button" class="icon-button" aria-label={t("newGroup")} title={t("newGroup")} onClick={() => props.onNewGroup()}><Icon name="group" /></button>
          <button type="button" class="icon-button" aria-label={t("settings")} title={t("settings")} onClick={() => props.onSettings()}><Icon name="settings" /></button>
        </Show>
      </header>
      <p class="connection" role="status"><Show when={chat.connectionNotice()}>{(notice) => <span>{notice()}</span>}</Show></p>
      <Search text={text()} onText={setText} ref={(field) => props.onSearchField(field)} />
      <Show when={text() === ""}>
        <Show when={isArchive()} fallback={<InboxList archived={false} />}><InboxList archived={true} /></Show>
        <Show when={!isArchive() && archivedCount() > 0}>
          <button type="button" class="archive-button" onClick={() => setArchive(true)}>
            <Icon name="archive" /><span>{t("archived")}</span>
            <Show when={archivedUnread() > 0} fallback={<span class="count">{formatNumber(archivedCount())}</span>}>
              <span class="badge quiet"><span aria-hidden="true">{formatNumber(archivedUnread())}</span><span class="visually-hidden">{t("archivedUnread", { count: archivedUnread() })}</span></span>
            </Show>
            <Icon name="chevron" />
          </button>
        </Show>
      </Show>
    </nav>
  );
}
