// The messages of the open conversation as a virtual list, newest at the bottom. It owns where the person looks: staying
// at the end, loading what lies beyond an end, the jump to the latest, and from that what has been read.

import { Show, batch, createEffect, createSignal, on, onCleanup, onMount } from "solid-js";
import { Virtualizer, type VirtualizerHandle } from "virtua/solid";
import { createAbsence, unreadState } from "../state/absence.ts";
import { useChat } from "../state/chat.ts";
import { reasonText } from "../state/load.ts";
import { Rows, type Row, type Step } from "../state/rows.ts";
import { countText } from "../text/words.ts";
import { Icon } from "./Icon.tsx";
import { MessageRow } from "./MessageRow.tsx";

/** How many messages the window may hold, and to how many it is cut when it holds more. */
const WINDOW_MOST = 400;
const WINDOW_MOST_SCROLLING = 1_500;
const WINDOW_CUT = 240;
/**
 * So much beyond the screen is drawn: what comes into view by one turn of a wheel has been measured before and moves
 * nothing. At the end, where much may arrive, less has to do.
 */
const AHEAD_PX = 1_400;
const AHEAD_AT_END_PX = 700;
/** Nearer to an end than this, what lies beyond is fetched. */
const FETCH_WITHIN_PX = 2_400;
const END_PX = 4;
const FAR_PX = 240;
/** So much of a message has to be on the screen. */
const SEEN_PX = 24;
/** Space between the upper edge and the unread divider. */
const DIVIDER_MARGIN_PX = 12;
/** A hand that just moved the list up is not taken for one that came to the end. */
const HAND_MS = 400;

/** The virtual list hides a row until it has measured it. */
const isHidden = (item: HTMLElement | null) => item?.style.visibility === "hidden";

interface MessageListProps {
  id: string;
  isGroup: boolean;
  /** What is known of it is the server's word. */
  isHeard: boolean;
  onShowReaders(seq: number): void;
  /** Hands out what leads to a message that was just sent. */
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
  /** What is at hand is shown, and the newest is still on its way. */
  let isOpening = true;
  let movedUpAt = -Infinity;
  /** The scroll position, and the furthest one possible, at the last look. */
  let lastTop = 0;
  let lastMax = 0;
  /** Somebody scrolls, so the first look is over. */
  let hasHand = false;
  /** At the very top, one page follows one arrival. */
  let hasMoved = true;
  /** Where the unread begin, until the first look has gone there. */
  let firstUnread: number | null = null;
  /** The newest message when that was decided; what came later came while the person was here. */
  let lastAtOpening = 0;
  /**
   * The row with the unread divider, while the list moves there. Rows are measured only when they
   * are drawn, so each measurement moves the target. Null once the list has arrived and rests, or
   * the person scrolled.
   */
  let target: Row | null = null;
  /** No scroll event is younger than the last word of the virtual list that scrolling has ended. */
  let isAtRest = true;
  /** The messages that the rows were made of, and the seq up to which they go. */
  let taken = conversation.messages;
  let takenTo = conversation.window.toSeq;
  let isDecided = false;
  let hasAskedAround = false;
  /**
   * The list stopped following its end, because messages arrived while the person was away. When
   * the person is back, the list goes to the first of them. Until then nothing is marked as read.
   */
  let isBehind = false;
  /** The newest message when the person left, or jumped to the end while away. */
  let lastBeforeAbsence = 0;
  /**
   * The person sent a message while the list still moved: it stays at its end until the message is
   * drawn and the list rests. The scroll animation from before does not end it; a new wheel, key,
   * pointer or touch event does.
   */
  let isPinned = false;

  /** What is unread is known when the server has said so; what this browser remembers may be of yesterday. */
  function decideUnread(): void {
    if (isDecided || !props.isHeard) return;
    isDecided = true;
    if (conversation.entry?.unread) divide(!hasHand);
  }

  /** Puts the divider before the unread messages. With `mayMove`, the list goes there. */
  function divide(mayMove: boolean): void {
    const { entry } = conversation;
    if (!entry) return;
    rows.divideAfter(entry.my_status.last_read_seq);
    lastAtOpening = entry.last_seq;
    if (!mayMove) return;
    firstUnread = entry.my_status.last_read_seq + 1;
    hasAskedAround = false;
    target = null;
  }

