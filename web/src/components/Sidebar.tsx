// The left pane: who one is, the connection, search, and the list of conversations or its archive.

import { Show, createEffect, createSignal } from "solid-js";
import { useChat } from "../state/chat.ts";
import { Avatar } from "./Avatar.tsx";
import { Icon } from "./Icon.tsx";
import { InboxList } from "./InboxList.tsx";
import { Search } from "./Search.tsx";

interface SidebarProps {
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
    <nav class="pane sidebar" aria-label="Chats">
      <header class="bar">
        <Show
          when={!isArchive()}
          fallback={<><button type="button" class="icon-button" aria-label="Back to all chats" onClick={() => setArchive(false)}><Icon name="back" /></button><h1>Archive</h1></>}
        >
          <button type="button" class="me" aria-label={`Profile of ${chat.nameOf(chat.me)}`} onClick={() => props.onSettings()}>
            <Avatar id={chat.me} name={chat.nameOf(chat.me)} />
          </button>
          <h1>Chats</h1>
          <button type="button" class="icon-button" aria-label="New group" title="New group" onClick={() => props.onNewGroup()}><Icon name="group" /></button>
          <button type="button" class="icon-button" aria-label="Settings" title="Settings" onClick={() => props.onSettings()}><Icon name="settings" /></button>
        </Show>
      </header>
      <p class="connection" role="status"><Show when={chat.connectionWords()}>{(words) => <span>{words()}</span>}</Show></p>
      <Search text={text()} onText={setText} ref={(field) => props.onSearchField(field)} />
      <Show when={text() === ""}>
        <Show when={isArchive()} fallback={<InboxList archived={false} />}><InboxList archived={true} /></Show>
        <Show when={!isArchive() && archivedCount() > 0}>
          <button type="button" class="archive-button" onClick={() => setArchive(true)}>
            <Icon name="archive" /><span>Archive</span>
            <Show when={archivedUnread() > 0} fallback={<span class="count">{archivedCount()}</span>}>
              <span class="badge quiet"><span aria-hidden="true">{archivedUnread()}</span><span class="visually-hidden">{archivedUnread()} with unread messages</span></span>
            </Show>
            <Icon name="chevron" />
          </button>
        </Show>
      </Show>
    </nav>
  );
}
