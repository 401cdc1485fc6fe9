// Whether the server has confirmed a conversation since the page opened it. Cached data may be old:
// until the confirmation, the page does not know what is unread, or whether the conversation
// exists.

import { createEffect, createSignal, onCleanup, untrack, type Accessor } from "solid-js";
import { useChat } from "./chat.ts";

/** `unknown`: the conversation does not exist, or the user is not a member. */
export type Confirmation = "pending" | "confirmed" | "unknown";

/** The largest group whose members are requested. For larger ones, the chat list confirms. */
const REQUEST_MEMBERS_LIMIT = 1_000;
/** How long a failed request waits for the next attempt. */
const RETRY_MS = 3_000;

export function createConfirmation(id: string): Accessor<Confirmation> {
  const chat = useChat();
  const conversation = chat.client.conversation(id);
  const [confirmation, setConfirmation] = createSignal<Confirmation>(untrack(() => chat.isCaughtUp() && conversation.entry) ? "confirmed" : "pending");
  let isRequesting = false;
  let timer: ReturnType<typeof setTimeout> | undefined;

  async function request(): Promise<void> {
    if (isRequesting || confirmation() === "confirmed") return;
    if ((conversation.entry?.member_count ?? 0) > REQUEST_MEMBERS_LIMIT) return void setConfirmation("confirmed");
    isRequesting = true;
    try {
      await conversation.members();
      setConfirmation("confirmed");
    } catch (failure) {
      const { code = "", status = 0 } = failure as { code?: string; status?: number };
      if (code === "conversation_not_found" || status === 400 || status === 404) setConfirmation("unknown");
      else timer = setTimeout(() => untrack(chat.isCaughtUp) && void request(), RETRY_MS);
    }
    isRequesting = false;
  }

  createEffect(() => void (chat.isCaughtUp() && untrack(() => void (confirmation() === "pending" && request()))));
  // A user who is added to the group later can open it.
  createEffect(() => void (chat.conversation(id).entry && confirmation() === "unknown" && setConfirmation("confirmed")));
  onCleanup(() => clearTimeout(timer));
  return confirmation;
}
