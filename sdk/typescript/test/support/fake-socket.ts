// A fake WebSocket that the test controls. The rules of the server do not belong here.

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

  /** Opens the connection, sends the welcome and ends the catch-up. */
  welcome(): void {
    this.open();
    this.deliver({ type: "caught_up" });
  }

  /** Opens the connection and sends the welcome; the catch-up continues. */
  open(user_id = "alice", server_time = 0): void {
    this.readyState = 1;
    this.onopen?.();
    this.deliver({ type: "welcome", user_id, session_id: "s", epoch: 1, server_time });
  }

  deliver(frame: object): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  end(code: number): void {
    this.onclose?.({ code });
  }
}
