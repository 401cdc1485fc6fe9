// The public entry point for Node: everything of the browser entry point, a client that has its own
// WebSocket where Node has none, and a file storage. Implementations do not belong here.

import { BluetickClient as UniversalClient } from "../client.ts";
import type { ClientOptions, SocketConstructor } from "../types.ts";
import { NodeWebSocket } from "./websocket.ts";

export * from "../index.ts";
export { fileStorage } from "./file-storage.ts";
export { NodeWebSocket } from "./websocket.ts";

/** A client that also works in Node versions without a global WebSocket. */
export class BluetickClient extends UniversalClient {
  constructor(options: ClientOptions) {
    super({ webSocket: (globalThis.WebSocket as SocketConstructor | undefined) ?? NodeWebSocket, ...options });
  }
}
