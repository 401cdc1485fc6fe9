// A TCP proxy between a browser and the server, which a test can make fail.

import { once } from "node:events";
import net from "node:net";

export class Proxy {
  #pairs = new Set();
  #mode = "open";

  static async start(target) {
    const proxy = new Proxy();
    proxy.target = target;
    proxy.listener = net.createServer((client) => proxy.#accept(client));
    proxy.listener.listen(0, "127.0.0.1");
    await once(proxy.listener, "listening");
    proxy.url = `http://127.0.0.1:${proxy.listener.address().port}`;
    return proxy;
  }

  /**
   * "open"; "closed": every connection ends at once; "drop_answers": requests reach the server, and
   * its answers are lost.
   */
  set mode(mode) {
    this.#mode = mode;
    if (mode === "closed") this.cut();
  }

  /** Ends every connection. */
  cut() {
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy();
    this.#pairs.clear();
  }

  stop() {
    this.cut();
    this.listener.close();
  }

  #accept(client) {
    if (this.#mode === "closed") return client.destroy();
    const { hostname, port } = new URL(this.target());
    const server = net.connect(Number(port), hostname);
    const pair = [client, server];
    this.#pairs.add(pair);
    const end = () => {
      this.#pairs.delete(pair);
      for (const socket of pair) socket.destroy();
    };
    for (const socket of pair) socket.on("error", end).on("close", end);
    client.on("data", (bytes) => server.write(bytes));
    server.on("data", (bytes) => this.#mode === "drop_answers" || client.write(bytes));
  }
}
