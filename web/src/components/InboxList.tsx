// The chat list: a virtual list, which draws only the rows near the screen.

import type { InboxEntry } from "@bluetick/client";
import { Show, createEffect, createMemo, createSignal, on, onCleanup } from "solid-js";
import { Virtualizer, type VirtualizerHandle } from "virtua/solid";
import { t } from "../i18n/index.ts";
import { useChat } from "../state/chat.ts";
import { InboxRow, type InboxItem } from "./InboxRow.tsx";
import { RowMenu } from "./lazy.ts";
import type { OpenMenu } from "./RowMenu.tsx";

/** The height of a row, as in inbox.css. Another value makes the list jump while it scrolls. */
const ROW_PX = 68;
/** Within this distance of the end, the next page is fetched. */
const FETCH_WITHIN_PX = 1_000;

interface LiveItem extends InboxItem {
  setEntry(entry: InboxEntry): void;
}

/** An item keeps its row element while its entry changes. */
function createItems(entries: () => readonly InboxEntry[]) {
  let byId = new Map<string, LiveItem>();
  return createMemo(() => {
    const next = new Map<string, LiveItem>();
    for (const entry of entries()) {
      const { conversation_id: id } = entry;
      let item = byId.get(id);
      if (item) item.setEntry(entry);
      else {
        const [current, setEntry] = createSignal(entry);
        item = { id, entry: current, setEntry };
      }
      next.set(id, item);
    }
    byId = next;
    return [...next.values()];
  });
}

export function InboxList(props: { archived: boolean }) {
  const chat = useChat();
  let scroller!: HTMLDivElement;
  let list: VirtualizerHandle | undefined;
  const items = createItems(() => chat.entries(props.archived));
  const [menu, setMenu] = createSignal<OpenMenu | null>(null);
  const [focusedId, setFocusedId] = createSignal("");

  /** One row is in the tab order: the last focused one, else the open one, else the first. */
  const tabStop = createMemo(() => {
    const ids = new Set(items().map(({ id }) => id));
    return [focusedId(), chat.openId()].find((id) => ids.has(id)) ?? items()[0]?.id;
  });

  function onScroll(): void {
    if (chat.hasMore(props.archived) && scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < FETCH_WITHIN_PX) {
      // After a failure, the next scroll event requests the page again.
      chat.client.inbox.loadMore(props.archived).catch(() => undefined);
    }
  }

  // A list shorter than the screen has no scroll events, so each change checks for more.
  createEffect(() => {
    items();
    if (chat.hasMore(props.archived)) requestAnimationFrame(onScroll);
  });

  const linkOf = (id: string) => scroller.querySelector<HTMLElement>(`[data-conversation-id="${id}"] a`);

  // The focused row stays in the document when it moves, and gets back the focus that it loses.
  const keptIndexes = createMemo(() => {
    const index = focusedId() === "" ? -1 : items().findIndex(({ id }) => id === focusedId());
    return index < 0 ? undefined : [index];
  });
  createEffect(() => {
    items();
    const id = focusedId();
    if (id && document.activeElement === document.body) linkOf(id)?.focus({ preventScroll: true });
  });
  const onPointer = (event: PointerEvent) => scroller.contains(event.target as Node) || setFocusedId("");
  document.addEventListener("pointerdown", onPointer);
  onCleanup(() => document.removeEventListener("pointerdown", onPointer));

  // After a conversation is closed, its row has the focus.
  createEffect(
    on(chat.openId, (id, before) => {
      if (id !== "" || !before) return;
      const isLost = () => !document.activeElement || document.activeElement === document.body;
      queueMicrotask(() => isLost() && linkOf(before)?.focus({ preventScroll: true }));
    }),
  );

  async function focusRow(index: number): Promise<void> {
    const item = items()[index];
    if (!item) return;
    setFocusedId(item.id);
    list?.scrollToIndex(index, { align: "nearest" });
    for (let frame = 0; frame < 5 && !linkOf(item.id); frame++) await new Promise(requestAnimationFrame);
    linkOf(item.id)?.focus({ preventScroll: true });
  }

  function onKeyDown(event: KeyboardEvent): void {
    const id = (event.target as HTMLElement).closest<HTMLElement>("[data-conversation-id]")?.dataset.conversationId;
    const at = items().findIndex((item) => item.id === id);
    if (at < 0) return;
    // The menu button is at the end of the row, which depends on the direction of the language.
    const [towardsMenu, awayFromMenu] = document.dir === "rtl" ? ["ArrowLeft", "ArrowRight"] : ["ArrowRight", "ArrowLeft"];
    if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) {
      const item = items()[at];
      const anchor = linkOf(item?.id ?? "");
      if (item && anchor) setMenu({ item, anchor });
    } else if (event.altKey) return;
    else if (event.key === "ArrowDown") void focusRow(Math.min(at + 1, items().length - 1));
    else if (event.key === "ArrowUp") void focusRow(Math.max(at - 1, 0));
    else if (event.key === "Home") void focusRow(0);
    else if (event.key === "End") void focusRow(items().length - 1);
    else if (event.key === towardsMenu) (event.target as HTMLElement).closest("[data-conversation-id]")?.querySelector<HTMLElement>(".row-menu-button")?.focus();
    else if (event.key === awayFromMenu && id) linkOf(id)?.focus();
    else return;
    event.preventDefault();
  }

  return (
    <div class="inbox" ref={scroller} on:scroll={{ handleEvent: onScroll, passive: true }} onKeyDown={onKeyDown} onFocusIn={(event) => setFocusedId((event.target as HTMLElement).closest<HTMLElement>("[data-conversation-id]")?.dataset.conversationId ?? "")}>
      <Show when={items().length > 0} fallback={<EmptyInbox archived={props.archived} />}>
        <Virtualizer ref={(handle) => (list = handle)} as="ul" item="li" data={items()} itemSize={ROW_PX} bufferSize={400} keepMounted={keptIndexes()} scrollRef={scroller}>
          {(item) => <InboxRow item={item} isTabStop={tabStop() === item.id} onMenu={(chosen, anchor) => setMenu({ item: chosen, anchor })} />}
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
      <Show when={!chat.hasMore(props.archived)} fallback={<p role="status">{chat.connectionNotice() ? "" : t("loading")}</p>}>
        <Show when={!props.archived} fallback={<p>{t("noArchivedChats")}</p>}>
          <strong>{t("noChats")}</strong>
          <p>{t("noChatsHint")}</p>
        </Show>
      </Show>
    </div>
  );
}
