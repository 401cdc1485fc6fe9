// The composer: the text field and the send button. The browser stores the draft of each
// conversation.

import { createSignal, onMount } from "solid-js";
import { t } from "../i18n/index.ts";
import { useChat } from "../state/chat.ts";
import { messageOf } from "../state/load.ts";
import { createDraft } from "../state/drafts.ts";
import { Icon } from "./Icon.tsx";

export function Composer(props: { id: string; title: string; onSent(): void }) {
  const chat = useChat();
  const { id } = props;
  let field!: HTMLTextAreaElement;
  const [isEmpty, setEmpty] = createSignal(true);
  // On a touch keyboard, Enter is the only way to start a new line.
  const isTouch = matchMedia("(pointer: coarse)").matches;
  const draft = createDraft(id, {
    read: () => field.value,
    show: (text) => {
      field.value = text;
      fit();
    },
  });

  function fit(): void {
    setEmpty(field.value.trim() === "");
    if (CSS.supports("field-sizing", "content")) return;
    field.style.height = "auto";
    field.style.height = `${field.scrollHeight}px`;
  }

  function onInput(): void {
    fit();
    if (!isEmpty()) chat.client.conversation(id).typing();
    draft.changed();
  }

  function send(): void {
    const content = field.value.trim();
    field.focus();
    if (content === "") return;
    try {
      draft.sent(chat.client.conversation(id).send(content).message_id);
    } catch (failure) {
      // The outbox is full: the text stays in the field.
      return chat.showToast(messageOf(failure));
    }
    field.value = "";
    fit();
    props.onSent();
  }

  function onKeyDown(event: KeyboardEvent): void {
    // While an input method is composing, Enter selects a word.
    if (event.key !== "Enter" || event.shiftKey || isTouch || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    send();
  }

  onMount(() => {
    draft.load();
    // On a phone, the keyboard would cover the messages.
    if (matchMedia("(pointer: fine)").matches) field.focus({ preventScroll: true });
  });

  return (
    <form class="composer" onSubmit={(event) => { event.preventDefault(); send(); }}>
      <textarea
        ref={field}
        rows="1"
        dir="auto"
        placeholder={t("typeMessage")}
        aria-label={t("messageTo", { name: props.title })}
        aria-keyshortcuts={isTouch ? undefined : "Enter"}
        enterkeyhint={isTouch ? "enter" : "send"}
        onInput={onInput}
        onKeyDown={onKeyDown}
      />
      <button type="submit" class="send" aria-label={t("send")} disabled={isEmpty()}><Icon name="send" /></button>
    </form>
  );
}
