// Where a message is written. The draft belongs to the conversation and outlives the visit.

import { createSignal, onCleanup, onMount } from "solid-js";
import { useChat } from "../state/chat.ts";
import { messageOf } from "../state/load.ts";
import { loadDraft, saveDraft } from "../storage.ts";
import { Icon } from "./Icon.tsx";

const SAVE_AFTER_MS = 300;

export function Composer(props: { id: string; title: string; onSent(): void }) {
  const chat = useChat();
  const { id } = props;
  let field!: HTMLTextAreaElement;
  const [isEmpty, setEmpty] = createSignal(true);
  let saving: ReturnType<typeof setTimeout> | undefined;

  const save = () => {
    clearTimeout(saving);
    saving = undefined;
    saveDraft(chat.me, id, field.value.trim() === "" ? "" : field.value);
  };

  function fit(): void {
    setEmpty(field.value.trim() === "");
    if (CSS.supports("field-sizing", "content")) return;
    field.style.height = "auto";
    field.style.height = `${field.scrollHeight}px`;
  }

  function onInput(): void {
    fit();
    if (!isEmpty()) chat.client.conversation(id).typing();
    saving ??= setTimeout(save, SAVE_AFTER_MS);
  }

  function send(): void {
    const content = field.value.trim();
    field.focus();
    if (content === "") return;
    try {
      chat.client.conversation(id).send(content);
    } catch (failure) {
      // Not even the outbox took it: what was written stays.
      return chat.tell(messageOf(failure));
    }
    field.value = "";
    fit();
    save();
    props.onSent();
  }

  function onKeyDown(event: KeyboardEvent): void {
    // While an input method composes, Enter chooses a word.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    send();
  }

  onMount(() => {
    field.value = loadDraft(chat.me, id);
    fit();
    // On a phone the keyboard would cover what one came to read.
    if (matchMedia("(pointer: fine)").matches) field.focus({ preventScroll: true });
    addEventListener("pagehide", save);
  });
  onCleanup(() => {
    if (saving) save();
    removeEventListener("pagehide", save);
  });

  return (
    <form class="composer" onSubmit={(event) => { event.preventDefault(); send(); }}>
      <textarea
        ref={field}
        rows="1"
        dir="auto"
        placeholder="Write a message"
        aria-label={`Message to ${props.title}`}
        aria-keyshortcuts="Enter"
        enterkeyhint="send"
        onInput={onInput}
        onKeyDown={onKeyDown}
      />
      <button type="submit" class="send" aria-label="Send" disabled={isEmpty()}><Icon name="send" /></button>
    </form>
  );
}
