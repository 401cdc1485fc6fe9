// The WebSocket half of the contract: one connection at a time, opened again whenever it ends. Frames go in and
// out as objects; what they mean is decided elsewhere.

const BACKOFF_FIRST_MS = 500;
const BACKOFF_LIMIT_MS = 30_000;
const PING_EVERY_MS = 25_000;
const HELLO_TIMEOUT_MS = 15_000;

// From the server's table of close codes.
const RESTARTING = 1012;
const LOG_IN_AGAIN = new Set([4401, 4403]);

export class Connection {
  #socket = null;
  #attempt = 0;
  #timer = null;
  #pinger = null;
  #unanswered = false;

  /** `handlers`: onFrame(frame), onState("connecting" | "online" | "offline", close code), onExpired(), positions(). */
  constructor(token, handlers) {
    this.token = token;
    this.handlers = handlers;
    addEventListener("online", this.#connect);
    this.#connect();
  }

  /** False when there is no connection. */
  send(frame) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  stop() {
    removeEventListener("online", this.#connect);
    this.#drop();
  }

  #connect = () => {
    if (this.#socket) return;
    this.#drop();
    this.handlers.onState("connecting");
    const socket = new WebSocket(`${location.origin.replace("http", "ws")}/v1/ws`);
    this.#socket = socket;
    this.#timer = setTimeout(() => this.#lost(0), HELLO_TIMEOUT_MS);
    socket.onopen = () => this.send({ type: "hello", token: this.token, positions: this.handlers.positions() });
    socket.onmessage = ({ data }) => this.#received(JSON.parse(data));
    socket.onclose = ({ code }) => this.#lost(code);
  };

  #received(frame) {
    this.#unanswered = false;
    if (frame.type === "welcome") {
      clearTimeout(this.#timer);
      this.#pinger = setInterval(this.#ping, PING_EVERY_MS);
      this.handlers.onState("online");
    }
    this.handlers.onFrame(frame);
  }

  // A dead network can leave a socket open for many minutes; a ping without an answer tells.
  #ping = () => {
    // Only a connection that lasts ends the growing pauses.
    this.#attempt = 0;
    if (this.#unanswered) this.#lost(0);
    else this.#unanswered = this.send({ type: "ping" });
  };

  #lost(code) {
    this.#drop();
    if (LOG_IN_AGAIN.has(code)) return this.handlers.onExpired();
    this.handlers.onState("offline", code);
    this.#timer = setTimeout(this.#connect, this.#delayAfter(code));
  }

  // At random, so that a thousand clients cut off at once do not come back at once.
  #delayAfter(code) {
    if (code === RESTARTING && this.#attempt++ === 0) return 500 + Math.random() * 2_500;
    return Math.random() * Math.min(BACKOFF_LIMIT_MS, BACKOFF_FIRST_MS * 2 ** this.#attempt++);
  }

  #drop() {
    clearTimeout(this.#timer);
    clearInterval(this.#pinger);
    const socket = this.#socket;
    this.#socket = null;
    this.#unanswered = false;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }
}
