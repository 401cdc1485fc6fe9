// The entry point of the library: creates the modules, connects them, and dispatches every frame to
// the module that handles it. Rules for conversations or messages do not belong here.

import { Api, baseOf, logOut } from "./api.ts";
import { CLOSE } from "./backoff.ts";
import { Cache } from "./cache.ts";
import { Changes, Events } from "./changes.ts";
import { Connection } from "./connection.ts";
import { Conversation } from "./conversation.ts";
import type { ConversationParts } from "./conversation.ts";
import { BluetickError, isRetryable } from "./errors.ts";
import type { AckFrame, ErrorFrame, MessageFrame, ProfileBody, ProfileRequest, ServerFrame, WelcomeFrame } from "./generated.ts";
import { History } from "./history.ts";
import { Inbox } from "./inbox.ts";
import { newMessageId } from "./message-id.ts";
import { MessageNotifier } from "./message-notifier.ts";
import { assertValidOptions } from "./options.ts";
import { Outbox } from "./outbox.ts";
import { People } from "./people.ts";
import type { OutboxRecord } from "./outbox-queue.ts";
import { EphemeralState } from "./ephemeral-state.ts";
import { memoryStorage } from "./storage/memory.ts";
import { Sync } from "./sync.ts";
import { Tabs } from "./tabs.ts";
import type { TabMessage } from "./tabs.ts";
import { isVoid, readNotice } from "./conversation-state.ts";
import { ConversationStates } from "./conversation-states.ts";
import { storedMessage } from "./timeline.ts";
import { TokenCache } from "./tokens.ts";
import type { Change, ClientEvents, ClientOptions, ConnectionStatus, LoggedOut, Profile, SocketConstructor } from "./types.ts";

/** The message of `no_websocket`. */
const NO_SOCKET = "This platform has no WebSocket. In Node, import from @bluetick/client/node.";

const profileOf = ({ user_id: userId, display_name: displayName = null, show_presence: showPresence }: ProfileBody): Profile => ({ userId, displayName, showPresence });

/**
 * The chats of one user on one device. Read the state from its properties at any time; `subscribe`
 * reports when to read again.
 *
 * Call `start` once and `stop` once. In between, the client keeps one connection open and
 * reconnects automatically.
 */
export class BluetickClient {
  readonly userId: string;
  readonly inbox: Inbox;
  readonly people: People;
  #changes = new Changes();
  #events = new Events();
  #api: Api;
  #states: ConversationStates;
  #cache: Cache;
  #tabs: Tabs;
  #ephemeral: EphemeralState;
  #outbox: Outbox;
  #notifier: MessageNotifier;
  #sync: Sync;
  #history: History;
  #connection: Connection;
  #conversations = new Map<string, Conversation>();
  #parts: ConversationParts;
  #me: Profile | undefined;
  #isProfileFresh = false;
  #phase: "new" | "started" | "stopped" = "new";
  #revokeToken: (options: { readonly everywhere?: boolean }) => Promise<void>;

