// Adapts the SDK's client to signals. The SDK tells that something changed; once per frame the signals here are moved on,
// so that a burst of messages costs one drawing. It holds no data of its own and draws nothing.

import { BluetickClient, indexedDbStorage, serverOffer, type Change, type Conversation, type InboxEntry, type ServerOffer, type Session, type TimelineMessage } from "@bluetick/client";
import { batch, createContext, createSignal, onCleanup, useContext, type Accessor } from "solid-js";
import { firstLine } from "../text/plain.ts";

/** In a hidden tab frames do not come; the title still has to tell of news. */
const HIDDEN_FRAME_MS = 250;
const RECONNECTING_AFTER_MS = 5_000;
const TOAST_MS = 7_000;
const SPEAK_AFTER_MS = 1_500;
const MINUTE_MS = 60_000;
const TOO_MANY_CONNECTIONS = 4409;

/** Of a log-out by the person there is nothing to say. */
const LOGGED_OUT: Readonly<Record<string, string>> = {
  expired: "Your session has expired. Log in again; unsent messages are kept.",
  revoked: "You were logged out, on another device or by the operator. Log in again; unsent messages are kept.",
  wrong_user: "This session belongs to another user. Log in again.",
};

export interface Toast {
  text: string;
}

export type ConnectionWords = "" | "Waiting for network" | "Reconnecting…" | "Too many tabs or devices are open";

/** A value that says "look again". */
function createVersion(): [track: () => void, bump: () => void] {
  const [version, setVersion] = createSignal(0);
  return [() => void version(), () => void setVersion((before) => before + 1)];
}

export function createChat(session: Session, onLoggedOut: (reason: string) => void) {
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
    // Outside of the batch: a list may have to take the news in several steps.
    for (const id of conversations) for (const listener of listeners.get(id) ?? []) listener();
  }

  // A frame that was asked for before the tab was hidden does not come.
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

  function connectionWords(): ConnectionWords {
    if (!isBrowserOnline()) return "Waiting for network";
    if (connectionState() !== "online" && client.connection.closeCode === TOO_MANY_CONNECTIONS) return "Too many tabs or devices are open";
    return connectionState() !== "online" && isSlow() ? "Reconnecting…" : "";
  }

  // What is said of times ages by the minute.

  const [now, setNow] = createSignal(Date.now());
  let clockTimer: ReturnType<typeof setTimeout> | undefined;
  function tickClock(): void {
    clearTimeout(clockTimer);
    setNow(Date.now());
    clockTimer = setTimeout(tickClock, MINUTE_MS - (Date.now() % MINUTE_MS) + 20);
  }
  tickClock();

  // Toasts and what is read out

  const [toast, setToast] = createSignal<Toast | null>(null);
  let toastTimer: ReturnType<typeof setTimeout> | undefined;
  function tell(text: string): void {
    setToast({ text });
    clearTimeout(toastTimer);
    toastTimer = setTimeout(() => setToast(null), TOAST_MS);
  }

  // New messages of others are read out, one sentence at a time.
  const [announcement, setAnnouncement] = createSignal("");
  let lastUnspoken: TimelineMessage | null = null;
  let unspokenCount = 0;
  let speakTimer: ReturnType<typeof setTimeout> | undefined;

  function announce(message: TimelineMessage): void {
    const isMuted = client.conversation(message.conversation_id).entry?.muted === true;
    if (isMuted && openId() !== message.conversation_id) return;
    lastUnspoken = message;
    unspokenCount += 1;
    if (speakTimer === undefined) speak();
  }

  function speak(): void {
    speakTimer = undefined;
    if (!lastUnspoken) return;
    const { sender_id, content } = lastUnspoken;
    const more = unspokenCount > 1 ? ` (and ${unspokenCount - 1} more)` : "";
    const words = `${client.people.name(sender_id)}: ${firstLine(content)}${more}`;
    // Only what changes is read out: the same words again get a mark that nobody hears.
    setAnnouncement((before) => (before === words ? `${words}\u200b` : words));
    lastUnspoken = null;
    unspokenCount = 0;
    speakTimer = setTimeout(speak, SPEAK_AFTER_MS);
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
    client.on("message", announce),
    client.on("trouble", (text) => tell(text)),
    client.on("loggedOut", (reason) => onLoggedOut(LOGGED_OUT[reason] ?? "")),
    client.on("gone", ({ conversationId }) => {
      if (openId() !== conversationId) return;
      tell("You are no longer in this chat.");
      go("");
    }),
  ];
  watchSlowness();

  let offer: Promise<ServerOffer> | undefined;
  function askOffer(): Promise<ServerOffer> {
    offer ??= serverOffer(location.origin).catch((failure: unknown) => {
      offer = undefined;
      throw failure;
    });
    return offer;
  }

  // Which conversation is open is in the address, so that back, reload and bookmarks work.

  const addressed = () => location.hash.match(/^#(\w+)$/)?.[1] ?? "";
  const [openId, setOpenId] = createSignal(addressed());
  const onAddress = () => isGoingBack || setOpenId(addressed());
  addEventListener("hashchange", onAddress);
  /** The browser goes back in its own time; what is wanted meanwhile follows. */
  let isGoingBack = false;
  const onArrived = () => {
    if (!isGoingBack) return;
    isGoingBack = false;
    const wanted = openId();
    if (addressed() !== "") history.replaceState(null, "", location.pathname);
    if (wanted !== "") history.pushState({ isFromList: true }, "", `#${wanted}`);
  };
  addEventListener("popstate", onArrived);

  function go(id: string): void {
    if (id === openId()) return;
    // From one conversation to another, "back" leads to the list and not through all of them.
    const before = openId();
    setOpenId(id);
    if (isGoingBack) return;
    const isFromList = (history.state as { isFromList?: boolean } | null)?.isFromList === true;
    if (id === "" && isFromList) {
      // The list is where one came from: no second entry for it.
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
    removeEventListener("popstate", onArrived);
    clearTimeout(slowTimer);
    clearTimeout(clockTimer);
    clearTimeout(toastTimer);
    clearTimeout(speakTimer);
  });

  return {
    client,
    me,
    session,
    connectionState,
    connectionWords,
    now: now as Accessor<number>,

    /** Everything that was missed is here, or is being read. */
    isCaughtUp(): boolean {
      trackConnection();
      return client.connection.caughtUp;
    },

    toast,
    tell,
    announcement,
    nameOf,
    /** What the server offers; asked once. Rejects where the server cannot be reached. */
    offer: askOffer,
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

    /** The conversation, looked at again whenever it changes. */
    conversation(id: string): Conversation {
      let version = versions.get(id);
      if (!version) versions.set(id, (version = createVersion()));
      version[0]();
      return client.conversation(id);
    },

    /** Calls back once per frame in which the conversation changed. */
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
  if (!chat) throw new Error("used outside of a chat");
  return chat;
}
