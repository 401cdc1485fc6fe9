// Whether the user can see new messages: the tab is visible, and the connection has delivered
// every missed message. Also whether a conversation has unread messages.

import type { Conversation } from "@bluetick/client";
import { createEffect, onCleanup, untrack } from "solid-js";
import { useChat } from "./chat.ts";

interface AbsenceHandlers {
  onLeave(): void;
  onReturn(): void;
}

/** Returns whether the user is away now. */
export function createAbsence({ onLeave, onReturn }: AbsenceHandlers): () => boolean {
  const chat = useChat();
  const { client } = chat;
  let isHidden = document.visibilityState !== "visible";
  let isCutOff = !client.connection.caughtUp;
  const isAway = () => isHidden || isCutOff;

  function update(facts: { isHidden?: boolean; isCutOff?: boolean }): void {
    const wasAway = isAway();
    ({ isHidden = isHidden, isCutOff = isCutOff } = facts);
    if (!wasAway && isAway()) onLeave();
    if (wasAway && !isAway()) onReturn();
  }

  // The client reports a lost connection at once. A loss shorter than a frame changes no signal.
  onCleanup(client.subscribe(({ connection }) => void (connection && !client.connection.caughtUp && update({ isCutOff: true }))));
  createEffect(() => void (chat.isCaughtUp() && untrack(() => update({ isCutOff: false }))));

  const onVisibility = () => update({ isHidden: document.visibilityState !== "visible" });
  document.addEventListener("visibilitychange", onVisibility);
  onCleanup(() => document.removeEventListener("visibilitychange", onVisibility));
  return isAway;
}

/**
 * Whether a conversation has unread messages. `unsure`: the server announced messages that are
 * still loading.
 */
export function unreadState({ entry, messages, window }: Conversation, me: string): "none" | "some" | "unsure" {
  if (!entry) return "none";
  if (entry.unread > 0) return "some";
  const { last_read_seq } = entry.my_status;
  const isUnread = messages.some(({ seq, sender_id, content_type }) => seq !== null && seq > last_read_seq && sender_id !== me && content_type !== "system");
  if (isUnread) return "some";
  return window.toSeq < entry.last_seq ? "unsure" : "none";
}
