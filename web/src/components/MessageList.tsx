// The messages of the open conversation as a virtual list, newest at the bottom. It owns the scroll
// position: following the end, loading pages beyond both ends, the jump to the latest message. The
// scroll position decides which messages are read.

import { Show, batch, createEffect, createSignal, on, onCleanup, onMount } from "solid-js";
import { Virtualizer, type VirtualizerHandle } from "virtua/solid";
import { t } from "../i18n/index.ts";
import { createAbsence, unreadState } from "../state/absence.ts";
import { useChat } from "../state/chat.ts";
import { reasonText } from "../state/load.ts";
import { Rows, type Row, type Step } from "../state/rows.ts";
import { countText } from "../text/texts.ts";
import { Icon } from "./Icon.tsx";
import { MessageRow } from "./MessageRow.tsx";

/**
 * The window holds at most this many messages at rest; a larger one is trimmed to `WINDOW_TRIMMED`.
 */
const WINDOW_LIMIT = 400;
/** The same limit while the user scrolls. */
const WINDOW_LIMIT_SCROLLING = 1_500;
/** The number of messages that stay after trimming. */
const WINDOW_TRIMMED = 240;
/**
 * The height that is drawn beyond the screen. One turn of a wheel shows only rows that have been
 * measured, so no row moves. At the end, where many messages may arrive, a smaller height is drawn.
 */
const OVERSCAN_PX = 1_400;
/** The same height while the list is near its end. */
const OVERSCAN_AT_END_PX = 700;
/** Within this distance of an end, the page beyond it is fetched. */
const FETCH_WITHIN_PX = 2_400;
/** The list is at its end within this distance. */
const END_PX = 4;
/** Beyond this distance from the end, the button "Jump to latest" is shown. */
const FAR_PX = 240;
/** A message counts as seen when this much of it is on the screen. */
const SEEN_PX = 24;
/** Space between the upper edge and the unread divider. */
const DIVIDER_MARGIN_PX = 12;
/** For this time after the user scrolled up, the list does not follow its end. */
const SCROLLED_UP_MS = 400;

/** The virtual list hides a row until it has measured it. */
const isHidden = (item: HTMLElement | null) => item?.style.visibility === "hidden";

interface MessageListProps {
  id: string;
  isGroup: boolean;
  /** The server has confirmed the conversation; cached data may be old. */
  isConfirmed: boolean;
  onShowReaders(seq: number): void;
  /** Passes a function that scrolls to a message that was just sent. */
  onReady(jumpToSent: () => void): void;
}

