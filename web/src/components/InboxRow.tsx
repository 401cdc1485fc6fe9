// One chat in the chat list.

import { tickState, type InboxEntry } from "@bluetick/client";
import { Show, createMemo, type Accessor } from "solid-js";
import { t } from "../i18n/index.ts";
import { useChat } from "../state/chat.ts";
import type { TickState } from "../state/rows.ts";
import { firstLine } from "../text/plain.ts";
import { shortTime } from "../text/time.ts";
import { countText, previewOf, titleOf, typingText } from "../text/texts.ts";
import { Avatar } from "./Avatar.tsx";
import { Icon } from "./Icon.tsx";
import { Tick } from "./Tick.tsx";

export interface InboxItem {
  readonly id: string;
  readonly entry: Accessor<InboxEntry>;
}

interface InboxRowProps {
  item: InboxItem;
  isTabStop: boolean;
  onMenu(item: InboxItem, anchor: HTMLElement): void;
}

export function InboxRow(props: InboxRowProps) {
  const chat = useChat();
  const { id } = props.item;
  const entry = () => props.item.entry();
  const isGroup = () => entry().kind === "group";
  const title = () => titleOf(entry(), chat.me, chat.nameOf);
  const conversation = () => chat.conversation(id);
  const typing = createMemo(() => {
    const { typists } = conversation();
    return typists.length > 0 ? typingText(typists, isGroup(), chat.nameOf) : "";
  });
  // A message in the outbox is newer than every message of the server.
  const waiting = createMemo(() => conversation().waiting.last);
  const preview = createMemo(() => {
    const last = waiting();
    return last ? { by: t("you"), text: firstLine(last.content), isAbsent: false } : previewOf(entry(), chat.me, chat.nameOf);
  });
  const ownTick = createMemo((): TickState | null => {
    if (waiting()) return conversation().waiting.failed > 0 ? "failed" : "queued";
    const last = entry().last_message;
    if (!last || last.sender_id !== chat.me || last.content_type === "system") return null;
    const { last_delivered_seq, last_read_seq } = entry().peer_status;
    return tickState(last.seq, last_delivered_seq, last_read_seq);
  });
  const isOnline = () => {
    const { peer } = entry();
    return peer !== null && peer !== chat.me && conversation().presence(peer)?.online === true;
  };
  let menuButton!: HTMLButtonElement;

  return (
    <div
      class="inbox-row"
      classList={{ current: chat.openId() === id, muted: entry().muted, unread: entry().unread > 0 }}
      data-conversation-id={id}
      onContextMenu={(event) => { event.preventDefault(); props.onMenu(props.item, menuButton); }}
    >
      <a
        href={`#${id}`}
        aria-current={chat.openId() === id ? "page" : undefined}
        tabindex={props.isTabStop ? 0 : -1}
        onClick={(event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          chat.go(id);
        }}
      >
        <Avatar id={entry().peer ?? id} name={title()} isGroup={isGroup()} online={isOnline()} />
        <span class="line">
          <span class="title"><bdi>{title()}</bdi></span>
          <Show when={entry().last_message}><time>{shortTime(entry().last_at, chat.now())}</time></Show>
        </span>
        <span class="line">
          <span class="preview" classList={{ typing: typing() !== "" }}>
            <Show when={typing() === ""} fallback={typing()}>
              <Show when={ownTick()}>{(tick) => <Tick state={tick()} />}</Show>
              <Show when={preview().by}><span class="by"><bdi>{preview().by}</bdi>: </span></Show>
              <bdi classList={{ absent: preview().isAbsent }}>{preview().text}</bdi>
            </Show>
          </span>
          <span class="marks">
            <Show when={entry().pinned}><Icon name="pin" label={t("pinned")} /></Show>
            <Show when={entry().muted}><Icon name="mute" label={t("muted")} /></Show>
            <Show when={entry().unread > 0}>
              <span class="badge"><span aria-hidden="true">{countText(entry().unread)}</span><span class="visually-hidden">{t("unread", { count: entry().unread })}</span></span>
            </Show>
          </span>
        </span>
      </a>
      <button ref={menuButton} type="button" class="icon-button row-menu-button" tabindex="-1" aria-haspopup="menu" aria-label={t("optionsFor", { name: title() })} onClick={(event) => props.onMenu(props.item, event.currentTarget)}>
        <Icon name="more" />
      </button>
    </div>
  );
}
