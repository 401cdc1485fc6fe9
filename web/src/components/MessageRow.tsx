// One message, with the day separator, the unread divider and the sender around it. The text of
// users becomes text nodes, so a message can never become markup.

import { For, Match, Show, Switch, createMemo, createSignal, type JSX } from "solid-js";
import { t } from "../i18n/index.ts";
import { useChat } from "../state/chat.ts";
import { englishReason, reasonText } from "../state/load.ts";
import type { Row, TickState } from "../state/rows.ts";
import { parseFormat, type FormatNode } from "../text/format.ts";
import { isEmojiOnly } from "../text/links.ts";
import { truncate } from "../text/plain.ts";
import { clockTime, dayName, fullTime } from "../text/time.ts";
import { absenceText, hueOf, noticeText } from "../text/texts.ts";
import { Tick } from "./Tick.tsx";

/** A larger difference between the clocks of the sender and the server is shown. */
const CLOCKS_DIFFER_MS = 60_000;
/** Longer texts are truncated until the user asks for the whole text. In characters. */
const TEXT_LIMIT = 8_000;
/** The length of a truncated text, in characters. */
const TEXT_SHOWN = 4_000;

interface MessageRowProps {
  row: Row;
  conversationId: string;
  isGroup: boolean;
  onShowReaders(seq: number): void;
}

export function MessageRow(props: MessageRowProps) {
  const message = () => props.row.message();
  const layout = () => props.row.layout();
  const chat = useChat();
  return (
    <>
      <Show when={layout().day}>{(day) => <div class="day"><span>{dayName(day(), chat.now())}</span></div>}</Show>
      <Show when={layout().isUnreadStart}>
        <div class="unread-divider" role="separator" aria-label={t("newMessages")}><span>{t("newMessages")}</span></div>
      </Show>
      <Show when={message().content_type === "system"} fallback={<Bubble row={props.row} conversationId={props.conversationId} isGroup={props.isGroup} onShowReaders={props.onShowReaders} />}>
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
  const layout = () => props.row.layout();
  const isOwn = () => message().sender_id === chat.me;
  const sender = () => (isOwn() ? t("you") : chat.nameOf(message().sender_id));
  // The clock of a sender may be wrong. The clock of the server is the same for everyone.
  const time = () => message().received_at ?? message().timestamp;
  const fullTimeText = () => {
    const isOff = Math.abs(time() - message().timestamp) > CLOCKS_DIFFER_MS;
    return isOff ? t("senderClock", { time: fullTime(time()), senderTime: fullTime(message().timestamp) }) : fullTime(time());
  };
  const state = createMemo((): TickState => {
    if (!isOwn() || message().state !== "sent") return message().state;
    return chat.conversation(props.conversationId).tick(message());
  });
  return (
    <div
      class="message"
      classList={{ own: isOwn(), first: layout().isFirst, last: layout().isLast, waiting: message().seq === null }}
      data-seq={message().seq ?? undefined}
      data-message-id={message().message_id}
      data-state={state()}
    >
      <Show when={props.isGroup && !isOwn() && layout().isFirst} fallback={<span class="visually-hidden">{sender()}: </span>}>
        <span class="sender" style={{ "--hue": hueOf(message().sender_id) }}><bdi>{sender()}</bdi></span>
      </Show>
      <div class="text" classList={{ emoji: isEmojiOnly(message().content) }} dir="auto">
        <Show when={absenceText(message())} fallback={<Content text={message().content} />}>{(words) => <span class="absent">{words()}</span>}</Show>
        <span class="meta">
          <time dir="ltr" datetime={isoTime(time())} title={fullTimeText()}>{clockTime(time())}</time>
          <Show when={isOwn()}>
            <Show when={props.isGroup && message().seq !== null} fallback={<Tick state={state()} />}>
              <button type="button" class="tick-button" title={t("messageInfo")} onClick={() => props.onShowReaders(message().seq ?? 0)}>
                <Tick state={state()} />
              </button>
            </Show>
          </Show>
        </span>
      </div>
      <UnsentActions row={props.row} conversationId={props.conversationId} />
    </div>
  );
}

/** The actions of the user for a message that is not sent. */
function UnsentActions(props: Pick<MessageRowProps, "row" | "conversationId">) {
  const chat = useChat();
  const message = () => props.row.message();
  const conversation = () => chat.client.conversation(props.conversationId);
  const failureText = () => {
    const reason = englishReason(message().failure ?? "");
    return reason ? t("notSentBecause", { reason }) : t("notSent");
  };
  const cancel = () => {
    if (!conversation().cancel(message().message_id)) chat.showToast(t("maybeSent"));
  };
  return (
    <Switch>
      <Match when={message().state === "failed"}>
        <div class="failure">
          <span>{failureText()}</span>
          <button type="button" onClick={() => conversation().retry(message().message_id)}>{t("tryAgain")}</button>
          <button type="button" onClick={cancel}>{t("deleteMessage")}</button>
        </div>
      </Match>
      <Match when={message().seq === null && (message().waitingFor || (message().state === "queued" && chat.connectionState() !== "online"))}>
        <div class="failure quiet">
          <Show when={message().waitingFor}>{(reason) => <span>{t("waitingBecause", { reason: reasonText(reason().code, reason().message) })}</span>}</Show>
          <button type="button" onClick={cancel}>{t("cancelSending")}</button>
        </div>
      </Match>
    </Switch>
  );
}

function Content(props: { text: string }) {
  const [isWhole, setWhole] = createSignal(false);
  const isTruncated = () => props.text.length > TEXT_LIMIT && !isWhole();
  const nodes = createMemo(() => parseFormat(isTruncated() ? `${truncate(props.text, TEXT_SHOWN)}…` : props.text));
  return (
    <span class="content">
      <For each={nodes()}>{drawNode}</For>
      <Show when={isTruncated()}> <button type="button" class="link" onClick={() => setWhole(true)}>{t("readMore")}</button></Show>
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
      // Wide code scrolls sideways, so the keyboard must reach it.
      return <code class="block" dir="ltr" tabindex="0">{node.text}</code>;
    case "bold":
      return <strong>{node.children.map(drawNode)}</strong>;
    case "italic":
      return <em>{node.children.map(drawNode)}</em>;
  }
}

const isoTime = (ms: number) => (Math.abs(ms) < 8e15 ? new Date(ms).toISOString() : undefined);
