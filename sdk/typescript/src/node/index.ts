// What Node applications import: everything there is, a client that brings its own WebSocket where Node has none, and a
// storage in files.

import { BluetickClient as UniversalClient } from "../client.ts";
import type { ClientOptions, SocketConstructor } from "../types.ts";
import { NodeWebSocket } from "./websocket.ts";

export * from "../index.ts";
export { fileStorage } from "./file-storage.ts";
export { NodeWebSocket } from "./websocket.ts";

/** Also where Node has no WebSocket. */
export class BluetickClient extends UniversalClient {
  constructor(options: ClientOptions) {
    super({ webSocket: (globalThis.WebSocket as SocketConstructor | undefined) ?? NodeWebSocket, ...options });
  }
}
