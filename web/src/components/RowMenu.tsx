// The menu of one line of the list: pin, mute, archive.

import { For, onMount } from "solid-js";
import { useChat } from "../state/chat.ts";
import { messageOf } from "../state/load.ts";
import type { InboxLine } from "./InboxRow.tsx";

export interface OpenMenu {
  line: InboxLine;
  anchor: HTMLElement;
}

export function RowMenu(props: { menu: OpenMenu; onClose(): void }) {
  const chat = useChat();
  let box!: HTMLDivElement;
  const entry = () => props.menu.line.entry();
  const choices = () => [
    { label: entry().pinned ? "Unpin" : "Pin", change: { pinned: !entry().pinned } },
    { label: entry().muted ? "Unmute notifications" : "Mute notifications", change: { muted: !entry().muted } },
    { label: entry().archived ? "Unarchive" : "Archive", change: { archived: !entry().archived } },
  ];

  async function choose(change: object): Promise<void> {
    box.hidePopover();
    try {
      await chat.client.conversation(props.menu.line.id).settings(change);
    } catch (failure) {
      chat.tell(messageOf(failure));
    }
  }

  function onKeyDown(event: KeyboardEvent): void {
    const items = [...box.querySelectorAll("button")];
    const at = items.findIndex((item) => item === document.activeElement);
    const moves: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 };
    const to = moves[event.key];
    if (event.key === "Escape") {
      // The menu alone; the conversation stays open.
      event.preventDefault();
      event.stopPropagation();
      return box.hidePopover();
    }
    if (to === undefined) {
      if (event.key === "Tab") box.hidePopover();
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    items.at(to % items.length)?.focus();
  }

  onMount(() => {
    box.showPopover();
    const near = props.menu.anchor.getBoundingClientRect();
    const { width, height } = box.getBoundingClientRect();
    box.style.left = `${Math.max(8, Math.min(near.right - width, innerWidth - width - 8))}px`;
    box.style.top = `${Math.max(8, near.bottom + height + 8 > innerHeight ? near.top - height : near.bottom)}px`;
    box.querySelector("button")?.focus();
  });

  return (
    <div
      ref={box}
      class="menu"
      popover="auto"
      role="menu"
      aria-label="Chat options"
      onKeyDown={onKeyDown}
      onToggle={(event) => {
        if ((event as ToggleEvent).newState !== "closed") return;
        const row = props.menu.anchor.closest("[data-conversation-id]");
        row?.querySelector<HTMLElement>("a")?.focus({ preventScroll: true });
        props.onClose();
      }}
    >
      <For each={choices()}>{({ label, change }) => <button type="button" role="menuitem" onClick={() => void choose(change)}>{label}</button>}</For>
    </div>
  );
}
