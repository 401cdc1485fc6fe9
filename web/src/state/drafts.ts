// The draft of one conversation, shared by all tabs of this browser: a tab stores only what was changed in it, follows
// what the others do, and lets go of a draft that was sent when the message is safe.

import { onCleanup } from "solid-js";
import { draftKey, loadDraft, loadSentMark, saveDraft, saveSentMark } from "../storage.ts";
import { useChat } from "./chat.ts";

const SAVE_AFTER_MS = 300;
/** By then the outbox has stored what was sent. */
const SAFE_AFTER_MS = 1_000;

export interface DraftField {
  read(): string;
  show(text: string): void;
}

export function createDraft(conversation: string, field: DraftField) {
  const chat = useChat();
  const stored = (text: string) => (text.trim() === "" ? "" : text);
  /** What this tab last saw stored. */
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

  function forget(): void {
    clearTimeout(clearing);
    clearing = undefined;
    known = "";
    saveSentMark(chat.me, conversation, "");
    saveDraft(chat.me, conversation, "");
  }

  /** It was sent just before the page went away: the draft goes when the message is seen to be there. */
  function dropIfSent(): void {
    const sent = loadSentMark(chat.me, conversation);
    if (sent === "" || clearing !== undefined) return;
    if (!chat.client.conversation(conversation).messages.some(({ message_id }) => message_id === sent)) return;
    if (stored(field.read()) === known) field.show("");
    forget();
  }

  function onStorage(event: StorageEvent): void {
    if (event.key !== draftKey(chat.me, conversation)) return;
    const isUnchanged = stored(field.read()) === known;
    known = event.newValue ?? "";
    if (isUnchanged) field.show(known);
  }

  addEventListener("storage", onStorage);
  addEventListener("pagehide", save);
  chat.listen(conversation, dropIfSent);
  onCleanup(() => {
    save();
    if (clearing !== undefined) forget();
    removeEventListener("storage", onStorage);
    removeEventListener("pagehide", save);
  });

  return {
    load(): void {
      known = loadDraft(chat.me, conversation);
      field.show(known);
      dropIfSent();
    },
    changed(): void {
      saving ??= setTimeout(save, SAVE_AFTER_MS);
    },
    /** The field is empty now; what was in it is on its way. */
    sent(messageId: string): void {
      clearTimeout(saving);
      saving = undefined;
      saveSentMark(chat.me, conversation, messageId);
      clearTimeout(clearing);
      clearing = setTimeout(forget, SAFE_AFTER_MS);
    },
  };
}
