// The open conversation: its header, its messages, the composer and the details panel.

import { Show, createEffect, createMemo, createSignal, on } from "solid-js";
import { t } from "../i18n/index.ts";
import { useChat } from "../state/chat.ts";
import { createConfirmation } from "../state/confirmation.ts";
import { memberCount, presenceText, titleOf, typingText } from "../text/texts.ts";
import { Avatar } from "./Avatar.tsx";
import { Composer } from "./Composer.tsx";
import type { DetailsSubject } from "./Details.tsx";
import { Details } from "./lazy.ts";
import { Icon } from "./Icon.tsx";
import { MessageList } from "./MessageList.tsx";

export function ConversationPane(props: { id: string }) {
  const chat = useChat();
  const { id } = props;
  const conversation = () => chat.conversation(id);
  const entry = createMemo(() => conversation().entry);
  const isGroup = () => id.startsWith("g");
  const title = () => titleOf(entry(), chat.me, chat.nameOf) || t(isGroup() ? "group" : "chat");
  const [subject, setSubject] = createSignal<DetailsSubject | null>(null);
  const confirmation = createConfirmation(id);
  let jumpToSent = () => {};
  let infoButton!: HTMLButtonElement;

  const presence = () => {
    const peer = entry()?.peer;
    return peer && peer !== chat.me ? conversation().presence(peer) : undefined;
  };

  const typing = createMemo(() => {
    const { typists } = conversation();
    return typists.length > 0 ? typingText(typists, isGroup(), chat.nameOf) : "";
  });

  const subtitle = () => typing() || (isGroup() ? (entry() ? memberCount(entry()?.member_count ?? 0) : "") : presenceText(presence(), chat.now()));

  function close(): void {
    setSubject(null);
    infoButton.focus();
  }

  function onKeyDown(event: KeyboardEvent): void {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
    event.preventDefault();
    event.stopPropagation();
    if (subject()) close();
    else chat.go("");
  }

  // On touch screens, focus moves to the heading, so that screen readers announce the conversation.
  let heading!: HTMLHeadingElement;
  createEffect(on(() => id, () => matchMedia("(pointer: coarse)").matches && heading.focus()));

  return (
    <main class="pane conversation" classList={{ "with-details": subject() !== null }} aria-label={title()} onKeyDown={onKeyDown}>
      <div class="thread">
        <header class="bar">
          <button type="button" class="icon-button back" aria-label={t("backToChats")} onClick={() => chat.go("")}><Icon name="back" /></button>
          <Avatar id={entry()?.peer ?? id} name={title()} isGroup={isGroup()} online={presence()?.online} />
          <div class="names" onClick={() => setSubject({ kind: "conversation" })}>
            <h1 ref={heading} tabindex="-1"><bdi>{title()}</bdi></h1>
            <span class="subtitle" classList={{ typing: typing() !== "" }}>{subtitle()}</span>
          </div>
          <button type="button" class="icon-button" ref={infoButton} aria-label={t("info")} aria-expanded={subject() !== null} onClick={() => setSubject(subject() ? null : { kind: "conversation" })}>
            <Icon name="info" />
          </button>
        </header>
        <Show when={confirmation() !== "unknown"} fallback={<p class="empty" role="status">{t("chatNotFound")}</p>}>
          <MessageList id={id} isGroup={isGroup()} isConfirmed={confirmation() === "confirmed"} onShowReaders={(seq) => setSubject({ kind: "message", seq })} onReady={(jump) => (jumpToSent = jump)} />
          <Composer id={id} title={title()} onSent={() => jumpToSent()} />
        </Show>
      </div>
      <Show when={subject()}>{(shown) => <Details id={id} subject={shown()} onClose={close} />}</Show>
    </main>
  );
}
