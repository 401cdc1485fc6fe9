// Tests of stored state: between starts, after a crash, with a second client, and with a failing
// storage. The storage adapters do not belong here; `storage.test.ts` tests them.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { absenceOf, fileStorage, memoryStorage } from "../src/node/index.ts";
import type { Storage } from "../src/node/index.ts";
import { Proxy } from "./support/proxy.ts";
import { isOffline, isOnline, numbered, stored, texts, until, Fixture } from "./support/fixture.ts";

let fixture: Fixture;
before(async () => (fixture = await Fixture.start()));
after(() => fixture.stop());

/** A URL without a server. */
const UNREACHABLE = "http://127.0.0.1:9";

test("start_without_a_network_shows_the_stored_state", async (t) => {
  const storage = memoryStorage();
  const { bobSession, chat } = await fixture.pair(t);
  // The scope of the storage contains the URL of the server, so both clients need the same URL.
  const proxy = await Proxy.before(fixture.server.address);
  t.after(() => proxy.stop());
  const bob = await fixture.online(t, bobSession, { url: proxy.url, storage });
  for (const text of numbered(5)) chat.send(text);
  const close = bob.conversation(chat.id).open();
  await until(() => texts(bob.conversation(chat.id)).length === 5 && bob.inbox.unreadTotal === 5, "bob has them");
  await until(() => bob.me !== undefined, "bob has his profile");
  close();
  bob.people.name("carol");
  await bob.stop();
  proxy.refuses = true;
  const again = fixture.client(t, bobSession, { url: proxy.url, storage });
  await again.start();
  assert.deepEqual(texts(again.conversation(chat.id)), numbered(5));
  assert.equal(again.inbox.entries()[0]?.unread, 5);
  assert.equal(again.me?.userId, again.userId);
  again.conversation(chat.id).markRead();
  assert.equal(again.inbox.unreadTotal, 0);
  await again.stop();
  proxy.refuses = false;
  const back = await fixture.online(t, bobSession, { url: proxy.url, storage });
  await until(() => chat.tick(chat.messages[4] as never) === "read", "the read receipt is sent after the reconnect");
  assert.deepEqual(texts(back.conversation(chat.id)), numbered(5), "a message is shown twice");
});

test("lost_message_is_not_stored_and_is_fetched_at_the_next_start", async (t) => {
  const kept = memoryStorage();
  const written: string[] = [];
  const write: Storage["write"] = (scope, changes) => {
    written.push(...changes.filter(({ kind }) => kind === "messages").map(({ value }) => JSON.stringify(value)));
    return kept.write(scope, changes);
  };
  const storage: Storage = { read: (...given) => kept.read(...given), clear: (scope) => kept.clear(scope), close: () => kept.close(), write };
  const { bobSession, chat } = await fixture.pair(t);
  for (const text of numbered(5)) chat.send(text);
  await until(() => chat.entry?.peer_status.last_delivered_seq === 5, "a device of bob has them");
  const losing: typeof fetch = async (...given) => {
    const answer = await fetch(...given);
    if (!String(given[0]).includes("/messages")) return answer;
    const page = (await answer.json()) as { messages: { seq: number }[] };
    const messages = page.messages.map((message) => (message.seq === 3 ? { ...message, content: "", content_type: "lost" } : message));
    return new Response(JSON.stringify({ ...page, messages }));
  };
  const bob = await fixture.online(t, bobSession, { storage, fetch: losing });
  const close = bob.conversation(chat.id).open();
  // The client stores messages of listed conversations only.
  await until(() => texts(bob.conversation(chat.id)).length === 5 && bob.inbox.entries().length === 1, "the page and the entry are loaded");
  assert.deepEqual(bob.conversation(chat.id).messages.map(absenceOf), [null, null, "lost", null, null]);
  close();
  await bob.stop();
  assert.deepEqual(written.filter((record) => record.includes("lost")), []);
  assert.match(written.at(-1) ?? "", /number 5/);
  const again = await fixture.online(t, bobSession, { storage });
  t.after(again.conversation(chat.id).open());
  await until(() => texts(again.conversation(chat.id)).join() === numbered(5).join(), "all messages are readable");
});

