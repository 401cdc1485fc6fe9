// The menu of one chat in the list: pin, mute, archive.

import { For, onMount } from "solid-js";
import { t } from "../i18n/index.ts";
import { useChat } from "../state/chat.ts";
import { messageOf } from "../state/load.ts";
import type { InboxItem } from "./InboxRow.tsx";

export interface OpenMenu {
  item: InboxItem;
  anchor: HTMLElement;
}

export function RowMenu(props: { menu: OpenMenu; onClose(): void }) {
  const chat = useChat();
  let box!: HTMLDivElement;
  const entry = () => props.menu.item.entry();
  const choices = () => [
    { label: t(entry().pinned ? "unpin" : "pin"), change: { pinned: !entry().pinned } },
    { label: t(entry().muted ? "unmute" : "mute"), change: { muted: !entry().muted } },
    { label: t(entry().archived ? "unarchive" : "archive"), change: { archived: !entry().archived } },
  ];

  async function choose(change: object): Promise<void> {
    box.hidePopover();
    try {
      await chat.client.conversation(props.menu.item.id).settings(change);
    } catch (failure) {
      chat.showToast(messageOf(failure));
    }
  }

  function onKeyDown(event: KeyboardEvent): void {
    const items = [...box.querySelectorAll("button")];
    const at = items.findIndex((item) => item === document.activeElement);
    const moves: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 };
    const to = moves[event.key];
    if (event.key === "Escape") {
      // Closes the menu only; the conversation stays open.
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
    const anchor = props.menu.anchor.getBoundingClientRect();
    const { width, height } = box.getBoundingClientRect();
    // The menu ends where the anchor ends, in the direction of the language.
    const left = document.dir === "rtl" ? anchor.left : anchor.right - width;
    box.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
    box.style.top = `${Math.max(8, anchor.bottom + height + 8 > innerHeight ? anchor.top - height : anchor.bottom)}px`;
    box.querySelector("button")?.focus();
  });

  return (
    <div
      ref={box}
      class="menu"
      popover="auto"
      role="menu"
      aria-label={t("chatOptions")}
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
