// Whether the server has spoken about a conversation since the page knows of it. What this browser remembers may be old:
// until then nobody can say what is unread, or that there is nothing.

import { createEffect, createSignal, onCleanup, untrack, type Accessor } from "solid-js";
import { useChat } from "./chat.ts";

/** `unknown`: there is no such conversation, or one is not in it. */
export type Heard = "no" | "yes" | "unknown";

/** Of larger groups it would be dear to ask; the list of conversations tells soon enough. */
const ASK_MEMBERS_LIMIT = 1_000;
const AGAIN_MS = 3_000;

export function createHeard(id: string): Accessor<Heard> {
  const chat = useChat();
  const conversation = chat.client.conversation(id);
  const [heard, setHeard] = createSignal<Heard>(untrack(() => chat.isCaughtUp() && conversation.entry) ? "yes" : "no");
  let isAsking = false;
  let timer: ReturnType<typeof setTimeout> | undefined;

  async function ask(): Promise<void> {
    if (isAsking || heard() === "yes") return;
    if ((conversation.entry?.member_count ?? 0) > ASK_MEMBERS_LIMIT) return void setHeard("yes");
    isAsking = true;
    try {
      await conversation.members();
      setHeard("yes");
    } catch (failure) {
      const { code = "", status = 0 } = failure as { code?: string; status?: number };
      if (code === "conversation_not_found" || status === 400 || status === 404) setHeard("unknown");
      else timer = setTimeout(() => untrack(chat.isCaughtUp) && void ask(), AGAIN_MS);
    }
    isAsking = false;
  }

  createEffect(() => void (chat.isCaughtUp() && untrack(() => void (heard() === "no" && ask()))));
  // Whoever is added to it later finds it.
  createEffect(() => void (chat.conversation(id).entry && heard() === "unknown" && setHeard("yes")));
  onCleanup(() => clearTimeout(timer));
  return heard;
}
