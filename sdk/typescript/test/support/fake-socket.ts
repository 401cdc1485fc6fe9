// A WebSocket whose server is the test.

import type { SocketLike } from "../../src/index.ts";

export class FakeSocket implements SocketLike {
  static made: FakeSocket[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  onerror = null;
  readyState = 0;
  readonly sent: { type: string; token?: string }[] = [];

  constructor() {
    FakeSocket.made.push(this);
  }

  static get last(): FakeSocket {
    return FakeSocket.made.at(-1) as FakeSocket;
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text) as { type: string });
  }

  close(): void {
    this.readyState = 3;
  }

  /** The server takes the connection and says hello back. */
  welcome(): void {
    this.open();
    this.say({ type: "caught_up" });
  }

  /** The same, with a backlog that is yet to come. */
  open(user_id = "alice", server_time = 0): void {
    this.readyState = 1;
    this.onopen?.();
    this.say({ type: "welcome", user_id, session_id: "s", epoch: 1, server_time });
  }

  say(frame: object): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  end(code: number): void {
    this.onclose?.({ code });
  }
}
