// Tabs with Web Locks: each sends its own, and takes over only what nobody is there to send.

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

test("a tab that is there sends its own; one that dies leaves its messages to the other, which sends them once, in order", async (t) => {
  const storage = memoryStorage();
  const { aliceSession, chat: { id } } = await fixture.pair(t);
  const [hers, other] = [await Proxy.before(fixture.server.address), await Proxy.before(fixture.server.address)];
  for (const proxy of [hers, other]) t.after(() => proxy.stop());
  // One storage remembers one server: to both tabs it has the same name.
  const through = (proxy: Proxy): typeof fetch => (input, options) => fetch(String(input).replace(hers.url, proxy.url), options);
  const dying = await fixture.online(t, aliceSession, { url: hers.url, storage });
  const [firstLock] = locks.held().slice(-1) as [string];
  const staying = await fixture.online(t, aliceSession, { url: hers.url, storage, fetch: through(other), webSocket: socketThrough(hers, other) });
  hers.refuses = true;
  hers.cut();
  await isOffline(dying);
  dying.conversation(id).send("one");
  dying.conversation(id).send("two");
  await until(() => texts(staying.conversation(id)).length === 2, "the other tab shows them");
  staying.conversation(id).send("three, from the other tab");
  await until(() => staying.waitingCount === 2, "which sends its own and not theirs");
  assert.deepEqual(await contents(id, aliceSession), ["three, from the other tab"]);
  locks.die(firstLock);
  await until(() => staying.waitingCount === 0, "until their tab is gone");
  assert.deepEqual(await contents(id, aliceSession), ["three, from the other tab", "one", "two"]);
});

test("who logs out in one tab is logged out in the other, and the storage holds nothing of them", async (t) => {
  const storage = memoryStorage();
  const { aliceSession, chat: { id } } = await fixture.pair(t);
  const [leaving, staying] = [await fixture.online(t, aliceSession, { storage }), await fixture.online(t, aliceSession, { storage })];
  leaving.conversation(id).send("to be forgotten");
  await until(() => texts(staying.conversation(id)).length === 1, "both tabs show it");
  let reason = "";
  staying.on("loggedOut", (why) => (reason = why));
  await leaving.forget();
  await until(() => reason === "forgotten", "the other tab is told");
  const scope = `${aliceSession.userId} at ${fixture.server.url}`;
  for (const kind of STORAGE_KINDS) await until(async () => (await storage.read(scope, kind)).size === 0, `nothing is left of ${kind}`);
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
