// The types of the public API. Fields that come from the server keep the server's names. Behaviour
// does not belong here.

import type { InboxEntryBody, MemberBody, MessageBody, PreferenceRequest, PresenceBody } from "./generated.ts";
import type { Storage } from "./storage/storage.ts";

/** An entry of the inbox. Every change creates a new object, so compare with `===`. */
export type InboxEntry = Readonly<InboxEntryBody>;
/** How far a user has come in a conversation: the highest delivered and the highest read seq. */
export type ReadState = Readonly<InboxEntryBody["my_status"]>;
/** @deprecated Use `ReadState`. */
export type Boundaries = ReadState;
export type Presence = Readonly<PresenceBody>;
export type Member = Readonly<MemberBody>;
/** The user's settings for one conversation: pinned, muted, archived, read_receipts. */
export type Settings = PreferenceRequest;

/** The state of a message. Messages from others are always `sent`. */
export type MessageState = "queued" | "sending" | "sent" | "failed";

/** Why a message has no content. */
export type Absence = "erased" | "lost";

/** The symbol beside a message: a clock, one tick, two ticks, two blue ticks, or a warning. */
export type Tick = "queued" | "sent" | "delivered" | "read" | "failed";

/** Why the server refuses a message temporarily. The client retries automatically. */
export interface WaitingFor {
  /** An error code, such as `rate_limited`, `store_unavailable` or `overloaded`. */
  readonly code: string;
  /** A sentence for users. */
  readonly message: string;
}

/** A summary of the outbox for one conversation. */
export interface ConversationWaiting {
  /** Includes the message in flight. */
  readonly queued: number;
  readonly failed: number;
  /** The newest message in the outbox. */
  readonly last: TimelineMessage | null;
  /** Why the server refuses the first refused message; null if it refuses none. */
  readonly waitingFor: WaitingFor | null;
}

/**
 * A message, as applications show it. Every change creates a new object; the `message_id` stays the
 * same.
 */
export interface TimelineMessage extends Readonly<Omit<MessageBody, "seq" | "received_at">> {
  /** The seq in the conversation; null while the message is in the outbox. */
  readonly seq: number | null;
  /** The time by the server's clock; null while the message is in the outbox. */
  readonly received_at: number | null;
  readonly state: MessageState;
  /** Why it failed, as a sentence for users; null in every other state. */
  readonly failure: string | null;
  /** Why the server refused it temporarily. While it is `queued`, `cancel` can remove it. */
  readonly waitingFor?: WaitingFor | null;
}

/**
 * The part of a conversation that `messages` holds. It has every message from `fromSeq` to `toSeq`.
 */
export interface TimelineWindow {
  /** The first and the last stored message of the window; both 0 if it is empty. */
  readonly fromSeq: number;
  readonly toSeq: number;
  /** The user may see no message before the window. */
  readonly reachesStart: boolean;
  /**
   * The window follows the newest message, and new messages are appended. Otherwise call
   * `loadNewer` or `loadNewest`.
   */
  readonly reachesHead: boolean;
  readonly loading: boolean;
  /** Why the last load failed, as a sentence for users; null after a load that succeeded. */
  readonly error: string | null;
  /**
   * The error code of the last load, such as `archive_unavailable`: the server cannot read older
   * messages at the moment.
   */
  readonly errorCode: string | null;
}

export interface ConnectionStatus {
  readonly state: "offline" | "connecting" | "online";
  /** When this state began, by the local clock. */
  readonly sinceMs: number;
  /** When the client lost the connection, over all attempts since; null while online. */
  readonly offlineSinceMs: number | null;
  /** When the next attempt starts; null unless the client waits for it. */
  readonly waitingUntilMs: number | null;
  /** The close code of the last connection; 0 if there was none. */
  readonly closeCode: number | null;
  /**
   * Why no connection opened, as a sentence for users. Set only for a server of another origin that
   * never answered this page: the browser does not tell a refused origin from an unreachable
   * server. Null otherwise.
   */
  readonly error: string | null;
  /** The server has announced everything that the client missed. */
  readonly caughtUp: boolean;
}

/** The changes since the last call of the listener. Read the new state from the objects. */
export interface Change {
  readonly connection: boolean;
  readonly inbox: boolean;
  readonly people: boolean;
  /** The user's own profile. */
  readonly me: boolean;
  /** The conversations with changed messages, ticks, typing users, presence, window or entry. */
  readonly conversations: ReadonlySet<string>;
}

export interface ClientEvents {
  /**
   * Another user has just written a message; use it for notifications. History and missed messages
   * do not cause it.
   */
  message: TimelineMessage;
  /** A problem that the user should know, as a sentence. */
  trouble: string;
  /**
   * The client has stopped.
   *
   * - `expired`: the token expired and the source returned no fresh one. The storage is kept.
   * - `revoked`: the user or the operator revoked the session. The storage is kept.
   * - `forgotten`: the user logged out in another tab. The storage is empty.
   * - `wrong_user`: the token belongs to another user than `userId`. The storage is kept.
   */
  loggedOut: LoggedOut;
  /** The user is not in the conversation any more, and the inbox does not list it. */
  gone: { readonly conversationId: string };
}

export type LoggedOut = "expired" | "revoked" | "forgotten" | "wrong_user";

export type TokenSource = string | (() => string | Promise<string>);

/**
 * The part of the WebSocket API that the client uses. Browsers have one, and
 * `@bluetick/client/node` has one.
 */
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
  /** The URL of the server, such as `https://chat.example.org`. */
  readonly url: string;
  /**
   * A token, or a function that returns one. The client calls the function again when the server
   * refuses the token.
   */
  readonly token: TokenSource;
  readonly userId: string;
  /** Where the device stores its data. The default is memory. */
  readonly storage?: Storage;
  readonly deviceId?: string;
  /** The WebSocket class, for platforms without a global one. */
  readonly webSocket?: SocketConstructor;
  readonly fetch?: typeof fetch;
  /** Returns a number from 0 up to 1. */
  readonly random?: () => number;
  /** Returns milliseconds since the Unix epoch. */
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
  /** The display name, or the user id if the user has none. */
  readonly name: string;
}

export interface Profile {
  readonly userId: string;
  readonly displayName: string | null;
  readonly showPresence: boolean;
}

/**
 * How many users have received and read a message. The sender and users who joined later do not
 * count.
 */
export interface Receipts {
  readonly recipients: number;
  readonly delivered: number;
  readonly read: number;
}

/** Which users have received and read a message. Each recipient is in exactly one list. */
export interface Readers {
  readonly read: readonly string[];
  readonly delivered: readonly string[];
  readonly waiting: readonly string[];
}
