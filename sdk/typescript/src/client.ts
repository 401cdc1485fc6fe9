// The entry of the library: makes the parts, hands each what it needs, and gives every frame to the part it is for.

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
import { News } from "./news.ts";
import { assertUsable } from "./options.ts";
import { Outbox } from "./outbox.ts";
import { People } from "./people.ts";
import type { OutboxRecord } from "./queue.ts";
import { Signals } from "./signals.ts";
import { memoryStorage } from "./storage/memory.ts";
import { Sync } from "./sync.ts";
import { Tabs } from "./tabs.ts";
import type { TabMessage } from "./tabs.ts";
import { isVoid, readNotice } from "./thread.ts";
import { Threads } from "./threads.ts";
import { storedMessage } from "./timeline.ts";
import { TokenKeeper } from "./tokens.ts";
import type { Change, ClientEvents, ClientOptions, ConnectionStatus, LoggedOut, Profile, SocketConstructor } from "./types.ts";

const NO_SOCKET = "There is no WebSocket here. In Node, import from @bluetick/client/node.";

const profileOf = ({ user_id: userId, display_name: displayName = null, show_presence: showPresence }: ProfileBody): Profile => ({ userId, displayName, showPresence });

/**
 * One user's chats on one device. Its state is read from its objects at any time; `subscribe` says when to look again.
 *
 * A client is started once and stopped once. Until it is stopped it holds one connection, and opens it again by itself.
 */
export class BluetickClient {
  readonly userId: string;
  readonly inbox: Inbox;
  readonly people: People;
  #changes = new Changes();
  #events = new Events();
  #api: Api;
  #threads: Threads;
  #cache: Cache;
  #tabs: Tabs;
  #signals: Signals;
  #outbox: Outbox;
  #news: News;
  #sync: Sync;
  #history: History;
  #connection: Connection;
  #conversations = new Map<string, Conversation>();
  #parts: ConversationParts;
  #me: Profile | undefined;
  #isProfileFresh = false;
  #phase: "new" | "started" | "stopped" = "new";
  #tellLoggedOut: (options: { readonly everywhere?: boolean }) => Promise<void>;

