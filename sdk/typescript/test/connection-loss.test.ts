// Tests in which connections are cut, delayed, silenced and refused, and the server is killed.
// Every message must arrive once and in order. Reconnect delays do not belong here;
// `connection.test.ts` tests them.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { TestContext } from "node:test";
import { Proxy } from "./support/proxy.ts";
import { isOffline, isOnline, numbered, seeded, sentBut, stored, texts, until, Fixture } from "./support/fixture.ts";

let fixture: Fixture;
before(async () => (fixture = await Fixture.start()));
after(() => fixture.stop());

async function proxied(test: TestContext): Promise<Proxy> {
  const proxy = await Proxy.before(fixture.server.address);
  test.after(() => proxy.stop());
  return proxy;
}

/** Asserts that the server has exactly these messages, in order. */
async function assertStored(session: { token: string; userId: string; expiresAt: number }, id: string, expected: string[]): Promise<void> {
  const found = (await stored(fixture.server.url, session, id)).map(({ content }) => content);
  assert.deepEqual(found, expected);
}

test("500_messages_over_randomly_cut_connections_arrive_once_and_in_order", async (t) => {
  const seed = Number(process.env["BLUETICK_SEED"] ?? Date.now() % 1_000_000);
  t.diagnostic(`seed ${seed}`);
  const random = seeded(seed);
  const [hers, his] = [await proxied(t), await proxied(t)];
  const { aliceSession, bobSession, chat: { id } } = await fixture.pair(t);
  const impatient = { random: () => 0.001 };
  const alice = await fixture.online(t, aliceSession, { url: hers.url, ...impatient });
  const bob = await fixture.online(t, bobSession, { url: his.url, ...impatient });
  const [chat, reply] = [alice.conversation(id), bob.conversation(id)];
  t.after(reply.open());
  let written = 0;
  const sides = [
    { proxy: hers, cutAt: -1, progress: () => written - alice.waitingCount },
    { proxy: his, cutAt: -1, progress: () => reply.window.toSeq },
  ];
  const timer = setInterval(() => {
    const side = sides[random() < 0.5 ? 0 : 1] as (typeof sides)[number];
    const { proxy } = side;
    // Let most connections transfer something before the cut. Otherwise a slow machine makes no
    // progress.
    if (!proxy.swallowsAnswers && side.progress() === side.cutAt && random() < 0.9) return;
    side.cutAt = side.progress();
    proxy.swallowsAnswers = random() < 0.3;
    proxy.delay_ms = random() < 0.2 ? 5 : 0;
    if (proxy.swallowsAnswers || random() < 0.5) setTimeout(() => proxy.cut(), 10);
  }, 25);
  t.after(() => clearInterval(timer));
  const expected = numbered(500);
  for (const [index, text] of expected.entries()) {
    chat.send(text);
    written += 1;
    if (index % 5 === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  }
  // Send half of the messages while connections are cut.
  await sentBut(250, alice);
  clearInterval(timer);
  for (const proxy of [hers, his]) {
    proxy.swallowsAnswers = false;
    proxy.delay_ms = 0;
    proxy.cut();
  }
  await sentBut(0, alice);
  await until(() => reply.messages.at(-1)?.seq === 500, "everything has arrived", 60_000);
  await assertStored(aliceSession, id, expected);
  assert.deepEqual(texts(reply).slice(-500), expected);
  assert.deepEqual(texts(chat), expected.slice(-chat.messages.length));
  await until(() => reply.entry?.unread === 500 && chat.entry?.unread === 0, "and is counted");
});

test("resend_after_a_lost_ack_stores_no_second_message", async (t) => {
  const proxy = await proxied(t);
  const { aliceSession, chat: { id } } = await fixture.pair(t);
  const alice = await fixture.online(t, aliceSession, { url: proxy.url });
  const chat = alice.conversation(id);
  proxy.swallowsAnswers = true;
  chat.send("did you get it?");
  await until(async () => (await stored(fixture.server.url, aliceSession, id)).length === 1, "the server has it");
  assert.equal(chat.messages[0]?.state, "sending");
  assert.equal(chat.cancel(chat.messages[0]?.message_id ?? ""), false, "a message that the server may have was cancelled");
  proxy.swallowsAnswers = false;
  proxy.cut();
  await until(() => chat.messages[0]?.seq === 1, "the resend returns the first seq");
  await assertStored(aliceSession, id, ["did you get it?"]);
  assert.deepEqual(texts(chat), ["did you get it?"]);
});

test("killed_server_loses_and_duplicates_no_message", async (t) => {
  const own = await Fixture.start();
  t.after(() => own.stop());
  const { alice, bob, chat, reply, aliceSession } = await own.pair(t);
  const expected = numbered(60);
  for (const text of expected.slice(0, 30)) chat.send(text);
  await until(() => alice.waitingCount < 20, "some are sent");
  await own.server.kill();
  await isOffline(alice);
  for (const text of expected.slice(30)) chat.send(text);
  await own.server.startAgain();
  await until(() => alice.waitingCount === 0 && texts(reply).length === 60, "all have arrived");
  assert.deepEqual((await stored(own.server.url, aliceSession, chat.id)).map(({ content }) => content), expected);
  assert.deepEqual(texts(reply), expected);
  assert.equal(bob.connection.state, "online");
});

test("client_reconnects_after_a_server_restart_with_close_code_1012", async (t) => {
  const own = await Fixture.start();
  t.after(() => own.stop());
  const { alice } = await own.pair(t);
  const closeCodes = new Set<number | null>();
  alice.subscribe(() => closeCodes.add(alice.connection.closeCode));
  await own.server.terminate();
  await own.server.startAgain();
  await isOnline(alice);
  assert(closeCodes.has(1012), "the close code of a restart is missing");
});

test("messages_written_offline_are_shown_and_sent_in_order_after_the_reconnect", async (t) => {
  const proxy = await proxied(t);
  const { aliceSession, chat: { id } } = await fixture.pair(t);
  const alice = await fixture.online(t, aliceSession, { url: proxy.url });
  const chat = alice.conversation(id);
  proxy.refuses = true;
  proxy.cut();
  await isOffline(alice);
  const expected = numbered(50);
  for (const text of expected) chat.send(text);
  const unwanted = chat.send("on second thought");
  assert.deepEqual(texts(chat), [...expected, "on second thought"]);
  assert(chat.messages.every(({ state }) => state === "queued"));
  assert.equal(chat.cancel(unwanted.message_id), true);
  proxy.refuses = false;
  alice.reconnect();
  await until(() => alice.waitingCount === 0, "all are sent");
  await assertStored(aliceSession, id, expected);
  assert.deepEqual(texts(chat), expected);
});

test("message_1001_in_the_outbox_is_refused_with_outbox_full", async (t) => {
  const proxy = await proxied(t);
  const { aliceSession, chat: { id } } = await fixture.pair(t);
  const alice = await fixture.online(t, aliceSession, { url: proxy.url });
  proxy.refuses = true;
  proxy.cut();
  await isOffline(alice);
  const chat = alice.conversation(id);
  for (const text of numbered(1_000)) chat.send(text);
  assert.throws(() => chat.send("one too many"), { code: "outbox_full" });
  proxy.refuses = false;
  alice.reconnect();
  await sentBut(0, alice);
  await assertStored(aliceSession, id, numbered(1_000));
});

test("rate_limited_messages_keep_their_order", async (t) => {
  const limited = await Fixture.start({ BLUETICK_LIMITS__SENDS_PER_SECOND: "40", BLUETICK_LIMITS__SENDS_BURST: "10" });
  t.after(() => limited.stop());
  const { alice, aliceSession, chat } = await limited.pair(t);
  const expected = numbered(60);
  for (const text of expected) chat.send(text);
  await sentBut(0, alice);
  assert.deepEqual((await stored(limited.server.url, aliceSession, chat.id)).map(({ content }) => content), expected);
});

test("long_absence_is_caught_up_in_order_without_gaps_or_duplicates", async (t) => {
  const proxy = await proxied(t);
  const { alice, bobSession, chat, reply } = await fixture.pair(t);
  chat.send("before");
  await until(() => texts(reply).length === 1, "bob has the first");
  const bob = await fixture.online(t, bobSession, { url: proxy.url });
  const away = bob.conversation(chat.id);
  t.after(away.open());
  await until(() => away.messages.length === 1, "the other device shows it");
  proxy.refuses = true;
  proxy.cut();
  await isOffline(bob);
  for (const part of [0, 500, 1_000]) {
    for (const text of numbered(500, part + 1)) chat.send(text);
    await sentBut(0, alice);
  }
  proxy.refuses = false;
  bob.reconnect();
  await until(() => away.window.toSeq === 1_501 && away.window.reachesHead, "all 1,501 are here", 40_000);
  const seqs = away.messages.map(({ seq }) => seq as number);
  assert.deepEqual(seqs, Array.from({ length: seqs.length }, (_, index) => 1_501 - seqs.length + 1 + index), "without a gap");
  await until(() => away.entry?.unread === 1_501, "and counted");
});

test("silent_network_is_detected_by_a_ping_without_answer", { timeout: 60_000 }, async (t) => {
  const proxy = await proxied(t);
  const session = await fixture.user("alice");
  t.mock.timers.enable({ apis: ["setInterval"] });
  const alice = await fixture.online(t, session, { url: proxy.url });
  proxy.isBlackHole = true;
  t.mock.timers.tick(25_000);
  await until(() => alice.connection.state !== "online", "a ping without an answer", 15_000);
  proxy.isBlackHole = false;
  proxy.cut();
  t.mock.timers.reset();
  await isOnline(alice);
});
