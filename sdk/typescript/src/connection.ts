// The WebSocket half of the contract: one connection at a time, opened again whenever it ends. Frames go in and out as
// objects; what they mean is decided elsewhere.

import type { Tokens } from "./api.ts";
import { baseOf } from "./api.ts";
import { CLOSE, pauseBeforeNext_ms } from "./backoff.ts";
import type { ClientFrame, HelloFrame, ServerFrame } from "./generated.ts";
import { noteAnswer, originHint } from "./origin.ts";
import type { ConnectionStatus, LoggedOut, SocketConstructor, SocketLike } from "./types.ts";

const PING_EVERY_MS = 25_000;
const PONG_WITHIN_MS = 10_000;
const WELCOME_WITHIN_MS = 15_000;
/** Only a connection that lasts this long ends the growing pauses. */
const LASTS_MS = 5_000;
/** An attempt that takes this long may have begun before the network was there. */
const STUCK_MS = 3_000;
/** A token that is refused later than this may have expired on the way; one that is refused sooner was never good. */
const FRESH_MS = 5_000;
const OPEN = 1;

export interface ConnectionHandlers {
  /** What the device has, for the hello. */
  positions(): NonNullable<HelloFrame["positions"]>;
  onFrame(frame: ServerFrame): void;
  /** Before the state changes for everybody else. */
  onLost(closeCode: number): void;
  onChange(): void;
  /**
   * The server is of another origin, it never answered this page, and no connection could be
   * opened: said once until one could.
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
  #comeBackAfter_ms: number | null = null;
  /** When a fresh token was had for one that was refused; null once it was taken, or an attempt ended in another way. */
  #freshTokenAt_ms: number | null = null;
  #isStarted = false;
  #caughtUp = false;
  #status: Omit<ConnectionStatus, "caughtUp">;
  /** Ends what an attempt before the present one still waits for. */
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
    globalThis.addEventListener?.("online", this.wake);
    globalThis.addEventListener?.("offline", this.#probe);
    globalThis.document?.addEventListener("visibilitychange", this.#onVisible);
    void this.#connect();
  }

  stop(): void {
    this.#isStarted = false;
    globalThis.removeEventListener?.("online", this.wake);
    globalThis.removeEventListener?.("offline", this.#probe);
    globalThis.document?.removeEventListener("visibilitychange", this.#onVisible);
    const wasOnline = this.isOnline;
    this.#drop();
    if (wasOnline) this.#handlers.onLost(0);
    this.#become("offline", { waitingUntilMs: null });
  }

  /** False when there is no connection. */
  send(frame: ClientFrame): boolean {
    if (!this.isOnline || this.#socket?.readyState !== OPEN) return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  /** The network may be back: no more waiting. */
  wake = (): void => {
    const { state, sinceMs } = this.#status;
    if (!this.#isStarted) return;
    if (state === "online") this.#probe();
    else if (state === "offline" || this.#options.now() - sinceMs > STUCK_MS) void this.#connect();
  };

  #onVisible = (): void => {
    if (globalThis.document?.visibilityState === "visible") this.wake();
  };

  async #connect(): Promise<void> {
    this.#drop();
    const generation = this.#generation;
    this.#become("connecting", { waitingUntilMs: null });
    this.#timer = setTimeout(() => this.#lost(0), WELCOME_WITHIN_MS);
    try {
      this.#token = await this.#tokens.current();
    } catch {
      if (generation === this.#generation) this.#lost(0);
      return;
    }
    if (generation !== this.#generation) return;
    let socket: SocketLike;
    try {
      socket = new this.#options.webSocket(`${baseOf(this.#options.url).replace(/^http/, "ws")}/v1/ws`);
    } catch {
      this.#lost(0);
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
      this.#lost(code);
    };
    // Every error is followed by a close.
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
      this.#comeBackAfter_ms = frame.after_ms;
      return;
    }
    if (frame.type === "welcome") {
      clearTimeout(this.#timer);
      this.#freshTokenAt_ms = null;
      this.#pinger = setInterval(this.#probe, PING_EVERY_MS);
      this.#onlineAt = this.#options.now();
      this.#become("online", { offlineSinceMs: null, closeCode: null, error: null });
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

  /** A dead network can leave a socket open for many minutes; a ping without an answer tells. */
  probe(within_ms: number): void {
    const until_ms = this.#options.now() + within_ms;
    if (this.#pong === undefined ? !this.send({ type: "ping" }) : this.#pongUntil_ms <= until_ms) return;
    clearTimeout(this.#pong);
    this.#pongUntil_ms = until_ms;
    this.#pong = setTimeout(() => this.#lost(0), within_ms);
  }

  #probe = (): void => this.probe(PONG_WITHIN_MS);

  #lost(code: number): void {
    const lasted = this.isOnline && this.#options.now() - this.#onlineAt >= LASTS_MS;
    if (lasted) this.#attempt = 0;
    this.#drop();
    this.#handlers.onLost(code);
    if (code === CLOSE.UNAUTHENTICATED || code === CLOSE.TOKEN_REVOKED || code === CLOSE.TOKEN_EXPIRED) {
      void this.#logInAgain(code);
      return;
    }
    this.#freshTokenAt_ms = null;
    this.#wait(code);
  }

  #wait(code: number): void {
    const pause_ms = this.#comeBackAfter_ms ?? pauseBeforeNext_ms(this.#attempt, code, this.#options.random);
    this.#comeBackAfter_ms = null;
    this.#attempt += 1;
    this.#timer = setTimeout(() => void this.#connect(), pause_ms);
    this.#become("offline", { closeCode: code, waitingUntilMs: this.#options.now() + pause_ms });
  }

  async #logInAgain(code: number): Promise<void> {
    this.#become("offline", { closeCode: code, waitingUntilMs: null });
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

  #become(state: ConnectionStatus["state"], facts: Partial<ConnectionStatus>): void {
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
