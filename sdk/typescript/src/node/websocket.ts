// A small WebSocket client for Node versions without one, on top of Node's HTTP client. It has text
// messages only and no extensions. Reconnecting does not belong here; `connection.ts` does it.

import { createHash, randomBytes } from "node:crypto";
import { request as requestPlain } from "node:http";
import type { ClientRequest } from "node:http";
import { request as requestSecure } from "node:https";
import type { Duplex } from "node:stream";
import type { SocketLike } from "../types.ts";
import { encodeFrame, FrameError, FrameReader, OPCODE } from "./frames.ts";

/** The constant of RFC 6455 for the handshake. */
const MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/** Upper bound on the size of a message. A larger one closes the connection with 1009. */
const MESSAGE_LIMIT_BYTES = 16 * 1024 * 1024;
/** Upper bound on the closing handshake. The client then destroys the socket. */
const CLOSE_WITHIN_MS = 2_000;
/** The close code of a connection that ended without a close frame. */
const ABNORMAL_CLOSURE = 1006;

// The values of `readyState`, as in browsers.
type Phase = 0 | 1 | 2 | 3;
const CONNECTING: Phase = 0;
const OPEN: Phase = 1;
const CLOSING: Phase = 2;
const CLOSED: Phase = 3;

const decoder = new TextDecoder("utf-8", { fatal: true });

/** A WebSocket client for text messages. */
export class NodeWebSocket implements SocketLike {
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  onerror: ((event: unknown) => void) | null = null;
  #phase: Phase = CONNECTING;
  #request: ClientRequest;
  #socket: Duplex | null = null;
  #reader = new FrameReader(MESSAGE_LIMIT_BYTES);
  /** The parts of a message that arrives in several frames. */
  #parts: Buffer[] = [];
  #partsBytes = 0;
  #closeCode = ABNORMAL_CLOSURE;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(url: string) {
    const target = new URL(url.replace(/^ws/, "http"));
    const key = randomBytes(16).toString("base64");
    const expected = createHash("sha1").update(key + MAGIC).digest("base64");
    const headers = { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13", "sec-websocket-key": key };
    // A shared agent would queue the request behind others.
    const request = (target.protocol === "https:" ? requestSecure : requestPlain)(target, { headers, agent: false });
    this.#request = request;
    request.on("upgrade", (response, socket, head) => {
      if (response.headers["sec-websocket-accept"] === expected) this.#open(socket, head);
      else socket.destroy();
      if (!this.#socket) this.#ended();
    });
    request.on("response", (response) => {
      response.resume();
      request.destroy();
      this.#ended();
    });
    request.on("error", () => this.#ended());
    request.end();
  }

  get readyState(): number {
    return this.#phase;
  }

  send(text: string): void {
    if (this.#phase === OPEN) this.#write(OPCODE.TEXT, Buffer.from(text));
  }

  close(code = 1000): void {
    if (this.#phase === CONNECTING) {
      this.#request.destroy();
      this.#ended();
    } else if (this.#phase === OPEN) {
      this.#phase = CLOSING;
      const payload = Buffer.alloc(2);
      payload.writeUInt16BE(code);
      this.#write(OPCODE.CLOSE, payload);
      this.#socket?.end();
      this.#timer = setTimeout(() => this.#socket?.destroy(), CLOSE_WITHIN_MS);
    }
  }

  #open(socket: Duplex, head: Buffer): void {
    if (this.#phase !== CONNECTING) {
      socket.destroy();
      return;
    }
    this.#socket = socket;
    this.#phase = OPEN;
    if ("setNoDelay" in socket) (socket as Duplex & { setNoDelay(on: boolean): void }).setNoDelay(true);
    socket.on("data", (chunk: Buffer) => this.#received(chunk));
    socket.on("error", () => {});
    socket.on("end", () => socket.end());
    socket.on("close", () => this.#ended());
    this.onopen?.();
    if (head.length > 0) this.#received(head);
  }

  #write(opcode: number, payload: Buffer): void {
    this.#socket?.write(encodeFrame(opcode, payload));
  }

  #received(chunk: Buffer): void {
    this.#reader.push(chunk);
    try {
      for (let frame = this.#reader.next(); frame; frame = this.#reader.next()) this.#handleFrame(frame.opcode, frame.isFinal, frame.payload);
    } catch (error) {
      this.#closeCode = error instanceof FrameError ? error.code : 1007;
      this.close(this.#closeCode);
      this.#socket?.destroy();
    }
  }

  #handleFrame(opcode: number, isFinal: boolean, payload: Buffer): void {
    switch (opcode) {
      case OPCODE.PING:
        if (this.#phase === OPEN) this.#write(OPCODE.PONG, payload);
        return;
      case OPCODE.PONG:
        return;
      case OPCODE.CLOSE:
        this.#closeCode = payload.length >= 2 ? payload.readUInt16BE(0) : 1005;
        this.close();
        return;
      case OPCODE.TEXT:
      case OPCODE.CONTINUATION:
        if ((opcode === OPCODE.TEXT) !== (this.#parts.length === 0)) throw new FrameError(1002, "a new message inside a fragmented message");
        return this.#collect(isFinal, payload);
      default:
        throw new FrameError(1003, "only text messages are supported");
    }
  }

  #collect(isFinal: boolean, payload: Buffer): void {
    this.#parts.push(payload);
    this.#partsBytes += payload.length;
    if (this.#partsBytes > MESSAGE_LIMIT_BYTES) throw new FrameError(1009, "a message is too large");
    if (!isFinal) return;
    const whole = this.#parts.length === 1 ? payload : Buffer.concat(this.#parts);
    this.#parts = [];
    this.#partsBytes = 0;
    const data = decoder.decode(whole);
    if (this.#phase === OPEN) this.#deliver(data);
  }

  /** Delivers a message. An exception of the listener does not close the connection. */
  #deliver(data: string): void {
    try {
      this.onmessage?.({ data });
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  #ended(): void {
    if (this.#phase === CLOSED) return;
    this.#phase = CLOSED;
    clearTimeout(this.#timer);
    this.onclose?.({ code: this.#closeCode });
  }
}
