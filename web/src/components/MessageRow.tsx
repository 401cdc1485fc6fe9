// One message with what stands around it: the day that begins, the unread divider, who speaks. Everything that people
// wrote becomes text nodes, so a message can never become markup.

import { For, Match, Show, Switch, createMemo, createSignal, type JSX } from "solid-js";
import { useChat } from "../state/chat.ts";
import { reasonText } from "../state/load.ts";
import type { Row, TickState } from "../state/rows.ts";
import { parseFormat, type FormatNode } from "../text/format.ts";
import { isEmojiOnly } from "../text/links.ts";
import { cut, friendly } from "../text/plain.ts";
import { clockTime, dayName, fullTime } from "../text/time.ts";
import { absenceText, hueOf, noticeText } from "../text/words.ts";
import { Tick } from "./Tick.tsx";

const CLOCKS_DIFFER_MS = 60_000;
/** Of longer texts the beginning is shown, until somebody wants all of it. */
const TEXT_LIMIT = 8_000;
const TEXT_SHOWN = 4_000;

interface MessageRowProps {
  row: Row;
  conversationId: string;
  isGroup: boolean;
  onShowReaders(seq: number): void;
}

export function MessageRow(props: MessageRowProps) {
  const message = () => props.row.message();
  const around = () => props.row.around();
  const chat = useChat();
  return (
    <>
      <Show when={around().day}>{(day) => <div class="day"><span>{dayName(day(), chat.now())}</span></div>}</Show>
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
  // Clocks of senders may be wrong; the server's is the same for all.
  const time = () => message().received_at ?? message().timestamp;
  const fullWords = () => {
    const isOff = Math.abs(time() - message().timestamp) > CLOCKS_DIFFER_MS;
    return isOff ? `${fullTime(time())} (by the sender’s clock: ${fullTime(message().timestamp)})` : fullTime(time());
  };
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
        <span class="sender" style={{ "--hue": hueOf(message().sender_id) }}><bdi>{speaker()}</bdi></span>
      </Show>
      <div class="text" classList={{ emoji: isEmojiOnly(message().content) }} dir="auto">
        <Show when={absenceText(message())} fallback={<Content text={message().content} />}>{(words) => <span class="absent">{words()}</span>}</Show>
        <span class="meta">
          <time dir="ltr" datetime={isoTime(time())} title={fullWords()}>{clockTime(time())}</time>
          <Show when={isOwn()}>
            <Show when={props.isGroup && message().seq !== null} fallback={<Tick state={state()} />}>
              <button type="button" class="tick-button" title="Message info" onClick={() => props.onShowReaders(message().seq ?? 0)}>
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
    if (!conversation().cancel(message().message_id)) chat.tell("This message may already have been sent.");
  };
  return (
    <Switch>
      <Match when={message().state === "failed"}>
        <div class="failure">
          <span>Not sent: {friendly(message().failure ?? "")}</span>
          <button type="button" onClick={() => conversation().retry(message().message_id)}>Try again</button>
          <button type="button" onClick={cancel}>Discard</button>
        </div>
      </Match>
      <Match when={message().seq === null && (message().waitingFor || (message().state === "queued" && chat.connectionState() !== "online"))}>
        <div class="failure quiet">
          <Show when={message().waitingFor}>{(reason) => <span>Waiting: {reasonText(reason().code, reason().message)}</span>}</Show>
          <button type="button" onClick={cancel}>Cancel sending</button>
        </div>
      </Match>
    </Switch>
  );
}

function Content(props: { text: string }) {
  const [isWhole, setWhole] = createSignal(false);
  const isCut = () => props.text.length > TEXT_LIMIT && !isWhole();
  const nodes = createMemo(() => parseFormat(isCut() ? `${cut(props.text, TEXT_SHOWN)}…` : props.text));
  return (
    <span class="content">
      <For each={nodes()}>{drawNode}</For>
      <Show when={isCut()}> <button type="button" class="link" onClick={() => setWhole(true)}>Show all</button></Show>
    </span>
  );
}

function drawNode(node: FormatNode): JSX.Element {
  switch (node.kind) {
    case "text":
      return node.text;
    case "link":
      return <a href={node.href} target={node.href.startsWith("http") ? "_blank" : undefined} rel="noopener noreferrer">{node.text}</a>;
    case "code":
      return <code>{node.text}</code>;
    case "block":
      // Wide code scrolls sideways, which needs the keyboard too.
      return <code class="block" dir="ltr" tabindex="0">{node.text}</code>;
    case "bold":
      return <strong>{node.children.map(drawNode)}</strong>;
    case "italic":
      return <em>{node.children.map(drawNode)}</em>;
  }
}

const isoTime = (ms: number) => (Math.abs(ms) < 8e15 ? new Date(ms).toISOString() : undefined);