  constructor(options: ClientOptions) {
    const { url, userId, storage = memoryStorage(), deviceId, random = Math.random, now = Date.now } = options;
    const webSocket = options.webSocket ?? (globalThis.WebSocket as SocketConstructor | undefined);
    if (!webSocket) throw new BluetickError("no_websocket", NO_SOCKET);
    assertValidOptions(options);
    this.userId = userId;
    const scope = `${userId} at ${baseOf(url)}`;
    const tokens = new TokenCache(options.token, (reason) => this.#loggedOut(reason));
    this.#revokeToken = async (given) => logOut(url, await tokens.current(), given, call);
    const onTrouble = (text: string) => this.#events.emit("trouble", text);
    const onGone = (id: string) => this.#gone(id);
    const isOnline = () => this.#connection.isOnline;
    const isCaughtUp = () => this.#connection.isCaughtUp;
    const send: Connection["send"] = (frame) => this.#connection.send(frame);
    const changes = this.#changes;
    // A browser's fetch throws unless it is called on the window.
    const call = options.fetch ?? ((...given: Parameters<typeof fetch>) => globalThis.fetch(...given));
    const api = (this.#api = new Api(url, tokens, call));
    const states = (this.#states = new ConversationStates(userId));
    const cache = (this.#cache = new Cache(storage, scope, states, onTrouble));
    const tabs = (this.#tabs = new Tabs(storage.sharedName, scope, newMessageId(now())));
    const ephemeral = (this.#ephemeral = new EphemeralState(changes, send, now));
    const inbox = (this.inbox = new Inbox(states, (archived) => this.#sync.loadMore(archived)));
    this.people = new People(api, changes, cache, now);
    const outbox = (this.#outbox = new Outbox({
      userId,
      tabs,
      random,
      now,
      send,
      isOnline,
      probe: (within_ms) => this.#connection.probe(within_ms),
      onTrouble,
      write: (written) => cache.write(written),
      writeLater: (change) => cache.put(change),
      readStored: () => cache.read("outbox"),
      onChange: (id) => this.#outboxChanged(id),
    }));
    const notifier = (this.#notifier = new MessageNotifier({ userId, states, isCaughtUp, notify: (message) => this.#events.emit("message", message) }));
    const sync = (this.#sync = new Sync({
      userId,
      random,
      api,
      states,
      changes,
      cache,
      ephemeral,
      outbox,
      inbox,
      send,
      isCaughtUp,
      onGone,
      onEntryKnown: (id) => notifier.entryKnown(id),
      onRead: (conversationId, seq) => tabs.publish({ type: "read", conversationId, seq }),
      onWindowLost: (state) => this.#history.follow(state),
    }));
    const history = (this.#history = new History({ api, states, changes, cache, ephemeral, sync, outbox, isOnline, onGone }));
    this.#parts = { userId, api, history, outbox, ephemeral, sync, onGone };
    this.#connection = new Connection({ url, deviceId, webSocket, random, now }, tokens, {
      positions: () => sync.positions(),
      onFrame: (frame) => this.#onFrame(frame),
      onDisconnected: (closeCode) => this.#onDisconnected(closeCode),
      onChange: () => changes.add("connection"),
      onUnreachable: onTrouble,
    });
  }

  // Lifecycle

  /**
   * Loads the stored state. Resolves when the application can show it; the connection opens in the
   * background. Rejects with `storage_in_use` if another process uses the storage.
   */
  async start(): Promise<void> {
    if (this.#phase !== "new") throw new BluetickError("stopped", "A client can be started only once.");
    this.#phase = "started";
    const { outbox, names, profile } = await this.#load();
    this.people.restore(names);
    this.#me = profile;
    await this.#tabs.start((message) => this.#onTab(message));
    this.#outbox.inherit(outbox);
    for (const { timeline } of this.#states.all()) this.#outbox.noteStoredByServer(timeline.messages);
    // The application stopped the client during the load.
    if (this.#phase !== "started") return this.#tabs.stop();
    this.#cache.start();
    globalThis.addEventListener?.("pagehide", this.#onHidden);
    globalThis.document?.addEventListener("visibilitychange", this.#onHidden);
    for (const part of ["inbox", "people", "me", "connection"] as const) this.#changes.add(part);
    for (const { id } of this.#states.all()) this.#changes.addConversation(id);
    this.inbox.relist();
    this.#connection.start();
  }

  async #load(): ReturnType<Cache["load"]> {
    try {
      return await this.#cache.load();
    } catch (error) {
      this.#phase = "stopped";
      throw error;
    }
  }

  /**
   * Closes the connection and writes what is not stored yet. The outbox stays in the storage for
   * the next start. Never rejects.
   */
  async stop(): Promise<void> {
    if (this.#phase === "stopped") return;
    this.#phase = "stopped";
    globalThis.removeEventListener?.("pagehide", this.#onHidden);
    globalThis.document?.removeEventListener("visibilitychange", this.#onHidden);
    this.#connection.stop();
    this.#api.stop();
    this.#sync.stop();
    this.#outbox.stop();
    this.people.stop();
    this.#ephemeral.clear();
    await this.#cache.close();
    this.#tabs.stop();
  }

  /**
   * Stops the client and deletes what the storage holds of this user, including messages that were
   * never sent (see `waitingCount`). Never rejects: if the deletion fails, the client emits
   * `trouble`.
   */
  async forget(): Promise<void> {
    this.#tabs.publish({ type: "forgotten" });
    await this.#erase();
  }

  /**
   * Revokes the token at the server and calls `forget`. With `everywhere`, revokes all tokens of
   * the user. Rejects if the server did not confirm. The storage is deleted in any case, and the
   * token ends when it expires.
   */
  async logOut(options: { readonly everywhere?: boolean } = {}): Promise<void> {
    // The application asked for the logout, so the client must not emit `loggedOut` when the server
    // closes the connection.
    this.#connection.stop();
    const revoked = this.#revokeToken(options);
    await Promise.all([revoked.catch(() => undefined), this.forget()]);
    await revoked;
  }

  async #erase(): Promise<void> {
    this.#cache.discard();
    await this.stop();
    await this.#cache.clear();
  }

  /** The page may never run again, so write now. */
  #onHidden = (): void => void this.#cache.flush();

  #loggedOut(reason: LoggedOut): void {
    if (this.#phase === "stopped") return;
    void this.stop();
    this.#events.emit("loggedOut", reason);
  }

  // State for applications

  /** The status of the connection. */
  get connection(): ConnectionStatus {
    return this.#connection.status;
  }

  /** The number of messages in the outbox, including failed ones. */
  get waitingCount(): number {
    return this.#outbox.size;
  }

  /**
   * Returns the object of a conversation. The same id always returns the same object, even if this
   * device does not know the conversation.
   */
  conversation(id: string): Conversation {
    let conversation = this.#conversations.get(id);
    if (!conversation) {
      conversation = new Conversation(this.#states.get(id), this.#parts);
      this.#conversations.set(id, conversation);
    }
    return conversation;
  }

  /** Returns the direct conversation with a user. The server creates it if it does not exist. */
  async openDirect(userId: string): Promise<Conversation> {
    return this.#opened((await this.#api.openDirect(userId)).conversation_id);
  }

  /** Creates a group with the given title and members. */
  async createGroup(title: string, userIds: readonly string[]): Promise<Conversation> {
    return this.#opened((await this.#api.createGroup(title, userIds)).conversation_id);
  }

  async #opened(id: string): Promise<Conversation> {
    await this.#sync.refresh(this.#states.get(id));
    return this.conversation(id);
  }

  /** The user's own profile; undefined until it is known. */
  get me(): Profile | undefined {
    return this.#me;
  }

  /** Changes the user's own profile. Fields that are not given keep their values. */
  async updateMe({ displayName, showPresence }: { readonly displayName?: string; readonly showPresence?: boolean }): Promise<Profile> {
    // JSON omits undefined fields, so the server keeps their values.
    const change = { display_name: displayName, show_presence: showPresence } as ProfileRequest;
    return this.#keepProfile(profileOf(await this.#api.changeProfile(change)));
  }

  #keepProfile(profile: Profile): Profile {
    this.#me = profile;
    this.#isProfileFresh = true;
    this.#cache.keepProfile(profile);
    this.#changes.add("me");
    return profile;
  }

  /**
   * Calls the listener at most once per turn of the event loop, after all changes of the turn.
   * Returns a function that ends the subscription.
   */
  subscribe(listener: (change: Change) => void): () => void {
    return this.#changes.subscribe(listener);
  }

  /** Calls the listener for each event. Returns a function that ends the subscription. */
  on<Name extends keyof ClientEvents>(name: Name, listener: (detail: ClientEvents[Name]) => void): () => void {
    return this.#events.on(name, listener);
  }

  /** Connects at once instead of at the end of the delay. Call it when the network may be back. */
  reconnect(): void {
    this.#connection.reconnectNow();
  }

  // Frames from the server

  #onDisconnected(closeCode: number): void {
    this.#sync.disconnected();
    this.#outbox.disconnected(closeCode === CLOSE.FRAME_TOO_LARGE);
    this.#ephemeral.clear();
  }

  #onFrame(frame: ServerFrame): void {
    switch (frame.type) {
      case "welcome":
        return frame.user_id === this.userId ? this.#onWelcome(frame) : this.#rejectToken(frame.user_id);
      case "caught_up":
        return this.#sync.caughtUp();
      case "message":
        return this.#onMessage(frame);
      case "ack":
        return this.#onAck(frame);
      case "status":
        return this.#sync.noteStatus(frame);
      case "receipts":
        return this.#sync.noteReceipts(frame);
      case "conversation": {
        const { type: _, ...entry } = frame;
        this.#sync.noteActivity(entry.conversation_id);
        this.#sync.applyEntry(entry);
        return;
      }
      case "backlog":
        return this.#sync.noteBehind(frame);
      case "gone":
        return this.#gone(frame.conversation_id);
      case "typing":
        return this.#ephemeral.noteTyping(frame.conversation_id, frame.user_id);
      case "presence":
        return this.#onPresence(frame);
      case "error":
        return this.#onError(frame);
    }
  }

  #onWelcome({ epoch, server_time }: WelcomeFrame): void {
    this.#notifier.connected(server_time);
    this.#sync.welcome(epoch);
    this.#outbox.flush();
    this.#history.bringAllUpToDate();
    if (!this.#isProfileFresh) void this.#fetchProfile();
  }

  /**
   * Stops the client because the token belongs to another user. The client must not store that
   * user's data under this user's name, or send this user's messages with that token.
   */
  #rejectToken(userId: string): void {
    this.#cache.discard();
    void this.stop();
    this.#events.emit("trouble", `The token belongs to ${userId}, not to ${this.userId}.`);
    this.#events.emit("loggedOut", "wrong_user");
  }

  async #fetchProfile(): Promise<void> {
    try {
      this.#keepProfile(profileOf(await this.#api.profile()));
    } catch {
      // The next connection tries again.
    }
  }

  #onMessage(frame: MessageFrame): void {
    const message = storedMessage(frame);
    const { conversation_id, sender_id } = message;
    if (!isVoid(message)) this.#ephemeral.stopTyping(conversation_id, sender_id);
    const { event, user_id } = readNotice(message) ?? {};
    if ((event === "member_removed" || event === "member_left") && user_id === this.userId) return this.#gone(conversation_id);
    this.#sync.applyMessage(message);
    this.#notifier.messagePushed(message);
  }

  /**
   * Applies an ack as a message, because the server does not push a message to the connection that
   * sent it.
   */
  #onAck({ conversation_id, message_id, seq, received_at }: AckFrame): void {
    const receiver = this.#states.known(conversation_id)?.entry?.peer ?? null;
    const message = this.#outbox.acknowledged(message_id, seq, received_at, receiver);
    if (message) this.#sync.applyMessage(message, false);
    else this.#sync.noteHead(conversation_id, seq);
  }

  #onPresence(presence: Parameters<EphemeralState["notePresence"]>[0]): void {
    this.#ephemeral.notePresence(presence);
    this.#changes.add("inbox");
    for (const { id, entry, openCount } of this.#states.all()) {
      if (openCount > 0 || entry?.peer === presence.user_id) this.#changes.addConversation(id);
    }
  }

  #onError({ code, message, message_id = null, conversation_id = null }: ErrorFrame): void {
    if (conversation_id !== null && message_id === null) {
      // The error is about a receipt or a typing frame.
      if (code === "conversation_not_found") this.#gone(conversation_id);
      else if (isRetryable(code)) this.#sync.resendReceipts(conversation_id, null);
      return;
    }
    const conversationOfSend = message_id === null ? undefined : this.#outbox.conversationOf(message_id);
    this.#outbox.refused(code, message, message_id);
    if (message_id === null) this.#events.emit("trouble", message);
    if (code === "conversation_not_found" && conversationOfSend !== undefined) this.#gone(conversationOfSend);
  }

  #gone(conversationId: string): void {
    const isKnown = this.#states.known(conversationId)?.entry !== undefined;
    this.#outbox.abandon(conversationId);
    this.#sync.forget(conversationId);
    this.#notifier.forget(conversationId);
    if (isKnown) this.#events.emit("gone", { conversationId });
  }

  // Other clients of the same storage

  #onTab(message: TabMessage): void {
    if (this.#phase === "stopped") return;
    if (message.type === "forgotten") {
      // Erase here as well: this client may have written records after the other client erased the
      // storage.
      void this.#erase();
      this.#events.emit("loggedOut", "forgotten");
    } else if (message.type === "outbox") this.#outbox.applyRecord(message.record as OutboxRecord);
    else if (message.type === "read") this.#sync.noteRead(message.conversationId, message.seq);
    else {
      this.#outbox.drop(message.messageId);
      if (message.message) this.#sync.applyMessageFromTab(message.message);
    }
  }

  #outboxChanged(conversationId: string): void {
    this.#states.get(conversationId).invalidate();
    this.#changes.addConversation(conversationId);
    this.#changes.add("inbox");
  }
}
