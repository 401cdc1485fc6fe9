// Starts clients with a fake server, network and clock. Tests do not belong here.

import { mock } from "node:test";
import type { TestContext } from "node:test";
import { BluetickClient } from "../../src/index.ts";
import type { ClientOptions } from "../../src/index.ts";
import { FakeSocket } from "./fake-socket.ts";

const EMPTY = { conversations: [], next_cursor: null, user_id: "alice", show_presence: true };

/** Starts a client whose frames, answers and clock the test controls. */
export async function started(test: TestContext, options: Partial<ClientOptions> = {}): Promise<BluetickClient> {
  FakeSocket.made = [];
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"] });
  test.after(() => mock.timers.reset());
  const answer = async (): Promise<Response> => new Response(JSON.stringify(EMPTY));
  const client = new BluetickClient({ url: "http://server", token: "first", userId: "alice", webSocket: FakeSocket, fetch: answer, random: () => 0.5, ...options });
  test.after(() => client.stop());
  await client.start();
  await settled();
  return client;
}

/** Waits until all pending promises have settled. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}