  const isAway = createAbsence({
    onLeave: () => (lastBeforeAbsence = conversation.entry?.last_seq ?? 0),
    onReturn: () => {
      if (isDecided && (isAtEnd || target || firstUnread !== null)) setBehind();
      takeNews();
    },
  });

  function setBehind(): void {
    isBehind = true;
    isAtEnd = isPinned = false;
  }

  /**
   * Stops following the end when messages arrive while the person is away. When the person is back,
   * decides where to look.
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
    if (unread === "some") divide(true);
    else isAtEnd = !target && firstUnread === null;
  }

  decideUnread();

  const [step, setStep] = createSignal<Step>(rows.update(taken, conversation.window.reachesStart).at(-1) ?? { rows: [], shift: false, isFresh: true });
  const [freshness, setFreshness] = createSignal({});
  const [isFar, setFar] = createSignal(false);

  const window = () => chat.conversation(id).window;

  // What changed

  function takeNews(): void {
    decideUnread();
    decideMissed();
    // Whoever came to the end without scrolling, in a short conversation, is at the end as well.
    if (!isAtEnd) notePlace();
    const place = isAtEnd || target ? null : placeNow();
    let isShifted = false;
    taken = conversation.messages;
    takenTo = conversation.window.toSeq;
    for (const next of rows.update(taken, conversation.window.reachesStart)) {
      isShifted ||= next.shift;
      // Each on its own: the list reads from a step whether to hold its place from the start or from the end.
      batch(() => {
        setStep(next);
        if (next.isFresh) setFreshness({});
      });
    }
    if (conversation.window.reachesHead) isOpening = false;
    if (isAtEnd) scrollToEnd();
    else {
      if (place && isShifted) goBackTo(place);
      notePlace();
    }
    lookAtUnread();
    settle();
  }

  chat.listen(id, takeNews);
  createEffect(on(() => props.isHeard, takeNews, { defer: true }));

  // The list holds its place by what it knew of the scrolling, which at the very top, or within a long leap, is not where
  // the person is by now. So the first row on the screen is brought back to where it was, and the list is told at once:
  // measuring the new rows before the browser's own word of it, it would go back to the top.

  interface Place {
    row: Row;
    /** How far above the upper edge it begins. */
    above: number;
  }

  function placeNow(): Place | null {
    const index = list?.findItemIndex(scroller.scrollTop) ?? -1;
    const row = rows.shown[index];
    return list && row ? { row, above: scroller.scrollTop - list.getItemOffset(index) } : null;
  }

  function goBackTo({ row, above }: Place): void {
    const index = rows.shown.indexOf(row);
    if (index < 0 || !list) return;
    const top = list.getItemOffset(index) + above;
    if (Math.abs(scroller.scrollTop - top) >= 1) scroller.scrollTop = top;
    lastTop = scroller.scrollTop;
    scroller.dispatchEvent(new Event("scroll"));
  }

  /**
   * Bounded whatever arrives; only the end that is out of sight goes. Not under a hand that scrolls: until it rests, the
   * list would hold its place from the wrong end.
   */
  function trim(isResting: boolean): void {
    const most = isResting || isAtEnd ? WINDOW_MOST : WINDOW_MOST_SCROLLING;
    if (conversation.messages.length <= most || !list) return;
    const middle = list.scrollOffset + list.viewportSize / 2;
    conversation.trim(WINDOW_CUT, isAtEnd || middle > list.scrollSize / 2 ? "newer" : "older");
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

  // What could not be had is what is tried again: by the person, or when the connection is back.

  let failed: "loadOlder" | "loadNewer" | "loadNewest" | null = null;
  async function load(what: NonNullable<typeof failed>): Promise<void> {
    failed = what;
    await conversation[what]();
    if (!conversation.window.error) failed = null;
  }
  const tryAgain = () => load(failed ?? "loadNewest");
  createEffect(on(chat.connectionState, (state) => void (state === "online" && conversation.window.error && tryAgain())));

  /** What has been on the screen is read, as far as somebody is there to see it. */
  function markRead(): void {
    if (document.visibilityState !== "visible" || !list) return;
    if (isPinned && isAtRest && isSettledAtEnd()) isPinned = false;
    // Until the first look has found its place, nothing was seen.
    if (!isDecided || firstUnread !== null || isBehind) return;
    if (target && !isAtTarget(target)) return markSoon();
    // The rest of the missed messages is still loading; its arrival calls this again.
    const { reachesHead, toSeq } = conversation.window;
    if (target && reachesHead && toSeq < lastAtOpening) return;
    if (target && showsAllOfOpening()) {
      // Nothing unread was below the screen, so the list follows its end.
      target = null;
      isAtEnd = reachesHead;
      if (isAtEnd) scrollToEnd();
    } else if (target && isAtRest) {
      // Until it rests, the virtual list may hold its place from the end and move when something
      // below is measured.
      target = null;
      notePlace();
    }
    // What arrived since has no rows yet.
    if (isAtEnd && reachesHead) return conversation.markRead(takenTo);
    if (!conversation.entry?.unread) return;
    // The drawn rows decide which messages were seen. A row without a measurement is hidden, at an
    // estimated position.
    const { bottom } = scroller.getBoundingClientRect();
    const isSeen = (each: HTMLElement) => !isHidden(each.closest("li")) && each.getBoundingClientRect().top < bottom - SEEN_PX;
    const seen = [...scroller.querySelectorAll<HTMLElement>("[data-seq]")].findLast(isSeen);
    if (seen) conversation.markRead(Number(seen.dataset.seq));
  }

  // When what is to be seen by now has been drawn.
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

  // Where the person looks

  const furthestTop = () => scroller.scrollHeight - scroller.clientHeight;

  function scrollToEnd(): void {
    scroller.scrollTop = scroller.scrollHeight;
    lastTop = scroller.scrollTop;
    lastMax = furthestTop();
  }

  /** Whether every row is drawn and measured, and the list shows the last one. */
  const isSettledAtEnd = () =>
    conversation.messages === taken && furthestTop() - scroller.scrollTop < END_PX && ![...scroller.querySelectorAll<HTMLElement>("li")].some(isHidden);

  function notePlace(): void {
    if (target || isBehind) return;
    const max = furthestTop();
    const below = max - scroller.scrollTop;
    const { reachesHead } = conversation.window;
    // A list that got shorter, or a field below that did, moves the position up too. Only a move
    // within an unchanged list is the user's. `onHand` handles wheel, key and touch events before
    // that.
    const isMovedUp = scroller.scrollTop < lastTop - 1 && max === lastMax;
    lastTop = scroller.scrollTop;
    lastMax = max;
    // Where the field below has grown, or a message above, nobody has gone away from the end.
    if (isAtEnd && (isPinned || !isMovedUp) && below >= END_PX) return scrollToEnd();
    isAtEnd = below < END_PX && (reachesHead || isOpening) && performance.now() - movedUpAt > HAND_MS;
    setFar(below > FAR_PX || (!reachesHead && !isOpening));
  }

  function onScroll(): void {
    isAtRest = false;
    if (Math.abs(scroller.scrollTop - lastTop) >= 1) hasMoved = true;
    // A scrollbar or a program that moves the list elsewhere ends the way to the divider. A
    // measurement that moves the divider does not.
    if (target && Math.abs(scroller.scrollTop - targetTop(target)) > 2) {
      if (Math.abs(scroller.scrollTop - lastTop) > 2) target = null;
      else moveToTarget(target);
    }
    notePlace();
    settle();
  }

  function onResize(): void {
    if (isAtEnd) scrollToEnd();
    lookAtUnread();
    markSoon();
  }

  function onHand(isUp: boolean): void {
    target = null;
    if (!isUp || scroller.scrollHeight <= scroller.clientHeight) return;
    movedUpAt = performance.now();
    isAtEnd = isPinned = isBehind = false;
    hasHand = hasMoved = true;
    firstUnread = null;
    // At the very top nothing scrolls any more; the wish for more is all there is to hear.
    if (scroller.scrollTop <= END_PX) fetchBeyond();
  }

  let touchY = 0;
  const hands = {
    onWheel: (event: WheelEvent) => onHand(event.deltaY < 0),
    onKeyDown: (event: KeyboardEvent) => onHand(["ArrowUp", "PageUp", "Home"].includes(event.key)),
    onTouchStart: (event: TouchEvent) => (touchY = event.touches[0]?.clientY ?? 0),
    onPointerDown: () => void (isPinned = false),
    onTouchMove: (event: TouchEvent) => onHand((event.touches[0]?.clientY ?? 0) > touchY),
  };

  async function jumpToLatest(isSent: boolean): Promise<void> {
    if (isSent && (!isAtRest || performance.now() - movedUpAt < HAND_MS)) isPinned = true;
    // Needs no network: a message that was just sent is shown at once.
    const isShown = conversation.showLatest();
    followEnd();
    if (isShown && !conversation.window.loading) return;
    // A load that is under way may lead elsewhere.
    await load("loadNewest");
    if (!conversation.window.error) followEnd();
  }

  /** From here on the list follows its end. Does nothing more where the end is still loading. */
  function followEnd(): void {
    firstUnread = target = null;
    hasHand = true;
    isBehind = false;
    lastBeforeAbsence = conversation.entry?.last_seq ?? 0;
    movedUpAt = -Infinity;
    if (!conversation.window.reachesHead && !isOpening) return;
    isAtEnd = true;
    setFar(false);
    takeNews();
  }

  /** The first look goes to where the unread begins, as soon as that is here; a hand on the list comes first. */
  function lookAtUnread(): void {
    if (target) return moveToTarget(target);
    const { loading, reachesHead } = conversation.window;
    // Before the first measure the list draws nothing.
    if (firstUnread === null || !list || list.viewportSize === 0 || rows.shown.length === 0) return;
    const index = rows.shown.findIndex((row) => row.around().isUnreadStart);
    const isHere = index > 0 || (index === 0 && conversation.window.fromSeq <= firstUnread);
    if (!isHere) {
      if (loading || !reachesHead) return;
      if (hasAskedAround) firstUnread = null;
      else void conversation.showAround(firstUnread);
      hasAskedAround = true;
      return;
    }
    firstUnread = null;
    isAtEnd = false;
    target = rows.shown[index] ?? null;
    if (target) moveToTarget(target);
  }

  /**
   * Where the list has to scroll to show the row at its upper edge, or as near to it as the end
   * allows.
   */
  function targetTop(row: Row): number {
    const index = rows.shown.indexOf(row);
    if (index < 0 || !list) return scroller.scrollTop;
    return Math.max(0, Math.min(list.getItemOffset(index) - DIVIDER_MARGIN_PX, furthestTop()));
  }

  function moveToTarget(row: Row): void {
    scroller.scrollTop = targetTop(row);
    lastTop = scroller.scrollTop;
    lastMax = furthestTop();
  }

  /** Whether the list shows the target, and everything drawn around it has its height. */
  function isAtTarget(row: Row): boolean {
    moveToTarget(row);
    // The first of what is here cannot be below the upper edge; what lies before it is on its way.
    if (rows.shown[0] === row && !conversation.window.reachesStart) fetchBeyond();
    if (rows.shown[0] === row && conversation.window.loading) return false;
    // A page that has come gets its rows with the next frame.
    if (conversation.messages !== taken) return false;
    return ![...scroller.querySelectorAll<HTMLElement>("li")].some(isHidden);
  }

  /**
   * Whether the newest message of the opening is on the screen as a whole. Rows on the screen are
   * measured by then.
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

  /** Copies text alone: no colours of a bubble, no elements. */
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
      <div class="scroller" ref={scroller} tabindex="0" role="region" aria-label="Messages" on:scroll={{ handleEvent: onScroll, passive: true }} onCopy={onCopy} {...hands}>
        <Show when={freshness()} keyed>
          <Virtualizer
            ref={(handle) => (list = handle)}
            as="ol"
            item="li"
            data={step().rows}
            shift={step().shift}
            bufferSize={isFar() ? AHEAD_PX : AHEAD_AT_END_PX}
            scrollRef={scroller}
            onResize={onResize}
            onScrollEnd={onRest}
          >
            {(row) => <MessageRow row={row} conversationId={id} isGroup={props.isGroup} onShowReaders={props.onShowReaders} />}
          </Virtualizer>
        </Show>
      </div>
      <Show when={step().rows.length === 0}>
        <p class="area-note" role="status">{window().error ? "" : window().loading || !props.isHeard ? "Loading…" : "No messages yet. Say hello."}</p>
      </Show>
      <Show when={window().error}>
        {(error) => (
          <p class="area-error" role="alert">
            {reasonText(window().errorCode ?? "", error())} <button type="button" class="button small" onClick={() => void tryAgain()}>Try again</button>
          </p>
        )}
      </Show>
      <Show when={isFar()}>
        <button type="button" class="jump" onClick={() => void jumpToLatest(false)} aria-label={newBelow() > 0 ? `Jump to latest, ${newBelow()} new` : "Jump to latest"}>
          <Icon name="down" />
          <Show when={newBelow() > 0}><span class="badge" aria-hidden="true">{countText(newBelow())}</span></Show>
        </button>
      </Show>
    </div>
  );
}
