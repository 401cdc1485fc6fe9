// One line of the list of conversations.

import { tickState, type InboxEntry } from "@bluetick/client";
import { Show, createMemo, type Accessor } from "solid-js";
import { useChat } from "../state/chat.ts";
import type { TickState } from "../state/rows.ts";
import { firstLine } from "../text/plain.ts";
import { moment } from "../text/time.ts";
import { countText, previewOf, titleOf, typingText } from "../text/words.ts";
import { Avatar } from "./Avatar.tsx";
import { Icon } from "./Icon.tsx";
import { Tick } from "./Tick.tsx";

export interface InboxLine {
  readonly id: string;
  readonly entry: Accessor<InboxEntry>;
}

interface InboxRowProps {
  line: InboxLine;
  isTabStop: boolean;
  onMenu(line: InboxLine, anchor: HTMLElement): void;
}

export function InboxRow(props: InboxRowProps) {
  const chat = useChat();
  const { id } = props.line;
  const entry = () => props.line.entry();
  const isGroup = () => entry().kind === "group";
  const title = () => titleOf(entry(), chat.me, chat.nameOf);
  const conversation = () => chat.conversation(id);
  const typing = createMemo(() => {
    const { typists } = conversation();
    return typists.length > 0 ? typingText(typists, isGroup(), chat.nameOf) : "";
  });
  // What waits here is the latest that one said, whatever the server has.
  const waiting = createMemo(() => conversation().waiting.last);
  const preview = createMemo(() => {
    const last = waiting();
    return last ? { by: "You", text: firstLine(last.content), isAbsent: false } : previewOf(entry(), chat.me, chat.nameOf);
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
      onContextMenu={(event) => { event.preventDefault(); props.onMenu(props.line, menuButton); }}
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
          <Show when={entry().last_message}><time>{moment(entry().last_at, chat.now())}</time></Show>
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
            <Show when={entry().pinned}><Icon name="pin" label="Pinned" /></Show>
            <Show when={entry().muted}><Icon name="mute" label="Muted" /></Show>
            <Show when={entry().unread > 0}>
              <span class="badge"><span aria-hidden="true">{countText(entry().unread)}</span><span class="visually-hidden">{entry().unread} unread</span></span>
            </Show>
          </span>
        </span>
      </a>
      <button ref={menuButton} type="button" class="icon-button row-menu-button" tabindex="-1" aria-haspopup="menu" aria-label={`Options for ${title()}`} onClick={(event) => props.onMenu(props.line, event.currentTarget)}>
        <Icon name="more" />
      </button>
    </div>
  );
}
