// Tabs with Web Locks: each sends its own, and takes over only what nobody is there to send.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { memoryStorage, NodeWebSocket } from "../src/node/index.ts";
import type { SocketConstructor } from "../src/node/index.ts";
import { FakeLocks } from "./support/locks.ts";
import { Proxy } from "./support/proxy.ts";
import { isOffline, stored, texts, until, World } from "./support/world.ts";

let world: World;
const locks = new FakeLocks();
before(async () => {
  Object.defineProperty(globalThis, "navigator", { value: { locks }, configurable: true });
  world = await World.start();
});
after(() => world.stop());

test("a tab that is there sends its own; one that dies leaves its messages to the other, which sends them once, in order", async (t) => {
  const storage = memoryStorage();
  const { aliceSession, chat: { id } } = await world.pair(t);
  const [hers, other] = [await Proxy.before(world.server.address), await Proxy.before(world.server.address)];
  for (const proxy of [hers, other]) t.after(() => proxy.stop());
  // One storage remembers one server: to both tabs it has the same name.
  const through = (proxy: Proxy): typeof fetch => (input, options) => fetch(String(input).replace(hers.url, proxy.url), options);
  const dying = await world.online(t, aliceSession, { url: hers.url, storage });
  const [firstLock] = locks.held().slice(-1) as [string];
  const staying = await world.online(t, aliceSession, { url: hers.url, storage, fetch: through(other), webSocket: socketThrough(hers, other) });
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

async function contents(id: string, session: { token: string; userId: string; expiresAt: number }): Promise<string[]> {
  return (await stored(world.server.url, session, id)).map(({ content }) => content);
}

function socketThrough(from: Proxy, to: Proxy): SocketConstructor {
  return class extends NodeWebSocket {
    constructor(url: string) {
      super(url.replace(from.url.replace("http", "ws"), to.url.replace("http", "ws")));
    }
  };
}
