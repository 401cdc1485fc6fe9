// The list of conversations, live and virtual: thousands of lines cost what is on the screen.

import type { InboxEntry } from "@bluetick/client";
import { Show, createEffect, createMemo, createSignal, on, onCleanup } from "solid-js";
import { Virtualizer, type VirtualizerHandle } from "virtua/solid";
import { useChat } from "../state/chat.ts";
import { InboxRow, type InboxLine } from "./InboxRow.tsx";
import { RowMenu } from "./later.ts";
import type { OpenMenu } from "./RowMenu.tsx";

const ROW_PX = 68;
const FETCH_WITHIN_PX = 1_000;

interface LiveLine extends InboxLine {
  setEntry(entry: InboxEntry): void;
}

/** Lines keep their elements while what they tell changes. */
function createLines(entries: () => readonly InboxEntry[]) {
  let byId = new Map<string, LiveLine>();
  return createMemo(() => {
    const next = new Map<string, LiveLine>();
    for (const entry of entries()) {
      const { conversation_id: id } = entry;
      let line = byId.get(id);
      if (line) line.setEntry(entry);
      else {
        const [current, setEntry] = createSignal(entry);
        line = { id, entry: current, setEntry };
      }
      next.set(id, line);
    }
    byId = next;
    return [...next.values()];
  });
}

export function InboxList(props: { archived: boolean }) {
  const chat = useChat();
  let scroller!: HTMLDivElement;
  let list: VirtualizerHandle | undefined;
  const lines = createLines(() => chat.entries(props.archived));
  const [menu, setMenu] = createSignal<OpenMenu | null>(null);
  const [focusedId, setFocusedId] = createSignal("");

  /** One line is in the tab order: the one last used, else the open one, else the first. */
  const tabStop = createMemo(() => {
    const ids = new Set(lines().map(({ id }) => id));
    return [focusedId(), chat.openId()].find((id) => ids.has(id)) ?? lines()[0]?.id;
  });

  function onScroll(): void {
    if (chat.hasMore(props.archived) && scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < FETCH_WITHIN_PX) {
      // What cannot be had now is asked for again at the next scroll.
      chat.client.inbox.loadMore(props.archived).catch(() => undefined);
    }
  }

  // A list that does not fill its place cannot be scrolled to ask for more.
  createEffect(() => {
    lines();
    if (chat.hasMore(props.archived)) requestAnimationFrame(onScroll);
  });

  const linkOf = (id: string) => scroller.querySelector<HTMLElement>(`[data-conversation-id="${id}"] a`);

  // The line with the keyboard stays on the page wherever it goes, and is given back what it loses by moving.
  const keptIndexes = createMemo(() => {
    const index = focusedId() === "" ? -1 : lines().findIndex(({ id }) => id === focusedId());
    return index < 0 ? undefined : [index];
  });
  createEffect(() => {
    lines();
    const id = focusedId();
    if (id && document.activeElement === document.body) linkOf(id)?.focus({ preventScroll: true });
  });
  const onPointer = (event: PointerEvent) => scroller.contains(event.target as Node) || setFocusedId("");
  document.addEventListener("pointerdown", onPointer);
  onCleanup(() => document.removeEventListener("pointerdown", onPointer));

  // Whoever leaves a conversation comes back to its line.
  createEffect(
    on(chat.openId, (id, before) => {
      if (id !== "" || !before) return;
      const isLost = () => !document.activeElement || document.activeElement === document.body;
      queueMicrotask(() => isLost() && linkOf(before)?.focus({ preventScroll: true }));
    }),
  );

  async function focusLine(index: number): Promise<void> {
    const line = lines()[index];
    if (!line) return;
    setFocusedId(line.id);
    list?.scrollToIndex(index, { align: "nearest" });
    for (let frame = 0; frame < 5 && !linkOf(line.id); frame++) await new Promise(requestAnimationFrame);
    linkOf(line.id)?.focus({ preventScroll: true });
  }

  function onKeyDown(event: KeyboardEvent): void {
    const id = (event.target as HTMLElement).closest<HTMLElement>("[data-conversation-id]")?.dataset.conversationId;
    const at = lines().findIndex((line) => line.id === id);
    if (at < 0) return;
    if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) {
      const line = lines()[at];
      const anchor = linkOf(line?.id ?? "");
      if (line && anchor) setMenu({ line, anchor });
    } else if (event.altKey) return;
    else if (event.key === "ArrowDown") void focusLine(Math.min(at + 1, lines().length - 1));
    else if (event.key === "ArrowUp") void focusLine(Math.max(at - 1, 0));
    else if (event.key === "Home") void focusLine(0);
    else if (event.key === "End") void focusLine(lines().length - 1);
    else if (event.key === "ArrowRight") (event.target as HTMLElement).closest("[data-conversation-id]")?.querySelector<HTMLElement>(".row-menu-button")?.focus();
    else if (event.key === "ArrowLeft" && id) linkOf(id)?.focus();
    else return;
    event.preventDefault();
  }

  return (
    <div class="inbox" ref={scroller} on:scroll={{ handleEvent: onScroll, passive: true }} onKeyDown={onKeyDown} onFocusIn={(event) => setFocusedId((event.target as HTMLElement).closest<HTMLElement>("[data-conversation-id]")?.dataset.conversationId ?? "")}>
      <Show when={lines().length > 0} fallback={<EmptyInbox archived={props.archived} />}>
        <Virtualizer ref={(handle) => (list = handle)} as="ul" item="li" data={lines()} itemSize={ROW_PX} bufferSize={400} keepMounted={keptIndexes()} scrollRef={scroller}>
          {(line) => <InboxRow line={line} isTabStop={tabStop() === line.id} onMenu={(chosen, anchor) => setMenu({ line: chosen, anchor })} />}
        </Virtualizer>
      </Show>
      <Show when={menu()} keyed>{(open) => <RowMenu menu={open} onClose={() => setMenu(null)} />}</Show>
    </div>
  );
}

function EmptyInbox(props: { archived: boolean }) {
  const chat = useChat();
  return (
    <div class="empty">
      <Show when={!chat.hasMore(props.archived)} fallback={<p role="status">{chat.connectionWords() ? "" : "Loading…"}</p>}>
        <Show when={!props.archived} fallback={<p>No archived chats.</p>}>
          <strong>No chats yet</strong>
          <p>Search for someone above to start a chat, or create a group.</p>
        </Show>
      </Show>
    </div>
  );
}
