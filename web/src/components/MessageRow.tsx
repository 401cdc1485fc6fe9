// One message with what stands around it: the day that begins, the unread divider, who speaks. Everything that people
// wrote becomes text nodes, so a message can never become markup.

import { For, Match, Show, Switch, createMemo } from "solid-js";
import { useChat } from "../state/chat.ts";
import type { Row, TickState } from "../state/rows.ts";
import { isEmojiOnly, splitLinks } from "../text/links.ts";
import { clockTime, dayName, fullTime } from "../text/time.ts";
import { hueOf, noticeText } from "../text/words.ts";
import { Tick } from "./Tick.tsx";

interface MessageRowProps {
  row: Row;
  conversationId: string;
  isGroup: boolean;
  onShowReaders(seq: number): void;
}

export function MessageRow(props: MessageRowProps) {
  const message = () => props.row.message();
  const around = () => props.row.around();
  return (
    <>
      <Show when={around().day}>{(day) => <div class="day"><span>{dayName(day())}</span></div>}</Show>
      <Show when={around().isUnreadStart}>
        <div class="unread-divider" role="separator" aria-label="New messages"><span>New messages</span></div>
      </Show>
      <Show when={message().content_type === "system"} fallback={<Bubble {...props} />}>
        <Notice row={props.row} />
      </Show>
    </>
  );
}

function Notice(props: { row: Row }) {
  const chat = useChat();
  return (
    <div class="notice" data-seq={props.row.message().seq} data-message-id={props.row.message().message_id}>
      <span dir="auto">{noticeText(props.row.message(), chat.me, chat.nameOf)}</span>
    </div>
  );
}

function Bubble(props: MessageRowProps) {
  const chat = useChat();
  const message = () => props.row.message();
  const around = () => props.row.around();
  const isOwn = () => message().sender_id === chat.me;
  const speaker = () => (isOwn() ? "You" : chat.nameOf(message().sender_id));
  const state = createMemo((): TickState => {
    if (!isOwn() || message().state !== "sent") return message().state;
    return chat.conversation(props.conversationId).tick(message());
  });
  return (
    <div
      class="message"
      classList={{ own: isOwn(), first: around().isFirst, last: around().isLast, waiting: message().seq === null }}
      data-seq={message().seq ?? undefined}
      data-message-id={message().message_id}
      data-state={state()}
    >
      <Show when={props.isGroup && !isOwn() && around().isFirst} fallback={<span class="visually-hidden">{speaker()}: </span>}>
        <span class="sender" style={{ "--hue": hueOf(message().sender_id) }} dir="auto">{speaker()}</span>
      </Show>
      <div class="text" classList={{ emoji: isEmojiOnly(message().content) }} dir="auto">
        <Content text={message().content} />
        <span class="meta">
          <time dir="ltr" datetime={isoTime(message().timestamp)} title={fullTime(message().timestamp)}>{clockTime(message().timestamp)}</time>
          <Show when={isOwn()}>
            <Show when={props.isGroup && message().seq !== null} fallback={<Tick state={state()} />}>
              <button type="button" class="tick-button" title="Who has read it?" onClick={() => props.onShowReaders(message().seq ?? 0)}>
                <Tick state={state()} />
              </button>
            </Show>
          </Show>
        </span>
      </div>
      <Decisions {...props} />
    </div>
  );
}

/** What a person can do about a message that is not sent. */
function Decisions(props: MessageRowProps) {
  const chat = useChat();
  const message = () => props.row.message();
  const conversation = () => chat.client.conversation(props.conversationId);
  const cancel = () => {
    if (!conversation().cancel(message().message_id)) chat.tell("It may be sent already; the server decides.");
  };
  return (
    <Switch>
      <Match when={message().state === "failed"}>
        <div class="failure">
          <span>Not sent: {message().failure}</span>
          <button type="button" onClick={() => conversation().retry(message().message_id)}>Try again</button>
          <button type="button" onClick={cancel}>Discard</button>
        </div>
      </Match>
      <Match when={message().state === "queued" && chat.connectionState() !== "online"}>
        <div class="failure quiet">
          <button type="button" onClick={cancel}>Cancel sending</button>
        </div>
      </Match>
    </Switch>
  );
}

function Content(props: { text: string }) {
  const parts = createMemo(() => splitLinks(props.text));
  return (
    <span class="content">
      <For each={parts()}>
        {(part) => (
          <Show when={part.href} fallback={part.text}>
            <a href={part.href} target="_blank" rel="noopener noreferrer">{part.text}</a>
          </Show>
        )}
      </For>
    </span>
  );
}

const isoTime = (ms: number) => (Math.abs(ms) < 8e15 ? new Date(ms).toISOString() : undefined);
