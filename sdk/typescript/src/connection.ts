// The WebSocket half of the server contract: keeps one connection open, authenticates it, and opens
// it again when it ends. The meaning of frames does not belong here; `client.ts` dispatches them.

import type { Tokens } from "./api.ts";
import { baseOf } from "./api.ts";
import { CLOSE, reconnectDelay_ms } from "./backoff.ts";
import type { ClientFrame, HelloFrame, ServerFrame } from "./generated.ts";
import { noteAnswer, originHint } from "./origin.ts";
import type { ConnectionStatus, LoggedOut, SocketConstructor, SocketLike } from "./types.ts";

/** The time between two pings. A dead connection is found after this time plus `PONG_WITHIN_MS`. */
const PING_EVERY_MS = 25_000;
/** Upper bound on the answer to a ping. Any frame counts as an answer. */
const PONG_WITHIN_MS = 10_000;
/** Upper bound on an attempt, from its start to the welcome. The next attempt follows. */
const WELCOME_WITHIN_MS = 15_000;
/**
 * The minimum duration of a stable connection. Only a stable connection resets the reconnect delay.
 */
const STABLE_AFTER_MS = 5_000;
/**
 * The minimum age of an attempt that `reconnectNow` replaces. An older attempt may have started
 * without a network.
 */
const STUCK_MS = 3_000;
/**
 * A fresh token that the server refuses within this time was never valid, so the session ends. A
 * token that is refused later may have expired in between.
 */
const FRESH_MS = 5_000;
/** The `readyState` of an open WebSocket. */
const OPEN = 1;

/** The callbacks by which the connection uses the client. */
export interface ConnectionHandlers {
  /** The seq that the device has of each conversation, for the hello. */
  positions(): NonNullable<HelloFrame["positions"]>;
  onFrame(frame: ServerFrame): void;
  /** Called before `onChange`, so that modules reset their state before listeners read it. */
  onDisconnected(closeCode: number): void;
  onChange(): void;
  /**
   * Called when no connection could be opened to a server of another origin that never answered
   * this page. Called once until a connection opens.
   */
  onUnreachable(reason: string): void;
}

export interface ConnectionOptions {
  readonly url: string;
  readonly deviceId: string | undefined;
  readonly webSocket: SocketConstructor;
  readonly random: () => number;
  readonly now: () => number;
}

/** The connection of one client. */
export class Connection {
  #options: ConnectionOptions;
  #tokens: Tokens & { end(reason: LoggedOut): void };
  #handlers: ConnectionHandlers;
  #socket: SocketLike | null = null;
  #token = "";
  #attempt = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #pinger: ReturnType<typeof setInterval> | undefined;
  #pong: ReturnType<typeof setTimeout> | undefined;
  #pongUntil_ms = 0;
  #onlineAt = 0;
  #reconnectAfter_ms: number | null = null;
  /**
   * When the source returned a fresh token for a refused one; null after the server accepted it, or
   * after another kind of failure.
   */
  #freshTokenAt_ms: number | null = null;
  #isStarted = false;
  #caughtUp = false;
  #status: Omit<ConnectionStatus, "caughtUp">;
  /** Counts the attempts. An asynchronous step of an earlier attempt compares it and stops. */
  #generation = 0;

  constructor(options: ConnectionOptions, tokens: Tokens & { end(reason: LoggedOut): void }, handlers: ConnectionHandlers) {
    this.#options = options;
    this.#tokens = tokens;
    this.#handlers = handlers;
    const now = options.now();
    this.#status = { state: "offline", sinceMs: now, offlineSinceMs: now, waitingUntilMs: null, closeCode: null, error: null };
  }

