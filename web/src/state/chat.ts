// Adapts the SDK's client to signals. The SDK reports changes; the signals here follow once per
// frame, so that a burst of messages is drawn once. This module stores no chat data and draws
// nothing.

import { BluetickClient, indexedDbStorage, serverOffer, type Change, type Conversation, type InboxEntry, type ServerOffer, type Session, type TimelineMessage } from "@bluetick/client";
import { batch, createContext, createSignal, onCleanup, useContext, type Accessor } from "solid-js";
import { t } from "../i18n/index.ts";
import { isEndReason, type EndReason } from "../storage.ts";
import { firstLine } from "../text/plain.ts";
import { englishReason } from "./load.ts";

/**
 * How often a hidden tab applies changes. It has no frames, but its title shows the number of
 * unread messages.
 */
const HIDDEN_FRAME_MS = 250;
/** A connection that is lost for longer is reported. Shorter losses are common on a phone. */
const RECONNECTING_AFTER_MS = 5_000;
/** How long a toast is visible. A shorter time is not enough to read two sentences. */
const TOAST_MS = 7_000;
/** The shortest time between two announcements. A screen reader would not finish more of them. */
const ANNOUNCE_INTERVAL_MS = 1_500;
/** One minute: how often texts such as "5 minutes ago" change. */
const MINUTE_MS = 60_000;
/** The close code of a connection over the limit per user. */
const TOO_MANY_CONNECTIONS = 4409;

export interface Toast {
  text: string;
}

/** A signal without a value: `track` subscribes to it, `bump` notifies the subscribers. */
function createVersion(): [track: () => void, bump: () => void] {
  const [version, setVersion] = createSignal(0);
  return [() => void version(), () => void setVersion((before) => before + 1)];
}