test("messages_missed_between_two_starts_follow_the_stored_ones", async (t) => {
  const storage = memoryStorage();
  const { bob: first, bobSession, chat } = await fixture.pair(t);
  await first.stop();
  const bob = await fixture.online(t, bobSession, { storage });
  for (const text of numbered(20)) chat.send(text);
  await until(() => texts(bob.conversation(chat.id)).length === 20 && bob.inbox.unreadTotal === 20, "bob has them");
  await bob.stop();
  for (const text of numbered(20, 21)) chat.send(text);
  await until(() => chat.messages.at(-1)?.seq === 40, "stored");
  const again = await fixture.online(t, bobSession, { storage });
  await until(() => again.inbox.unreadTotal === 40, "all are counted");
  assert.deepEqual(texts(again.conversation(chat.id)), numbered(40));
});

test("message_stored_by_a_killed_process_is_sent_once_by_the_next_one", async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "bluetick-death-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const { aliceSession, chat } = await fixture.pair(t);
  const script = fileURLToPath(new URL("support/killed-client.js", import.meta.url));
  const child = spawn(process.execPath, [script, fixture.server.url, aliceSession.token, aliceSession.userId, directory, chat.id], { stdio: ["ignore", "inherit", "inherit"] });
  const [, signal] = (await once(child, "exit")) as [number | null, string | null];
  assert.equal(signal, "SIGKILL");
  assert.deepEqual(await stored(fixture.server.url, aliceSession, chat.id), []);
  for (const start of [1, 2]) {
    const alice = await fixture.online(t, aliceSession, { storage: fileStorage(directory) });
    await until(() => alice.waitingCount === 0, `sent by start ${start}`);
    await alice.stop();
  }
  assert.deepEqual((await stored(fixture.server.url, aliceSession, chat.id)).map(({ content }) => content), ["last words"]);
});

test("two_clients_on_one_storage_show_the_same_and_send_every_message_once", async (t) => {
  const storage = memoryStorage();
  const { aliceSession, bob, chat: { id }, reply } = await fixture.pair(t);
  const proxy = await Proxy.before(fixture.server.address);
  t.after(() => proxy.stop());
  const options = { url: proxy.url, storage };
  const [one, two] = [await fixture.online(t, aliceSession, options), await fixture.online(t, aliceSession, options)];
  for (const client of [one, two]) t.after(client.conversation(id).open());
  reply.send("question");
  const isShown = (client = one): boolean => texts(client.conversation(id)).length === 1 && client.inbox.unreadTotal === 1;
  await until(() => isShown(one) && isShown(two), "both show and count it");
  proxy.refuses = true;
  proxy.cut();
  await Promise.all([isOffline(one), isOffline(two)]);
  one.conversation(id).markRead();
  await until(() => two.inbox.unreadTotal === 0, "a read in one client is a read in the other");
  one.conversation(id).send("from one");
  await until(() => texts(two.conversation(id)).includes("from one"), "the other client shows the queued message");
  two.conversation(id).send("from two");
  await until(() => texts(one.conversation(id)).includes("from two"), "the first client shows the queued message");
  const scope = `${one.userId} at ${proxy.url}`;
  const written = async (): Promise<string> => JSON.stringify([...(await storage.read(scope, "messages")).values()]);
  await until(async () => (await written()).includes("question"), "the shown messages are stored");
  const third = fixture.client(t, aliceSession, options);
  await third.start();
  assert.deepEqual(texts(third.conversation(id)), ["question", "from one", "from two"]);
  proxy.refuses = false;
  for (const client of [one, two, third]) client.reconnect();
  await until(() => [one, two, third].every((client) => client.waitingCount === 0), "every outbox is empty");
  const found = (await stored(fixture.server.url, aliceSession, id)).map(({ content }) => content);
  assert.deepEqual(found.sort(), ["from one", "from two", "question"]);
  for (const client of [one, two]) await until(() => texts(client.conversation(id)).length === 3, "each client shows each message once");
  assert.equal(bob.connection.state, "online");
});

