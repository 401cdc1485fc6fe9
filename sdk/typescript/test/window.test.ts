// Tests of windows over a long history: pages at both ends, jumps, and trimming. The joining rules
// without a server do not belong here; `conversation-state.test.ts` tests them.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Conversation } from "../src/index.ts";
import { numbered, sentBut, until, Fixture } from "./support/fixture.ts";
import type { Pair } from "./support/fixture.ts";

let fixture: Fixture;
before(async () => (fixture = await Fixture.start()));
after(() => fixture.stop());

const bounds = ({ window, messages }: Conversation): unknown[] => [window.fromSeq, window.toSeq, messages.length, window.reachesStart, window.reachesHead];

async function longChat(test: Parameters<Fixture["pair"]>[0], count: number): Promise<Pair> {
  const pair = await fixture.pair(test);
  for (const text of numbered(count)) pair.chat.send(text);
  await sentBut(0, pair.alice);
  await until(() => pair.chat.entry?.peer_status.last_delivered_seq === count, "all are sent and delivered");
  return pair;
}

test("trimmed_window_pages_to_the_start_and_back_to_the_head", async (t) => {
  const { bobSession, chat } = await longChat(t, 230);
  const bob = await fixture.online(t, bobSession);
  const history = bob.conversation(chat.id);
  t.after(history.open());
  await until(() => history.messages.length === 50, "the newest page");
  assert.deepEqual(bounds(history), [181, 230, 50, false, true]);
  while (!history.window.reachesStart) {
    await history.loadOlder();
    history.trim(100, "older");
  }
  assert.deepEqual(bounds(history), [1, 100, 100, true, false]);
  chat.send("while away from the end");
  await until(() => history.newerCount === 131, "the message is counted and not shown");
  while (!history.window.reachesHead) await history.loadNewer();
  assert.deepEqual(bounds(history), [1, 231, 231, true, true]);
  history.trim(60);
  assert.deepEqual(bounds(history), [172, 231, 60, false, true]);
  chat.send("at the end");
  await until(() => history.window.toSeq === 232, "the new message is shown");
});

test("show_around_jumps_to_a_message_and_load_newest_returns", async (t) => {
  const { bobSession, chat } = await longChat(t, 200);
  const bob = await fixture.online(t, bobSession);
  const history = bob.conversation(chat.id);
  t.after(history.open());
  await until(() => history.messages.length === 50, "the newest page");
  await history.showAround(60);
  assert.deepEqual(bounds(history), [36, 85, 50, false, false]);
  const before = history.messages;
  await history.showAround(40);
  assert.equal(history.messages, before, "a shown message needed a page");
  await history.loadOlder();
  await history.loadNewer();
  assert.deepEqual(bounds(history), [1, 135, 135, true, false]);
  await history.loadNewest();
  assert.deepEqual(bounds(history), [151, 200, 50, false, true]);
});

test("show_latest_without_a_network_shows_the_loaded_newest_messages_and_the_outbox", async (t) => {
  const { bobSession, chat } = await longChat(t, 120);
  let isDown = false;
  const call: typeof fetch = (...given) => (isDown ? Promise.reject(new Error("down")) : fetch(...given));
  const bob = await fixture.online(t, bobSession, { fetch: call });
  const history = bob.conversation(chat.id);
  t.after(history.open());
  await until(() => history.messages.length === 50, "the newest page");
  await history.showAround(10);
  assert.equal(history.window.reachesHead, false);
  chat.send("while away from the end");
  await until(() => history.newerCount > 0 && history.entry?.last_seq === 121, "the message is counted and not shown");
  isDown = true;
  assert.equal(history.showLatest(), true);
  assert.deepEqual(bounds(history), [71, 121, 51, false, true]);
  history.send("an answer");
  assert.equal(history.messages.at(-1)?.content, "an answer");
  assert.equal(history.showLatest(), true, "the window is at the head already");
});

test("show_latest_changes_nothing_if_newest_messages_are_not_loaded", async (t) => {
  const { bobSession, chat } = await longChat(t, 120);
  const bob = await fixture.online(t, bobSession);
  const history = bob.conversation(chat.id);
  // The window has not held the newest messages yet.
  await history.showAround(10);
  const before = bounds(history);
  assert.equal(history.showLatest(), false);
  assert.deepEqual(bounds(history), before);
});

test("newest_page_joins_messages_that_arrive_during_the_load", async (t) => {
  const { bobSession, chat, alice } = await longChat(t, 60);
  const bob = await fixture.online(t, bobSession);
  const history = bob.conversation(chat.id);
  for (const text of numbered(300, 61)) chat.send(text);
  const close = history.open();
  await sentBut(0, alice);
  await until(() => history.window.reachesHead && history.window.toSeq === 360, "the window reaches the head");
  const { fromSeq } = history.window;
  history.messages.forEach(({ seq }, index) => assert.equal(seq, fromSeq + index));
  close();
  await until(() => history.messages.length <= 100, "the closed window is trimmed");
});

test("failed_page_sets_window_error_until_the_next_load_succeeds", async (t) => {
  const { bobSession, chat } = await longChat(t, 120);
  let isDown = false;
  const call: typeof fetch = (...given) => (isDown && String(given[0]).includes("/messages") ? Promise.reject(new Error("down")) : fetch(...given));
  const bob = await fixture.online(t, bobSession, { fetch: call });
  const history = bob.conversation(chat.id);
  t.after(history.open());
  await until(() => history.messages.length === 50, "the newest page");
  isDown = true;
  await history.loadOlder();
  assert(history.window.error);
  assert.equal(history.window.loading, false);
  isDown = false;
  await history.loadOlder();
  assert.deepEqual([history.window.error, history.window.fromSeq], [null, 21]);
});

test("unavailable_archive_sets_error_code_and_newer_messages_stay", async (t) => {
  const { bobSession, chat } = await longChat(t, 120);
  let isDown = false;
  const refusal = JSON.stringify({ error: { code: "archive_unavailable", message: "older messages cannot be read now" } });
  const call: typeof fetch = async (...given) => (isDown && String(given[0]).includes("before_seq") ? new Response(refusal, { status: 503 }) : fetch(...given));
  const bob = await fixture.online(t, bobSession, { fetch: call });
  const history = bob.conversation(chat.id);
  t.after(history.open());
  await until(() => history.messages.length === 50, "the newest page");
  isDown = true;
  await history.loadOlder();
  assert.deepEqual([history.window.errorCode, history.messages.length], ["archive_unavailable", 50]);
  chat.send("meanwhile");
  await until(() => history.window.toSeq === 121, "the new message is shown");
  isDown = false;
  await history.loadOlder();
  assert.deepEqual([history.window.errorCode, history.window.fromSeq], [null, 21]);
});

test("inbox_of_several_pages_lists_each_entry_once", async (t) => {
  const { alice, aliceSession, bob } = await fixture.pair(t);
  for (let index = 0; index < 120; index += 1) await alice.createGroup(`group ${index}`, [bob.userId]);
  const phone = await fixture.online(t, aliceSession);
  await until(() => phone.inbox.entries().length === 50, "the first page");
  while (phone.inbox.hasMore()) await phone.inbox.loadMore();
  assert.equal(phone.inbox.entries().length, 121);
  assert.equal(phone.inbox.entries()[0]?.title, "group 119");
  assert.deepEqual([phone.inbox.hasMore(true), phone.inbox.entries(true).length], [false, 0]);
});