export function createChat(session: Session, onLoggedOut: (reason: EndReason | null) => void) {
  const client = new BluetickClient({
    url: location.origin,
    token: session.token,
    userId: session.userId,
    storage: indexedDbStorage("bluetick"),
  });
  const me = session.userId;

  const [trackConnection, bumpConnection] = createVersion();
  const [trackInbox, bumpInbox] = createVersion();
  const [trackPeople, bumpPeople] = createVersion();
  const [trackProfile, bumpProfile] = createVersion();
  const versions = new Map<string, [track: () => void, bump: () => void]>();
  const listeners = new Map<string, Set<() => void>>();

  // Frames

  let pending: { connection: boolean; inbox: boolean; people: boolean; me: boolean; conversations: Set<string> } | null = null;

  function onChange(change: Change): void {
    if (!pending) {
      pending = { connection: false, inbox: false, people: false, me: false, conversations: new Set() };
      if (document.visibilityState === "visible") requestAnimationFrame(flush);
      else setTimeout(flush, HIDDEN_FRAME_MS);
    }
    pending.connection ||= change.connection;
    pending.inbox ||= change.inbox;
    pending.people ||= change.people;
    pending.me ||= change.me;
    for (const id of change.conversations) pending.conversations.add(id);
  }

  function flush(): void {
    if (!pending) return;
    const { connection, inbox, people, me: profile, conversations } = pending;
    pending = null;
    batch(() => {
      if (connection) bumpConnection();
      if (inbox) bumpInbox();
      if (people) bumpPeople();
      if (profile) bumpProfile();
      for (const id of conversations) versions.get(id)?.[1]();
    });
    // Outside of the batch: a list may apply the changes in several steps.
    for (const id of conversations) for (const listener of listeners.get(id) ?? []) listener();
  }

  // A frame requested before the tab was hidden does not run.
  const onVisibility = () => {
    flush();
    tickClock();
  };
  document.addEventListener("visibilitychange", onVisibility);

  // Connection

  const [isBrowserOnline, setBrowserOnline] = createSignal(navigator.onLine);
  const [isSlow, setSlow] = createSignal(false);
  let slowTimer: ReturnType<typeof setTimeout> | undefined;
  const onNetwork = () => setBrowserOnline(navigator.onLine);
  addEventListener("online", onNetwork);
  addEventListener("offline", onNetwork);

  function watchSlowness(): void {
    if (client.connection.state === "online") {
      clearTimeout(slowTimer);
      slowTimer = undefined;
      setSlow(false);
    } else {
      slowTimer ??= setTimeout(() => setSlow(true), RECONNECTING_AFTER_MS);
    }
  }

  const connectionState = () => {
    trackConnection();
    return client.connection.state;
  };

  /** Empty while there is nothing to report. */
  function connectionNotice(): string {
    if (!isBrowserOnline()) return t("noNetwork");
    if (connectionState() !== "online" && client.connection.closeCode === TOO_MANY_CONNECTIONS) return t("tooManyTabs");
    return connectionState() !== "online" && isSlow() ? t("reconnecting") : "";
  }

  // The current minute: texts such as "5 minutes ago" depend on it.

  const [now, setNow] = createSignal(Date.now());
  let clockTimer: ReturnType<typeof setTimeout> | undefined;
  function tickClock(): void {
    clearTimeout(clockTimer);
    setNow(Date.now());
    clockTimer = setTimeout(tickClock, MINUTE_MS - (Date.now() % MINUTE_MS) + 20);
  }
  tickClock();

  // Toasts and announcements

  const [toast, setToast] = createSignal<Toast | null>(null);
  let toastTimer: ReturnType<typeof setTimeout> | undefined;
  function showToast(text: string): void {
    setToast({ text });
    clearTimeout(toastTimer);
    toastTimer = setTimeout(() => setToast(null), TOAST_MS);
  }

  // Screen readers announce new messages of others, at most one announcement per interval.
  const [announcement, setAnnouncement] = createSignal("");
  let lastUnannounced: TimelineMessage | null = null;
  let unannouncedCount = 0;
  let announceTimer: ReturnType<typeof setTimeout> | undefined;

  function onMessage(message: TimelineMessage): void {
    const isMuted = client.conversation(message.conversation_id).entry?.muted === true;
    if (isMuted && openId() !== message.conversation_id) return;
    lastUnannounced = message;
    unannouncedCount += 1;
    if (announceTimer === undefined) announce();
  }

  function announce(): void {
    announceTimer = undefined;
    if (!lastUnannounced) return;
    const { sender_id, content } = lastUnannounced;
    const latest = `${client.people.name(sender_id)}: ${firstLine(content)}`;
    const text = unannouncedCount > 1 ? t("announceMore", { text: latest, count: unannouncedCount - 1 }) : latest;
    // Screen readers read only changes, so the same text again gets an invisible character.
    setAnnouncement((before) => (before === text ? `${text}\u200b` : text));
    lastUnannounced = null;
    unannouncedCount = 0;
    announceTimer = setTimeout(announce, ANNOUNCE_INTERVAL_MS);
  }

  const nameOf = (user: string): string => {
    trackPeople();
    trackProfile();
    return (user === me && client.me?.displayName) || client.people.name(user);
  };

  // The client's events

  const unsubscribe = [
    client.subscribe((change) => {
      if (change.connection) watchSlowness();
      onChange(change);
    }),
    client.on("message", onMessage),
    client.on("trouble", (text) => showToast(englishReason(text) || t("errorUnknown"))),
    client.on("loggedOut", (reason) => onLoggedOut(isEndReason(reason) ? reason : null)),
    client.on("gone", ({ conversationId }) => {
      if (openId() !== conversationId) return;
      showToast(t("removedFromChat"));
      go("");
    }),
  ];
  watchSlowness();

  let offer: Promise<ServerOffer> | undefined;
  function loadOffer(): Promise<ServerOffer> {
    offer ??= serverOffer(location.origin).catch((failure: unknown) => {
      offer = undefined;
      throw failure;
    });
    return offer;
  }

  // The address holds the open conversation, so that back, reload and bookmarks work.

  const idInAddress = () => location.hash.match(/^#(\w+)$/)?.[1] ?? "";
  const [openId, setOpenId] = createSignal(idInAddress());
  const onAddress = () => isGoingBack || setOpenId(idInAddress());
  addEventListener("hashchange", onAddress);
  /** `history.back()` is asynchronous. A conversation opened before it ends follows afterwards. */
  let isGoingBack = false;
  const onPopState = () => {
    if (!isGoingBack) return;
    isGoingBack = false;
    const wanted = openId();
    if (idInAddress() !== "") history.replaceState(null, "", location.pathname);
    if (wanted !== "") history.pushState({ isFromList: true }, "", `#${wanted}`);
  };
  addEventListener("popstate", onPopState);

  function go(id: string): void {
    if (id === openId()) return;
    // "Back" leads from every conversation to the list, not to the previous conversation.
    const before = openId();
    setOpenId(id);
    if (isGoingBack) return;
    const isFromList = (history.state as { isFromList?: boolean } | null)?.isFromList === true;
    if (id === "" && isFromList) {
      // The previous entry is the list, so it gets no second entry.
      isGoingBack = true;
      history.back();
    } else if (id === "") history.replaceState(null, "", location.pathname);
    else if (before === "") history.pushState({ isFromList: true }, "", `#${id}`);
    else history.replaceState(history.state, "", `#${id}`);
  }

  onCleanup(() => {
    for (const each of unsubscribe) each();
    document.removeEventListener("visibilitychange", onVisibility);
    removeEventListener("online", onNetwork);
    removeEventListener("offline", onNetwork);
    removeEventListener("hashchange", onAddress);
    removeEventListener("popstate", onPopState);
    clearTimeout(slowTimer);
    clearTimeout(clockTimer);
    clearTimeout(toastTimer);
    clearTimeout(announceTimer);
  });

  return {
    client,
    me,
    session,
    connectionState,
    connectionNotice,
    now: now as Accessor<number>,

    /** The client has received every missed message, or is paging through them. */
    isCaughtUp(): boolean {
      trackConnection();
      return client.connection.caughtUp;
    },

    toast,
    showToast,
    announcement,
    nameOf,
    /** The features of the server, loaded once. Rejects when the server cannot be reached. */
    offer: loadOffer,
    openId: openId as Accessor<string>,
    go,

    entries(archived: boolean): readonly InboxEntry[] {
      trackInbox();
      return client.inbox.entries(archived);
    },

    hasMore(archived: boolean): boolean {
      trackInbox();
      return client.inbox.hasMore(archived);
    },

    profile() {
      trackProfile();
      return client.me;
    },

    unreadTotal(): number {
      trackInbox();
      return client.inbox.unreadTotal;
    },

    /** The conversation. Reading it subscribes to its changes. */
    conversation(id: string): Conversation {
      let version = versions.get(id);
      if (!version) versions.set(id, (version = createVersion()));
      version[0]();
      return client.conversation(id);
    },

    /** Calls `listener` once per frame in which the conversation changed. */
    listen(id: string, listener: () => void): void {
      const set = listeners.get(id) ?? new Set();
      listeners.set(id, set.add(listener));
      onCleanup(() => {
        set.delete(listener);
        if (set.size === 0) listeners.delete(id);
      });
    },
  };
}

export type Chat = ReturnType<typeof createChat>;

export const ChatContext = createContext<Chat>();

export function useChat(): Chat {
  const chat = useContext(ChatContext);
  if (!chat) throw new Error("useChat is called outside of a ChatContext");
  return chat;
}