  constructor(options: ClientOptions) {
    const { url, userId, storage = memoryStorage(), deviceId, random = Math.random, now = Date.now } = options;
    const webSocket = options.webSocket ?? (globalThis.WebSocket as SocketConstructor | undefined);
    if (!webSocket) throw new BluetickError("no_websocket", NO_SOCKET);
    assertUsable(options);
    this.userId = userId;
    const scope = `${userId} at ${baseOf(url)}`;
    const tokens = new TokenKeeper(options.token, (reason) => this.#loggedOut(reason));
    this.#tellLoggedOut = async (given) => logOut(url, await tokens.current(), given, call);
    const onTrouble = (text: string) => this.#events.emit("trouble", text);
    const onGone = (id: string) => this.#gone(id);
    const isOnline = () => this.#connection.isOnline;
    const isCaughtUp = () => this.#connection.isCaughtUp;
    const send: Connection["send"] = (frame) => this.#connection.send(frame);
    const changes = this.#changes;
    // A browser's fetch wants to be called as a function of the window.
    const call = options.fetch ?? ((...given: Parameters<typeof fetch>) => globalThis.fetch(...given));
    const api = (this.#api = new Api(url, tokens, call));
    const threads = (this.#threads = new Threads(userId));
    const cache = (this.#cache = new Cache(storage, scope, threads, onTrouble));
    const tabs = (this.#tabs = new Tabs(storage.sharedName, scope, newMessageId(now())));
    const signals = (this.#signals = new Signals(changes, send, now));
    const inbox = (this.inbox = new Inbox(threads, (archived) => this.#sync.loadMore(archived)));
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
    const news = (this.#news = new News({ userId, threads, isCaughtUp, tell: (message) => this.#events.emit("message", message) }));
    const sync = (this.#sync = new Sync({
      userId,
      random,
      api,
      threads,
      changes,
      cache,
      signals,
      outbox,
      inbox,
      send,
      isCaughtUp,
      onGone,
      onLearned: (id) => news.learned(id),
      onRead: (conversationId, seq) => tabs.tell({ type: "read", conversationId, seq }),
      onWindowLost: (thread) => this.#history.follow(thread),
    }));
    const history = (this.#history = new History({ api, threads, changes, cache, signals, sync, outbox, isOnline, onGone }));
    this.#parts = { userId, api, history, outbox, signals, sync, onGone };
    this.#connection = new Connection({ url, deviceId, webSocket, random, now }, tokens, {
      positions: () => sync.positions(),
      onFrame: (frame) => this.#onFrame(frame),
      onLost: (closeCode) => this.#onLost(closeCode),
      onChange: () => changes.mark("connection"),
      onUnreachable: onTrouble,
    });
  }

  // Its life

  /**
   * Resolves when what the storage remembers is there to be shown; the connection opens by itself. Rejects with
   * `storage_in_use` where another process uses the storage.
   */
  async start(): Promise<void> {
    if (this.#phase !== "new") throw new BluetickError("stopped", "A client is started once.");
    this.#phase = "started";
    const { outbox, names, profile } = await this.#load();
    this.people.restore(names);
    this.#me = profile;
    await this.#tabs.start((message) => this.#onTab(message));
    this.#outbox.inherit(outbox);
    for (const { timeline } of this.#threads.all()) this.#outbox.noteStoredByServer(timeline.messages);
    // It was stopped while it read.
    if (this.#phase !== "started") return this.#tabs.stop();
    this.#cache.start();
    globalThis.addEventListener?.("pagehide", this.#onHidden);
    globalThis.document?.addEventListener("visibilitychange", this.#onHidden);
    for (const part of ["inbox", "people", "me", "connection"] as const) this.#changes.mark(part);
    for (const { id } of this.#threads.all()) this.#changes.markConversation(id);
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

  /** Closes the connection and writes what is not stored yet. What waits is kept for the next start. */
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
    this.#signals.clear();
    await this.#cache.close();
    this.#tabs.stop();
  }

  /**
   * Stops, and deletes what the storage holds of this user: also messages that were never sent. See `waitingCount`. Never
   * rejects; a storage that cannot delete is told by `trouble`.
   */
  async forget(): Promise<void> {
    this.#tabs.tell({ type: "forgotten" });
    await this.#erase();
  }

  /**
   * Forgets, and tells the server that the token is void; with `everywhere`, all tokens of the user. Rejects where the
   * server did not hear it: everything here is forgotten all the same, and the token ends by itself when it expires.
   */
  async logOut(options: { readonly everywhere?: boolean } = {}): Promise<void> {
    // Nobody is to be told that the connection ended, since that is what was asked for.
    this.#connection.stop();
    const told = this.#tellLoggedOut(options);
    await Promise.all([told.catch(() => undefined), this.forget()]);
    await told;
  }

  async #erase(): Promise<void> {
    this.#cache.discard();
    await this.stop();
    await this.#cache.clear();
  }

  /** It may be the last moment. */
  #onHidden = (): void => void this.#cache.flush();

  #loggedOut(reason: LoggedOut): void {
    if (this.#phase === "stopped") return;
    void this.stop();
    this.#events.emit("loggedOut", reason);
  }

  // What an application sees

  get connection(): ConnectionStatus {
    return this.#connection.status;
  }

  /** Messages that are not with the server yet, those that failed included. */
  get waitingCount(): number {
    return this.#outbox.size;
  }

  /** One object for each id, whether the conversation is known here or not. */
  conversation(id: string): Conversation {
    let conversation = this.#conversations.get(id);
    if (!conversation) {
      conversation = new Conversation(this.#threads.get(id), this.#parts);
      this.#conversations.set(id, conversation);
    }
    return conversation;
  }

  /** The one conversation with somebody; it is made where it does not exist. */
  async openDirect(userId: string): Promise<Conversation> {
    return this.#opened((await this.#api.openDirect(userId)).conversation_id);
  }

  async createGroup(title: string, userIds: readonly string[]): Promise<Conversation> {
    return this.#opened((await this.#api.createGroup(title, userIds)).conversation_id);
  }

  async #opened(id: string): Promise<Conversation> {
    await this.#sync.refresh(this.#threads.get(id));
    return this.conversation(id);
  }

  /** One's own profile; undefined while it is not known. */
  get me(): Profile | undefined {
    return this.#me;
  }

  async updateMe({ displayName, showPresence }: { readonly displayName?: string; readonly showPresence?: boolean }): Promise<Profile> {
    // What is undefined is not sent, and stays as it is.
    const change = { display_name: displayName, show_presence: showPresence } as ProfileRequest;
    return this.#keepProfile(profileOf(await this.#api.changeProfile(change)));
  }

  #keepProfile(profile: Profile): Profile {
    this.#me = profile;
    this.#isProfileFresh = true;
    this.#cache.keepProfile(profile);
    this.#changes.mark("me");
    return profile;
  }

  /** Called at most once a turn, after everything in it has happened. Returns what ends the subscription. */
  subscribe(listener: (change: Change) => void): () => void {
    return this.#changes.subscribe(listener);
  }

  /** Things that happen once, as opposed to state that changes. Returns what ends the subscription. */
  on<Name extends keyof ClientEvents>(name: Name, listener: (detail: ClientEvents[Name]) => void): () => void {
    return this.#events.on(name, listener);
  }

  /** The network may be back: tries at once instead of at the end of the pause. */
  reconnect(): void {
    this.#connection.wake();
  }

  // What arrives

  #onLost(closeCode: number): void {
    this.#sync.lost();
    this.#outbox.lost(closeCode === CLOSE.FRAME_TOO_LARGE);
    this.#signals.clear();
  }

  #onFrame(frame: ServerFrame): void {
    switch (frame.type) {
      case "welcome":
        return frame.user_id === this.userId ? this.#onWelcome(frame) : this.#isSomebodyElse(frame.user_id);
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
        this.#sync.noticed(entry.conversation_id);
        this.#sync.learn(entry);
        return;
      }
      case "backlog":
        return this.#sync.noteBehind(frame);
      case "gone":
        return this.#gone(frame.conversation_id);
      case "typing":
        return this.#signals.noteTyping(frame.conversation_id, frame.user_id);
      case "presence":
        return this.#onPresence(frame);
      case "error":
        return this.#onError(frame);
    }
  }

  #onWelcome({ epoch, server_time }: WelcomeFrame): void {
    this.#news.welcome(server_time);
    this.#sync.welcome(epoch);
    this.#outbox.flush();
    this.#history.bringAllUpToDate();
    if (!this.#isProfileFresh) void this.#askProfile();
  }

  /** The token is another person's: nothing of theirs may be kept under this one's name, or sent in theirs. */
  #isSomebodyElse(userId: string): void {
    this.#cache.discard();
    void this.stop();
    this.#events.emit("trouble", `The token is that of ${userId}, not of ${this.userId}.`);
    this.#events.emit("loggedOut", "wrong_user");
  }

  async #askProfile(): Promise<void> {
    try {
      this.#keepProfile(profileOf(await this.#api.profile()));
    } catch {
      // The next connection asks again.
    }
  }

  #onMessage(frame: MessageFrame): void {
    const message = storedMessage(frame);
    const { conversation_id, sender_id } = message;
    if (!isVoid(message)) this.#signals.stopTyping(conversation_id, sender_id);
    const { event, user_id } = readNotice(message) ?? {};
    if ((event === "member_removed" || event === "member_left") && user_id === this.userId) return this.#gone(conversation_id);
    this.#sync.take(message);
    this.#news.pushed(message);
  }

  /** The ack stands for the message, which is not sent back to this connection. */
  #onAck({ conversation_id, message_id, seq, received_at }: AckFrame): void {
    const receiver = this.#threads.known(conversation_id)?.entry?.peer ?? null;
    const message = this.#outbox.acknowledged(message_id, seq, received_at, receiver);
    if (message) this.#sync.take(message, false);
    else this.#sync.noteHead(conversation_id, seq);
  }

  #onPresence(presence: Parameters<Signals["notePresence"]>[0]): void {
    this.#signals.notePresence(presence);
    this.#changes.mark("inbox");
    for (const { id, entry, openCount } of this.#threads.all()) {
      if (openCount > 0 || entry?.peer === presence.user_id) this.#changes.markConversation(id);
    }
  }

  #onError({ code, message, message_id = null, conversation_id = null }: ErrorFrame): void {
    if (conversation_id !== null && message_id === null) {
      // About what was delivered or read, or a word that one types.
      if (code === "conversation_not_found") this.#gone(conversation_id);
      else if (isRetryable(code)) this.#sync.tellAgain(conversation_id, null);
      return;
    }
    const conversationOfSend = message_id === null ? undefined : this.#outbox.conversationOf(message_id);
    this.#outbox.refused(code, message, message_id);
    if (message_id === null) this.#events.emit("trouble", message);
    if (code === "conversation_not_found" && conversationOfSend !== undefined) this.#gone(conversationOfSend);
  }

  #gone(conversationId: string): void {
    const isKnown = this.#threads.known(conversationId)?.entry !== undefined;
    this.#outbox.abandon(conversationId);
    this.#sync.forget(conversationId);
    this.#news.forget(conversationId);
    if (isKnown) this.#events.emit("gone", { conversationId });
  }

  // Other clients of the same storage

  #onTab(message: TabMessage): void {
    if (this.#phase === "stopped") return;
    if (message.type === "forgotten") {
      // It erases as well: what it was writing may have come after the other had erased everything.
      void this.#erase();
      this.#events.emit("loggedOut", "forgotten");
    } else if (message.type === "outbox") this.#outbox.noteStored(message.record as OutboxRecord);
    else if (message.type === "read") this.#sync.noteRead(message.conversationId, message.seq);
    else {
      this.#outbox.drop(message.messageId);
      if (message.message) this.#sync.takeFromTab(message.message);
    }
  }

  #outboxChanged(conversationId: string): void {
    this.#threads.get(conversationId).touch();
    this.#changes.markConversation(conversationId);
    this.#changes.mark("inbox");
  }
}