test("new_epoch_drops_stored_messages_and_keeps_the_outbox", async (t) => {
  const storage = memoryStorage();
  const { aliceSession, chat, reply } = await fixture.pair(t);
  const proxy = await Proxy.before(fixture.server.address);
  t.after(() => proxy.stop());
  const options = { url: proxy.url, storage };
  const alice = await fixture.online(t, aliceSession, options);
  reply.send("true");
  await until(() => texts(alice.conversation(chat.id)).includes("true") && alice.inbox.entries().length === 1, "it is here");
  proxy.refuses = true;
  proxy.cut();
  await isOffline(alice);
  alice.conversation(chat.id).send("queued");
  await until(() => alice.waitingCount === 1, "it is in the outbox");
  await alice.stop();
  await pretendOtherEpoch(storage, `${alice.userId} at ${proxy.url}`);
  const again = fixture.client(t, aliceSession, options);
  await again.start();
  assert.deepEqual(texts(again.conversation(chat.id)), ["unknown", "queued"]);
  proxy.refuses = false;
  again.reconnect();
  await isOnline(again);
  await until(() => again.waitingCount === 0, "the outbox is empty");
  t.after(again.conversation(chat.id).open());
  await until(() => texts(again.conversation(chat.id)).join() === "true,queued", "the conversation shows the server's messages");
});

/**
 * Simulates a restore of the server's store: another epoch, and a message that the server does not
 * have.
 */
async function pretendOtherEpoch(storage: Storage, scope: string): Promise<void> {
  await storage.write(scope, [{ kind: "meta", key: "epoch", value: 987 }]);
  for (const kind of ["inbox", "messages"] as const) {
    for (const [key, value] of await storage.read(scope, kind)) {
      const changed = JSON.parse(JSON.stringify(value).replaceAll('"true"', '"unknown"')) as object;
      await storage.write(scope, [{ kind, key, value: { ...changed, epoch: 987 } }]);
    }
  }
}

test("failing_storage_emits_trouble_once_and_messages_are_sent", async (t) => {
  const broken: Storage = {
    read: () => Promise.reject(new Error("denied")),
    write: () => Promise.reject(new Error("quota")),
    clear: () => Promise.reject(new Error("denied")),
    close: () => Promise.reject(new Error("denied")),
  };
  const { aliceSession, chat, reply } = await fixture.pair(t);
  const alice = fixture.client(t, aliceSession, { storage: broken });
  const trouble: string[] = [];
  alice.on("trouble", (text) => trouble.push(text));
  await alice.start();
  await isOnline(alice);
  alice.conversation(chat.id).send("all the same");
  await until(() => texts(reply).includes("all the same"), "it is sent");
  await until(() => alice.waitingCount === 0, "the outbox is empty");
  assert.equal(trouble.length, 1);
});

test("storage_without_answer_delays_a_message_by_seconds_only", async (t) => {
  const never = (): Promise<never> => new Promise(() => {});
  const storage: Storage = { read: async () => new Map(), write: never, clear: never, close: async () => {} };
  const { aliceSession, chat, reply } = await fixture.pair(t);
  const alice = await fixture.online(t, aliceSession, { storage });
  alice.conversation(chat.id).send("all the same");
  await until(() => texts(reply).includes("all the same"), "it is sent", 10_000);
});

test("forget_deletes_all_records_of_the_user", async (t) => {
  const storage = memoryStorage();
  const { aliceSession, chat } = await fixture.pair(t);
  const alice = await fixture.online(t, aliceSession, { storage });
  alice.conversation(chat.id).send("secret");
  await until(() => alice.waitingCount === 0, "it is sent");
  await alice.forget();
  for (const kind of ["meta", "inbox", "messages", "outbox", "people"] as const) {
    assert.equal((await storage.read(`${alice.userId} at ${fixture.server.url}`, kind)).size, 0);
  }
});

test("start_with_an_unreachable_server_resolves_and_retries", async (t) => {
  const { aliceSession } = await fixture.pair(t);
  const alice = fixture.client(t, aliceSession, { url: UNREACHABLE });
  await alice.start();
  await until(() => alice.connection.waitingUntilMs !== null, "the next attempt is scheduled");
  assert.notEqual(alice.connection.offlineSinceMs, null);
});
