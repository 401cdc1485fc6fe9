// A TCP proxy between a client and the server that cuts, delays, drops and refuses. Decisions about
// when do not belong here; tests make them.

import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Server as NetServer, Socket } from "node:net";

export class Proxy {
  /** Accepts connections and drops all bytes. */
  isBlackHole = false;
  /** Drops the bytes of the server and forwards those of the client. */
  swallowsAnswers = false;
  refuses = false;
  delay_ms = 0;
  #listener: NetServer;
  #pairs = new Set<[Socket, Socket]>();
  #target: { host: string; port: number };

  private constructor(target: { host: string; port: number }) {
    this.#target = target;
    this.#listener = createServer((socket) => this.#take(socket));
  }

  static async before(target: { host: string; port: number }): Promise<Proxy> {
    const proxy = new Proxy(target);
    proxy.#listener.listen(0, "127.0.0.1");
    await once(proxy.#listener, "listening");
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#listener.address() as AddressInfo).port}`;
  }

  get openCount(): number {
    return this.#pairs.size;
  }

  #take(near: Socket): void {
    if (this.refuses) {
      near.destroy();
      return;
    }
    const far = connect(this.#target);
    const pair: [Socket, Socket] = [near, far];
    this.#pairs.add(pair);
    for (const [from, to, isAnswer] of [
      [near, far, false],
      [far, near, true],
    ] as const) {
      from.on("data", (chunk) => this.#pass(chunk, to, isAnswer));
      from.on("error", () => {});
      from.on("close", () => {
        this.#pairs.delete(pair);
        to.destroy();
      });
    }
  }

  #pass(chunk: Buffer, to: Socket, isAnswer: boolean): void {
    if (this.isBlackHole || (isAnswer && this.swallowsAnswers)) return;
    if (this.delay_ms === 0) to.write(chunk);
    else setTimeout(() => !to.destroyed && to.write(chunk), this.delay_ms);
  }

  /** Resets all open connections. */
  cut(): void {
    for (const [near, far] of this.#pairs) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
  }

  async stop(): Promise<void> {
    this.#listener.close();
    this.cut();
  }
}
