// The words of the public surface. What comes from the server keeps the names the server gives its fields; what this
// library adds has names of its own. No behaviour belongs here.

import type { BoundariesBody, InboxEntryBody, MemberBody, MessageBody, PreferenceRequest, PresenceBody } from "./generated.ts";
import type { Storage } from "./storage/storage.ts";

/** A line of the inbox. A new object whenever something about it changed, so that `===` tells. */
export type InboxEntry = Readonly<InboxEntryBody>;
export type Boundaries = Readonly<BoundariesBody>;
export type Presence = Readonly<PresenceBody>;
export type Member = Readonly<MemberBody>;
/** What a member sets for itself in one conversation: pinned, muted, archived, read_receipts. */
export type Settings = PreferenceRequest;

/** `sent` is also the state of everything others wrote. */
export type MessageState = "queued" | "sending" | "sent" | "failed";

/** Why a message has no content. */
export type Absence = "erased" | "lost";

/** What is drawn beside a message: a clock, one tick, two, two blue ones, or a warning. */
export type Tick = "queued" | "sent" | "delivered" | "read" | "failed";

/** Why the server does not take a message now. It is tried again by itself. */
export interface WaitingFor {
  /** Such as `rate_limited`, `store_unavailable`, `overloaded`. */
  readonly code: string;
  /** For people. */
  readonly message: string;
}

/** What of one conversation is not with the server yet. */
export interface ConversationWaiting {
  /** Those under way included. */
  readonly queued: number;
  readonly failed: number;
  /** The newest of them all. */
  readonly last: TimelineMessage | null;
  /** Why the first of them is not taken now; null where nothing was refused. */
  readonly waitingFor: WaitingFor | null;
}

/** A message as it is shown. A new object whenever something about it changed; `message_id` stays. */
export interface TimelineMessage extends Readonly<Omit<MessageBody, "seq" | "received_at">> {
  /** Its place in the conversation; null while it waits in the outbox. */
  readonly seq: number | null;
  /** The server's clock; null while it waits in the outbox. */
  readonly received_at: number | null;
  readonly state: MessageState;
  /** Why it failed, for people; null in every other state. */
  readonly failure: string | null;
  /** The server refused it for the moment; it can be cancelled while it is `queued`. */
  readonly waitingFor?: WaitingFor | null;
}

/** Which part of a conversation `messages` holds. Everything from `fromSeq` to `toSeq` is there. */
export interface TimelineWindow {
  /** The first and the last stored message here; both 0 while there is none. */
  readonly fromSeq: number;
  readonly toSeq: number;
  /** There is nothing before it that one may see. */
  readonly reachesStart: boolean;
  /** What arrives is appended. Otherwise `loadNewer` or `loadNewest` leads there. */
  readonly reachesHead: boolean;
  readonly loading: boolean;
  /** Why the last page could not be had, for people; null after one that could. */
  readonly error: string | null;
  /** The same for programs, such as `archive_unavailable`: older messages cannot be had at the moment. */
  readonly errorCode: string | null;
}

export interface ConnectionStatus {
  readonly state: "offline" | "connecting" | "online";
  /** When this state began, by the local clock. */
  readonly sinceMs: number;
  /** Since when there is no connection, over all attempts; null while online. */
  readonly offlineSinceMs: number | null;
  /** When the next attempt is made, while offline. */
  readonly waitingUntilMs: number | null;
  /** How the last connection ended; 0 where no code was given. */
  readonly closeCode: number | null;
  /**
   * Why no connection could be opened, for people: of a server of another origin that never
   * answered this page. The browser does not tell a refused origin apart from a server that cannot
   * be reached. Null otherwise.
   */
  readonly error: string | null;
  /** Everything that was missed is here, or is being paged in. */
  readonly caughtUp: boolean;
}

/** What changed since the listener was last called. Read the new state from the objects themselves. */
export interface Change {
  readonly connection: boolean;
  readonly inbox: boolean;
  readonly people: boolean;
  /** One's own profile. */
  readonly me: boolean;
  /** Whose messages, ticks, typists, presence, window or entry changed. */
  readonly conversations: ReadonlySet<string>;
}

export interface ClientEvents {
  /** Somebody else has just written: for notifications. Never history, never what was missed while away. */
  message: TimelineMessage;
  /** Something went wrong that a person should know. */
  trouble: string;
  /**
   * The client has stopped. `expired`: the token is no longer good and no fresh one could be had;
   * the storage is kept. `revoked`: the session was ended, by the person on another device or by
   * the operator; the storage is kept. `forgotten`: the person has logged out in another tab, and
   * the storage is empty. `wrong_user`: the token is that of somebody else than `userId`; the
   * storage is kept.
   */
  loggedOut: LoggedOut;
  /** One is not in this conversation (any more); it has left the inbox. */
  gone: { readonly conversationId: string };
}

export type LoggedOut = "expired" | "revoked" | "forgotten" | "wrong_user";

export type TokenSource = string | (() => string | Promise<string>);

/** What this library needs of a WebSocket: the browser's own, or the one of `@bluetick/client/node`. */
export interface SocketLike {
  onopen: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: ((event: { code: number }) => void) | null;
  onerror: ((event: unknown) => void) | null;
  readonly readyState: number;
  send(text: string): void;
  close(code?: number): void;
}

export type SocketConstructor = new (url: string) => SocketLike;

export interface ClientOptions {
  /** Of the server: `https://chat.example.org`. */
  readonly url: string;
  /** A function is asked again when the server no longer takes what it gave. */
  readonly token: TokenSource;
  readonly userId: string;
  /** Where the device remembers; nothing lasts where it is left out. */
  readonly storage?: Storage;
  readonly deviceId?: string;
  /** For places without a global one. */
  readonly webSocket?: SocketConstructor;
  readonly fetch?: typeof fetch;
  /** From 0 up to 1. */
  readonly random?: () => number;
  /** Milliseconds since the Unix epoch. */
  readonly now?: () => number;
}

export interface Session {
  readonly token: string;
  readonly userId: string;
  /** Milliseconds since the Unix epoch. */
  readonly expiresAt: number;
}

export interface Person {
  readonly userId: string;
  /** The user id where no name was given. */
  readonly name: string;
}

export interface Profile {
  readonly userId: string;
  readonly displayName: string | null;
  readonly showPresence: boolean;
}

/** How many have one message: without its sender and those who joined later. */
export interface Receipts {
  readonly recipients: number;
  readonly delivered: number;
  readonly read: number;
}

/** Who has one message; each recipient is in exactly one of the lists. */
export interface Readers {
  readonly read: readonly string[];
  readonly delivered: readonly string[];
  readonly waiting: readonly string[];
}