  get status(): ConnectionStatus {
    return { ...this.#status, caughtUp: this.#caughtUp };
  }

  get isOnline(): boolean {
    return this.#status.state === "online";
  }

  get isCaughtUp(): boolean {
    return this.#caughtUp;
  }

  start(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    globalThis.addEventListener?.("online", this.reconnectNow);
    globalThis.addEventListener?.("offline", this.#probe);
    globalThis.document?.addEventListener("visibilitychange", this.#onVisible);
    void this.#connect();
  }

  stop(): void {
    this.#isStarted = false;
    globalThis.removeEventListener?.("online", this.reconnectNow);
    globalThis.removeEventListener?.("offline", this.#probe);
    globalThis.document?.removeEventListener("visibilitychange", this.#onVisible);
    const wasOnline = this.isOnline;
    this.#drop();
    if (wasOnline) this.#handlers.onDisconnected(0);
    this.#setStatus("offline", { waitingUntilMs: null });
  }

  /** Sends a frame. Returns false if there is no connection. */
  send(frame: ClientFrame): boolean {
    if (!this.isOnline || this.#socket?.readyState !== OPEN) return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  /** Ends the delay before the next attempt. While online, it probes the connection instead. */
  reconnectNow = (): void => {
    const { state, sinceMs } = this.#status;
    if (!this.#isStarted) return;
    if (state === "online") this.#probe();
    else if (state === "offline" || this.#options.now() - sinceMs > STUCK_MS) void this.#connect();
  };

  #onVisible = (): void => {
    if (globalThis.document?.visibilityState === "visible") this.reconnectNow();
  };

  async #connect(): Promise<void> {
    this.#drop();
    const generation = this.#generation;
    this.#setStatus("connecting", { waitingUntilMs: null });
    this.#timer = setTimeout(() => this.#disconnected(0), WELCOME_WITHIN_MS);
    try {
      this.#token = await this.#tokens.current();
    } catch {
      if (generation === this.#generation) this.#disconnected(0);
      return;
    }
    if (generation !== this.#generation) return;
    let socket: SocketLike;
    try {
      socket = new this.#options.webSocket(`${baseOf(this.#options.url).replace(/^http/, "ws")}/v1/ws`);
    } catch {
      this.#disconnected(0);
      return;
    }
    this.#socket = socket;
    let isOpened = false;
    socket.onopen = () => {
      isOpened = true;
      noteAnswer(this.#options.url);
      const { deviceId } = this.#options;
      const hello: HelloFrame = { type: "hello", token: this.#token, positions: this.#handlers.positions() };
      socket.send(JSON.stringify(deviceId === undefined ? hello : { ...hello, device_id: deviceId }));
    };
    socket.onmessage = ({ data }) => this.#received(data);
    socket.onclose = ({ code }) => {
      if (!isOpened) this.#noteUnreachable();
      this.#disconnected(code);
    };
    // A close event follows every error event, and `onclose` handles it.
    socket.onerror = () => {};
  }

  #received(data: unknown): void {
    clearTimeout(this.#pong);
    this.#pong = undefined;
    let frame: ServerFrame;
    try {
      frame = JSON.parse(String(data)) as ServerFrame;
    } catch {
      return;
    }
    if (frame.type === "come_back") {
      this.#reconnectAfter_ms = frame.after_ms;
      return;
    }
    if (frame.type === "welcome") {
      clearTimeout(this.#timer);
      this.#freshTokenAt_ms = null;
      this.#pinger = setInterval(this.#probe, PING_EVERY_MS);
      this.#onlineAt = this.#options.now();
      this.#setStatus("online", { offlineSinceMs: null, closeCode: null, error: null });
    } else if (frame.type === "caught_up") {
      this.#caughtUp = true;
      this.#handlers.onChange();
    }
    this.#handlers.onFrame(frame);
  }

  #noteUnreachable(): void {
    const reason = originHint(this.#options.url);
    if (reason === null || this.#status.error === reason) return;
    this.#status = { ...this.#status, error: reason };
    this.#handlers.onUnreachable(reason);
  }

  /**
   * Sends a ping and expects an answer within the given time; otherwise it drops the connection. A
   * dead network can keep a socket open for many minutes.
   */
  probe(within_ms: number): void {
    const until_ms = this.#options.now() + within_ms;
    if (this.#pong === undefined ? !this.send({ type: "ping" }) : this.#pongUntil_ms <= until_ms) return;
    clearTimeout(this.#pong);
    this.#pongUntil_ms = until_ms;
    this.#pong = setTimeout(() => this.#disconnected(0), within_ms);
  }

  #probe = (): void => this.probe(PONG_WITHIN_MS);

  #disconnected(code: number): void {
    const lasted = this.isOnline && this.#options.now() - this.#onlineAt >= STABLE_AFTER_MS;
    if (lasted) this.#attempt = 0;
    this.#drop();
    this.#handlers.onDisconnected(code);
    if (code === CLOSE.UNAUTHENTICATED || code === CLOSE.TOKEN_REVOKED || code === CLOSE.TOKEN_EXPIRED) {
      void this.#logInAgain(code);
      return;
    }
    this.#freshTokenAt_ms = null;
    this.#wait(code);
  }

  #wait(code: number): void {
    const pause_ms = this.#reconnectAfter_ms ?? reconnectDelay_ms(this.#attempt, code, this.#options.random);
    this.#reconnectAfter_ms = null;
    this.#attempt += 1;
    this.#timer = setTimeout(() => void this.#connect(), pause_ms);
    this.#setStatus("offline", { closeCode: code, waitingUntilMs: this.#options.now() + pause_ms });
  }

  async #logInAgain(code: number): Promise<void> {
    this.#setStatus("offline", { closeCode: code, waitingUntilMs: null });
    const generation = this.#generation;
    const { now } = this.#options;
    const reason: LoggedOut = code === CLOSE.TOKEN_REVOKED ? "revoked" : "expired";
    if (now() - (this.#freshTokenAt_ms ?? Number.NEGATIVE_INFINITY) < FRESH_MS) {
      this.#tokens.end(reason);
      return;
    }
    try {
      const token = await this.#tokens.fresh(this.#token, reason);
      if (generation !== this.#generation || !this.#isStarted || token === null) return;
    } catch {
      if (generation === this.#generation && this.#isStarted) this.#wait(0);
      return;
    }
    this.#freshTokenAt_ms = now();
    void this.#connect();
  }

  #setStatus(state: ConnectionStatus["state"], facts: Partial<ConnectionStatus>): void {
    const now = this.#options.now();
    const { offlineSinceMs } = this.#status;
    const sinceMs = state === this.#status.state ? this.#status.sinceMs : now;
    this.#status = { ...this.#status, offlineSinceMs: offlineSinceMs ?? now, ...facts, state, sinceMs };
    this.#handlers.onChange();
  }

  #drop(): void {
    this.#generation += 1;
    clearTimeout(this.#timer);
    clearInterval(this.#pinger);
    clearTimeout(this.#pong);
    this.#pong = undefined;
    this.#caughtUp = false;
    const socket = this.#socket;
    this.#socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }
}
