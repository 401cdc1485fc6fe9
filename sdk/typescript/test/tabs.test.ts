// Tests of two tabs with Web Locks: each tab sends its own messages and those of a dead tab.
// Storages do not belong here.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { memoryStorage, NodeWebSocket } from "../src/node/index.ts";
import { STORAGE_KINDS } from "../src/storage/storage.ts";
import type { SocketConstructor } from "../src/node/index.ts";
import { FakeLocks } from "./support/locks.ts";
import { Proxy } from "./support/proxy.ts";
import { isOffline, stored, texts, until, Fixture } from "./support/fixture.ts";

let fixture: Fixture;
const locks = new FakeLocks();
before(async () => {
  Object.defineProperty(globalThis, "navigator", { value: { locks }, configurable: true });
  fixture = await Fixture.start();
});
after(() => fixture.stop());

test("running_tab_sends_the_messages_of_a_dead_tab_once_and_in_order", async (t) => {
  const storage = memoryStorage();
  const { aliceSession, chat: { id } } = await fixture.pair(t);
  const [hers, other] = [await Proxy.before(fixture.server.address), await Proxy.before(fixture.server.address)];
  for (const proxy of [hers, other]) t.after(() => proxy.stop());
  // The scope of the storage contains the URL of the server, so both tabs need the same URL.
  const through = (proxy: Proxy): typeof fetch => (input, options) => fetch(String(input).replace(hers.url, proxy.url), options);
  const crashing = await fixture.online(t, aliceSession, { url: hers.url, storage });
  const [firstLock] = locks.held().slice(-1) as [string];
  const running = await fixture.online(t, aliceSession, { url: hers.url, storage, fetch: through(other), webSocket: socketThrough(hers, other) });
  hers.refuses = true;
  hers.cut();
  await isOffline(crashing);
  crashing.conversation(id).send("one");
  crashing.conversation(id).send("two");
  await until(() => texts(running.conversation(id)).length === 2, "the other tab shows them");
  running.conversation(id).send("three, from the other tab");
  await until(() => running.waitingCount === 2, "the running tab sends only its own message");
  assert.deepEqual(await contents(id, aliceSession), ["three, from the other tab"]);
  locks.die(firstLock);
  await until(() => running.waitingCount === 0, "the running tab sends the rest after the crash");
  assert.deepEqual(await contents(id, aliceSession), ["three, from the other tab", "one", "two"]);
});

test("forget_in_one_tab_logs_out_the_other_and_clears_the_storage", async (t) => {
  const storage = memoryStorage();
  const { aliceSession, chat: { id } } = await fixture.pair(t);
  const [loggingOut, running] = [await fixture.online(t, aliceSession, { storage }), await fixture.online(t, aliceSession, { storage })];
  loggingOut.conversation(id).send("hello");
  await until(() => texts(running.conversation(id)).length === 1, "both tabs show it");
  let reason = "";
  running.on("loggedOut", (why) => (reason = why));
  await loggingOut.forget();
  await until(() => reason === "forgotten", "the other tab gets the event");
  const scope = `${aliceSession.userId} at ${fixture.server.url}`;
  for (const kind of STORAGE_KINDS) await until(async () => (await storage.read(scope, kind)).size === 0, `no record of kind ${kind}`);
});

async function contents(id: string, session: { token: string; userId: string; expiresAt: number }): Promise<string[]> {
  return (await stored(fixture.server.url, session, id)).map(({ content }) => content);
}

function socketThrough(from: Proxy, to: Proxy): SocketConstructor {
  return class extends NodeWebSocket {
    constructor(url: string) {
      super(url.replace(from.url.replace("http", "ws"), to.url.replace("http", "ws")));
    }
  };
}