export function MessageList(props: MessageListProps) {
  const chat = useChat();
  const { id } = props;
  const conversation = chat.client.conversation(id);
  const rows = new Rows(chat.me);
  let scroller!: HTMLDivElement;
  let list: VirtualizerHandle | undefined;
  let isAtEnd = true;
  /** Cached messages are shown, and the newest ones are still loading. */
  let isOpening = true;
  let scrolledUpAt = -Infinity;
  /** The scroll position and the largest possible one, when they were last read. */
  let lastTop = 0;
  let lastMax = 0;
  /** The user has scrolled, so the list no longer goes to the divider by itself. */
  let hasScrolled = false;
  /** At the very top, the list fetches one page each time it moves there. */
  let hasMoved = true;
  /** The first unread seq, until the list has gone there. */
  let firstUnread: number | null = null;
  /** The newest seq at that time. The user was present for later messages. */
  let lastAtOpening = 0;
  /**
   * The row with the unread divider, while the list moves there. Rows are measured only when they
   * are drawn, so each measurement moves the target. Null once the list has arrived and rests, or
   * the user scrolled.
   */
  let target: Row | null = null;
  /** No scroll event came after the virtual list reported the end of scrolling. */
  let isAtRest = true;
  /** The messages that the rows show, and the last seq of their window. */
  let shownMessages = conversation.messages;
  let shownToSeq = conversation.window.toSeq;
  /** The list knows whether there are unread messages. */
  let isDecided = false;
  let hasLoadedAround = false;
  /**
   * The list stopped following its end, because messages arrived while the user was away. When the
   * user is back, the list goes to the first of them. Until then, no message is marked as read.
   */
  let isBehind = false;
  /** The newest seq when the user left, or jumped to the end while away. */
  let lastBeforeAbsence = 0;
  /**
   * The user sent a message while the list still moved: the list stays at its end until the message
   * is drawn and the list rests. The scroll animation from before does not end it; a new wheel,
   * key, pointer or touch event does.
   */
  let isPinned = false;

  /**
   * Decides once whether there are unread messages. Cached data may be old, so the server decides.
   */
  function decideUnread(): void {
    if (isDecided || !props.isConfirmed) return;
    isDecided = true;
    if (conversation.entry?.unread) showDivider(!hasScrolled);
  }

  /** Puts the divider before the unread messages. With `mayMove`, the list goes there. */
  function showDivider(mayMove: boolean): void {
    const { entry } = conversation;
    if (!entry) return;
    rows.setDividerAfter(entry.my_status.last_read_seq);
    lastAtOpening = entry.last_seq;
    if (!mayMove) return;
    firstUnread = entry.my_status.last_read_seq + 1;
    hasLoadedAround = false;
    target = null;
  }

  const isAway = createAbsence({
    onLeave: () => (lastBeforeAbsence = conversation.entry?.last_seq ?? 0),
    onReturn: () => {
      if (isDecided && (isAtEnd || target || firstUnread !== null)) setBehind();
      applyChanges();
    },
  });

  function setBehind(): void {
    isBehind = true;
    isAtEnd = isPinned = false;
  }

  /**
   * Stops following the end when messages arrive while the user is away. When the user is back,
   * decides where the list goes.
   */
  function decideMissed(): void {
    if (!isDecided) return;
    if (isAway()) {
      if (isAtEnd && (conversation.entry?.last_seq ?? 0) > lastBeforeAbsence && unreadState(conversation, chat.me) !== "none") setBehind();
      return;
    }
    const unread = isBehind ? unreadState(conversation, chat.me) : "unsure";
    if (unread === "unsure") return;
    isBehind = false;
    if (unread === "some") showDivider(true);
    else isAtEnd = !target && firstUnread === null;
  }

  decideUnread();

  const [step, setStep] = createSignal<Step>(rows.update(shownMessages, conversation.window.reachesStart).at(-1) ?? { rows: [], shift: false, isFresh: true });
  const [freshness, setFreshness] = createSignal({});
  const [isFar, setFar] = createSignal(false);

  const window = () => chat.conversation(id).window;

  // Changes of the conversation

  function applyChanges(): void {
    decideUnread();
    decideMissed();
    // A short conversation reaches its end without a scroll event.
    if (!isAtEnd) noteScrollPosition();
    const anchor = isAtEnd || target ? null : currentAnchor();
    let isShifted = false;
    shownMessages = conversation.messages;
    shownToSeq = conversation.window.toSeq;
    for (const next of rows.update(shownMessages, conversation.window.reachesStart)) {
      isShifted ||= next.shift;
      // Each step has its own update: `shift` tells the list from which end to keep its position.
      batch(() => {
        setStep(next);
        if (next.isFresh) setFreshness({});
      });
    }
    if (conversation.window.reachesHead) isOpening = false;
    if (isAtEnd) scrollToEnd();
    else {
      if (anchor && isShifted) restore(anchor);
      noteScrollPosition();
    }
    goToUnread();
    settle();
  }

  chat.listen(id, applyChanges);
  createEffect(on(() => props.isConfirmed, applyChanges, { defer: true }));

  // The virtual list keeps its position relative to the last scroll event, which may be outdated at
  // the very top or during a long jump. So the first row on the screen is moved back to its
  // position. A synthetic scroll event informs the list at once: if it measured the new rows before
  // the browser's own scroll event, it would go back to the top.

  interface Anchor {
    row: Row;
    /** The distance from the start of the row to the upper edge. */
    above: number;
  }

  function currentAnchor(): Anchor | null {
    const index = list?.findItemIndex(scroller.scrollTop) ?? -1;
    const row = rows.shown[index];
    return list && row ? { row, above: scroller.scrollTop - list.getItemOffset(index) } : null;
  }

  function restore({ row, above }: Anchor): void {
    const index = rows.shown.indexOf(row);
    if (index < 0 || !list) return;
    const top = list.getItemOffset(index) + above;
    if (Math.abs(scroller.scrollTop - top) >= 1) scroller.scrollTop = top;
    lastTop = scroller.scrollTop;
    scroller.dispatchEvent(new Event("scroll"));
  }

  /**
   * Bounds the window. Removes messages only at the end that is not on the screen. The limit is
   * higher while the user scrolls, because the list would keep its position from the wrong end.
   */
  function trim(isResting: boolean): void {
    const limit = isResting || isAtEnd ? WINDOW_LIMIT : WINDOW_LIMIT_SCROLLING;
    if (conversation.messages.length <= limit || !list) return;
    const middle = list.scrollOffset + list.viewportSize / 2;
    conversation.trim(WINDOW_TRIMMED, isAtEnd || middle > list.scrollSize / 2 ? "newer" : "older");
  }

  function fetchBeyond(): void {
    const { loading, reachesStart, reachesHead, error } = conversation.window;
    if (loading || error || !list || rows.shown.length === 0) return;
    const below = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
    if (!reachesStart && scroller.scrollTop < FETCH_WITHIN_PX && (hasMoved || scroller.scrollTop > END_PX)) {
      hasMoved = false;
      void load("loadOlder");
    } else if (!reachesHead && below < FETCH_WITHIN_PX) void load("loadNewer");
  }

  // A failed load is retried by the user, or when the connection is back.

  let failed: "loadOlder" | "loadNewer" | "loadNewest" | null = null;
  async function load(what: NonNullable<typeof failed>): Promise<void> {
    failed = what;
    await conversation[what]();
    if (!conversation.window.error) failed = null;
  }
  const tryAgain = () => load(failed ?? "loadNewest");
  createEffect(on(chat.connectionState, (state) => void (state === "online" && conversation.window.error && tryAgain())));

  /** Marks the messages as read that were on the screen while the tab was visible. */
  function markRead(): void {
    if (document.visibilityState !== "visible" || !list) return;
    if (isPinned && isAtRest && isSettledAtEnd()) isPinned = false;
    // Until the list has reached the divider, the user has seen no message.
    if (!isDecided || firstUnread !== null || isBehind) return;
    if (target && !isAtTarget(target)) return markSoon();
    // The rest of the missed messages is still loading; its arrival calls this again.
    const { reachesHead, toSeq } = conversation.window;
    if (target && reachesHead && toSeq < lastAtOpening) return;
    if (target && showsAllOfOpening()) {
      // No unread message was below the screen, so the list follows its end.
      target = null;
      isAtEnd = reachesHead;
      if (isAtEnd) scrollToEnd();
    } else if (target && isAtRest) {
      // Until it rests, the virtual list may keep its position from the end and move when something
      // below is measured.
      target = null;
      noteScrollPosition();
    }
    // Later messages have no rows yet.
    if (isAtEnd && reachesHead) return conversation.markRead(shownToSeq);
    if (!conversation.entry?.unread) return;
    // The drawn rows decide which messages were seen. A row without a measurement is hidden, at an
    // estimated position.
    const { bottom } = scroller.getBoundingClientRect();
    const isSeen = (each: HTMLElement) => !isHidden(each.closest("li")) && each.getBoundingClientRect().top < bottom - SEEN_PX;
    const seen = [...scroller.querySelectorAll<HTMLElement>("[data-seq]")].findLast(isSeen);
    if (seen) conversation.markRead(Number(seen.dataset.seq));
  }

  // Runs after the next frame has drawn the rows.
  let markFrame = 0;
  function markSoon(): void {
    cancelAnimationFrame(markFrame);
    markFrame = requestAnimationFrame(markRead);
  }
  onCleanup(() => cancelAnimationFrame(markFrame));

  function settle(): void {
    trim(false);
    fetchBeyond();
    markSoon();
  }

  // The scroll position

  const maxScrollTop = () => scroller.scrollHeight - scroller.clientHeight;

  function scrollToEnd(): void {
    scroller.scrollTop = scroller.scrollHeight;
    lastTop = scroller.scrollTop;
    lastMax = maxScrollTop();
  }

  /** Whether every row is drawn and measured, and the list shows the last one. */
  const isSettledAtEnd = () =>
    conversation.messages === shownMessages && maxScrollTop() - scroller.scrollTop < END_PX && ![...scroller.querySelectorAll<HTMLElement>("li")].some(isHidden);

  function noteScrollPosition(): void {
    if (target || isBehind) return;
    const max = maxScrollTop();
    const below = max - scroller.scrollTop;
    const { reachesHead } = conversation.window;
    // A list that got shorter, or a composer that did, moves the position up too. Only a move
    // within an unchanged list is the user's. `onUserScroll` handles wheel, key and touch events
    // first.
    const isMovedUp = scroller.scrollTop < lastTop - 1 && max === lastMax;
    lastTop = scroller.scrollTop;
    lastMax = max;
    // The composer or a message above has grown: the user is still at the end.
    if (isAtEnd && (isPinned || !isMovedUp) && below >= END_PX) return scrollToEnd();
    isAtEnd = below < END_PX && (reachesHead || isOpening) && performance.now() - scrolledUpAt > SCROLLED_UP_MS;
    setFar(below > FAR_PX || (!reachesHead && !isOpening));
  }

  function onScroll(): void {
    isAtRest = false;
    if (Math.abs(scroller.scrollTop - lastTop) >= 1) hasMoved = true;
    // A scrollbar or a script that moves the list elsewhere stops the move to the divider. A
    // measurement that moves the divider does not.
    if (target && Math.abs(scroller.scrollTop - targetTop(target)) > 2) {
      if (Math.abs(scroller.scrollTop - lastTop) > 2) target = null;
      else moveToTarget(target);
    }
    noteScrollPosition();
    settle();
  }

  function onResize(): void {
    if (isAtEnd) scrollToEnd();
    goToUnread();
    markSoon();
  }

  function onUserScroll(isUp: boolean): void {
    target = null;
    if (!isUp || scroller.scrollHeight <= scroller.clientHeight) return;
    scrolledUpAt = performance.now();
    isAtEnd = isPinned = isBehind = false;
    hasScrolled = hasMoved = true;
    firstUnread = null;
    // At the very top there is no scroll event, so the input event requests the page.
    if (scroller.scrollTop <= END_PX) fetchBeyond();
  }

  let touchY = 0;

  async function jumpToLatest(isSent: boolean): Promise<void> {
    if (isSent && (!isAtRest || performance.now() - scrolledUpAt < SCROLLED_UP_MS)) isPinned = true;
    // Needs no network: a message that was just sent is visible at once.
    const isShown = conversation.showLatest();
    followEnd();
    if (isShown && !conversation.window.loading) return;
    // A load that is already running may end elsewhere.
    await load("loadNewest");
    if (!conversation.window.error) followEnd();
  }

  /** Makes the list follow its end. While the end is loading, only clears the other targets. */
  function followEnd(): void {
    firstUnread = target = null;
    hasScrolled = true;
    isBehind = false;
    lastBeforeAbsence = conversation.entry?.last_seq ?? 0;
    scrolledUpAt = -Infinity;
    if (!conversation.window.reachesHead && !isOpening) return;
    isAtEnd = true;
    setFar(false);
    applyChanges();
  }

  /** Goes to the first unread message once it is loaded, unless the user scrolls first. */
  function goToUnread(): void {
    if (target) return moveToTarget(target);
    const { loading, reachesHead } = conversation.window;
    // The list draws no rows before its first measurement.
    if (firstUnread === null || !list || list.viewportSize === 0 || rows.shown.length === 0) return;
    const index = rows.shown.findIndex((row) => row.layout().isUnreadStart);
    const isLoaded = index > 0 || (index === 0 && conversation.window.fromSeq <= firstUnread);
    if (!isLoaded) {
      if (loading || !reachesHead) return;
      if (hasLoadedAround) firstUnread = null;
      else void conversation.showAround(firstUnread);
      hasLoadedAround = true;
      return;
    }
    firstUnread = null;
    isAtEnd = false;
    target = rows.shown[index] ?? null;
    if (target) moveToTarget(target);
  }

  /**
   * The scroll position that shows the row at the upper edge, or as near to it as the end of the
   * list allows.
   */
  function targetTop(row: Row): number {
    const index = rows.shown.indexOf(row);
    if (index < 0 || !list) return scroller.scrollTop;
    return Math.max(0, Math.min(list.getItemOffset(index) - DIVIDER_MARGIN_PX, maxScrollTop()));
  }

  function moveToTarget(row: Row): void {
    scroller.scrollTop = targetTop(row);
    lastTop = scroller.scrollTop;
    lastMax = maxScrollTop();
  }

  /** Whether the list shows the target, and every row drawn around it is measured. */
  function isAtTarget(row: Row): boolean {
    moveToTarget(row);
    // The first loaded row cannot be below the upper edge, so the page before it must load first.
    if (rows.shown[0] === row && !conversation.window.reachesStart) fetchBeyond();
    if (rows.shown[0] === row && conversation.window.loading) return false;
    // A loaded page gets its rows in the next frame.
    if (conversation.messages !== shownMessages) return false;
    return ![...scroller.querySelectorAll<HTMLElement>("li")].some(isHidden);
  }

  /**
   * Whether the newest message at the time of opening is on the screen as a whole. Rows on the
   * screen are measured at this point.
   */
  function showsAllOfOpening(): boolean {
    const index = rows.shown.findLastIndex((row) => (row.message().seq ?? Infinity) <= lastAtOpening);
    if (index < 0 || !list) return false;
    return list.getItemOffset(index) + list.getItemSize(index) <= scroller.scrollTop + scroller.clientHeight + END_PX;
  }

  function onRest(): void {
    isAtRest = true;
    trim(true);
    if (target || isPinned) markSoon();
  }

  /** Copies plain text, without colours and elements. */
  function onCopy(event: ClipboardEvent): void {
    const text = getSelection()?.toString() ?? "";
    if (text === "" || !event.clipboardData) return;
    event.clipboardData.setData("text/plain", text);
    event.preventDefault();
  }

  onMount(() => {
    scrollToEnd();
    props.onReady(() => void jumpToLatest(true));
  });
  onCleanup(conversation.open());

  const newBelow = () => (isFar() ? (chat.conversation(id).entry?.unread ?? 0) : 0);

  return (
    <div class="message-area">
      <div
        class="scroller"
        ref={scroller}
        tabindex="0"
        role="region"
        aria-label={t("messages")}
        on:scroll={{ handleEvent: onScroll, passive: true }}
        onCopy={onCopy}
        onWheel={(event) => onUserScroll(event.deltaY < 0)}
        onKeyDown={(event) => onUserScroll(["ArrowUp", "PageUp", "Home"].includes(event.key))}
        onTouchStart={(event) => (touchY = event.touches[0]?.clientY ?? 0)}
        onPointerDown={() => (isPinned = false)}
        onTouchMove={(event) => onUserScroll((event.touches[0]?.clientY ?? 0) > touchY)}
      >
        <Show when={freshness()} keyed>
          <Virtualizer
            ref={(handle) => (list = handle)}
            as="ol"
            item="li"
            data={step().rows}
            shift={step().shift}
            bufferSize={isFar() ? OVERSCAN_PX : OVERSCAN_AT_END_PX}
            scrollRef={scroller}
            onResize={onResize}
            onScrollEnd={onRest}
          >
            {(row) => <MessageRow row={row} conversationId={id} isGroup={props.isGroup} onShowReaders={props.onShowReaders} />}
          </Virtualizer>
        </Show>
      </div>
      <Show when={step().rows.length === 0}>
        <p class="area-note" role="status">{window().error ? "" : window().loading || !props.isConfirmed ? t("loading") : t("noMessages")}</p>
      </Show>
      <Show when={window().error}>
        {(error) => (
          <p class="area-error" role="alert">
            {reasonText(window().errorCode ?? "", error())} <button type="button" class="button small" onClick={() => void tryAgain()}>{t("tryAgain")}</button>
          </p>
        )}
      </Show>
      <Show when={isFar()}>
        <button type="button" class="jump" onClick={() => void jumpToLatest(false)} aria-label={newBelow() > 0 ? t("jumpToLatestNew", { count: newBelow() }) : t("jumpToLatest")}>
          <Icon name="down" />
          <Show when={newBelow() > 0}><span class="badge" aria-hidden="true">{countText(newBelow())}</span></Show>
        </button>
      </Show>
    </div>
  );
}
