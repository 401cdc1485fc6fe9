// The draft of one conversation, shared by all tabs of this browser. A tab stores only its own
// changes, follows the changes of other tabs, and deletes a sent draft when the outbox has stored
// the message.

import { onCleanup } from "solid-js";
import { draftKey, loadDraft, loadSentMark, saveDraft, saveSentMark } from "../storage.ts";
import { useChat } from "./chat.ts";

/** How long a change waits before it is stored. A crash loses what was typed in this time. */
const SAVE_AFTER_MS = 300;
/** The time after which the outbox has stored a sent message. */
const STORED_AFTER_MS = 1_000;

export interface DraftField {
  read(): string;
  show(text: string): void;
}

export function createDraft(conversation: string, field: DraftField) {
  const chat = useChat();
  const stored = (text: string) => (text.trim() === "" ? "" : text);
  /** The stored draft as this tab last saw it. */
  let known = "";
  let saving: ReturnType<typeof setTimeout> | undefined;
  let clearing: ReturnType<typeof setTimeout> | undefined;

  function save(): void {
    clearTimeout(saving);
    saving = undefined;
    const text = stored(field.read());
    if (text === known || (clearing !== undefined && text === "")) return;
    clearTimeout(clearing);
    clearing = undefined;
    known = text;
    saveSentMark(chat.me, conversation, "");
    saveDraft(chat.me, conversation, text);
  }

  function deleteDraft(): void {
    clearTimeout(clearing);
    clearing = undefined;
    known = "";
    saveSentMark(chat.me, conversation, "");
    saveDraft(chat.me, conversation, "");
  }

  /**
   * Deletes a draft that was sent just before the page was closed, once the conversation has the
   * message.
   */
  function deleteIfSent(): void {
    const sent = loadSentMark(chat.me, conversation);
    if (sent === "" || clearing !== undefined) return;
    if (!chat.client.conversation(conversation).messages.some(({ message_id }) => message_id === sent)) return;
    if (stored(field.read()) === known) field.show("");
    deleteDraft();
  }

  function onStorage(event: StorageEvent): void {
    if (event.key !== draftKey(chat.me, conversation)) return;
    const isUnchanged = stored(field.read()) === known;
    known = event.newValue ?? "";
    if (isUnchanged) field.show(known);
  }

  addEventListener("storage", onStorage);
  addEventListener("pagehide", save);
  chat.listen(conversation, deleteIfSent);
  onCleanup(() => {
    save();
    if (clearing !== undefined) deleteDraft();
    removeEventListener("storage", onStorage);
    removeEventListener("pagehide", save);
  });

  return {
    load(): void {
      known = loadDraft(chat.me, conversation);
      field.show(known);
      deleteIfSent();
    },
    changed(): void {
      saving ??= setTimeout(save, SAVE_AFTER_MS);
    },
    /** The text was sent, and the field is empty. */
    sent(messageId: string): void {
      clearTimeout(saving);
      saving = undefined;
      saveSentMark(chat.me, conversation, messageId);
      clearTimeout(clearing);
      clearing = setTimeout(deleteDraft, STORED_AFTER_MS);
    },
  };
}
