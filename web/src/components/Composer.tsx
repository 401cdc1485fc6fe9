// Where a message is written. The draft belongs to the conversation and outlives the visit.

import { createSignal, onMount } from "solid-js";
import { useChat } from "../state/chat.ts";
import { messageOf } from "../state/load.ts";
import { createDraft } from "../state/drafts.ts";
import { Icon } from "./Icon.tsx";

export function Composer(props: { id: string; title: string; onSent(): void }) {
  const chat = useChat();
  const { id } = props;
  let field!: HTMLTextAreaElement;
  const [isEmpty, setEmpty] = createSignal(true);
  // Where the keys are on the screen, Enter is the only way to a new line.
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
      // Not even the outbox took it: what was written stays.
      return chat.tell(messageOf(failure));
    }
    field.value = "";
    fit();
    props.onSent();
  }

  function onKeyDown(event: KeyboardEvent): void {
    // While an input method composes, Enter chooses a word.
    if (event.key !== "Enter" || event.shiftKey || isTouch || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    send();
  }

  onMount(() => {
    draft.load();
    // On a phone the keyboard would cover what one came to read.
    if (matchMedia("(pointer: fine)").matches) field.focus({ preventScroll: true });
  });

  return (
    <form class="composer" onSubmit={(event) => { event.preventDefault(); send(); }}>
      <textarea
        ref={field}
        rows="1"
        dir="auto"
        placeholder="Type a message"
        aria-label={`Message to ${props.title}`}
        aria-keyshortcuts={isTouch ? undefined : "Enter"}
        enterkeyhint={isTouch ? "enter" : "send"}
        onInput={onInput}
        onKeyDown={onKeyDown}
      />
      <button type="submit" class="send" aria-label="Send" disabled={isEmpty()}><Icon name="send" /></button>
    </form>
  );
}
