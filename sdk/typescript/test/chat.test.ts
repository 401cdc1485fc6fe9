// Tests of chats between users against the real server: messages, read states, typing, presence,
// inbox, groups. Failures of the network do not belong here.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { TimelineMessage } from "../src/index.ts";
import { stored, texts, until, Fixture } from "./support/fixture.ts";

let fixture: Fixture;
before(async () => (fixture = await Fixture.start()));
after(() => fixture.stop());

test("sent_message_keeps_its_id_and_its_tick_turns_blue_when_read", async (t) => {
  const { alice, reply, chat } = await fixture.pair(t);
  const states = new Set<string>();
  alice.subscribe(() => chat.messages.forEach(({ state }) => states.add(state)));
  const message = chat.send("hello");
  assert.deepEqual([message.state, message.seq, chat.tick(message)], ["queued", null, "queued"]);
  await until(() => chat.messages[0]?.seq === 1, "it is acknowledged");
  assert.equal(chat.messages[0]?.message_id, message.message_id);
  await until(() => chat.tick(chat.messages[0] as TimelineMessage) === "delivered", "two ticks");
  reply.markRead();
  await until(() => chat.tick(chat.messages[0] as TimelineMessage) === "read", "blue ticks");
  assert.deepEqual([...states], ["queued", "sending", "sent"]);
});

test("unread_count_excludes_notices_own_messages_and_read_messages", async (t) => {
  const { alice, bob, bobSession, chat, reply } = await fixture.pair(t);
  const group = await alice.createGroup("Lunch", [bob.userId]);
  for (const text of ["one", "two", "three"]) chat.send(text);
  group.send("noodles?");
  await until(() => reply.entry?.unread === 3 && bob.conversation(group.id).entry?.unread === 1, "bob counts three and one");
  assert.equal(bob.inbox.unreadTotal, 4);
  reply.markRead(2);
  assert.equal(reply.entry?.unread, 1);
  const phone = await fixture.online(t, bobSession);
  await until(() => phone.inbox.unreadTotal === 2, "the server counts the same");
  reply.send("an answer");
  await until(() => reply.entry?.unread === 0 && phone.inbox.unreadTotal === 1, "the answer marks earlier messages as read");
});

test("read_or_send_on_another_device_clears_unread_here", async (t) => {
  const { bob, bobSession, chat, reply } = await fixture.pair(t);
  const phone = await fixture.online(t, bobSession);
  for (const text of ["one", "two"]) chat.send(text);
  await until(() => phone.inbox.unreadTotal === 2 && bob.inbox.unreadTotal === 2, "both devices count two");
  phone.conversation(chat.id).markRead();
  await until(() => reply.entry?.unread === 0, "read on the other device");
  chat.send("three");
  await until(() => phone.inbox.unreadTotal === 1 && bob.inbox.unreadTotal === 1, "both devices count one");
  phone.conversation(chat.id).send("from the phone");
  await until(() => reply.entry?.unread === 0 && texts(reply).includes("from the phone"), "the answer is here, once");
  assert.equal(texts(reply).filter((text) => text === "from the phone").length, 1);
});

test("group_tick_follows_the_slowest_member_and_readers_lists_each_member", async (t) => {
  const { alice, bob } = await fixture.pair(t);
  const carol = await fixture.online(t, await fixture.user("carol"));
  const group = await alice.createGroup("Three", [bob.userId, carol.userId]);
  const sent = group.send("who is there?");
  const message = (): TimelineMessage => group.messages.find(({ message_id }) => message_id === sent.message_id) as TimelineMessage;
  await until(() => message().seq !== null && group.tick(message()) === "delivered", "delivered to both");
  bob.conversation(group.id).markRead();
  await until(() => bob.conversation(group.id).entry?.unread === 0, "bob has read");
  const seq = message().seq as number;
  await until(async () => (await group.readers(seq)).read.length === 1, "the server knows");
  assert.deepEqual(await group.readers(seq), { read: [bob.userId], delivered: [carol.userId], waiting: [] });
  assert.deepEqual(await group.receipts(seq), { recipients: 2, delivered: 2, read: 1 });
  assert.equal(group.tick(message()), "delivered");
  carol.conversation(group.id).markRead();
  await until(() => group.tick(message()) === "read", "blue when both have read");
});

test("typing_ends_with_the_message_or_after_a_timeout", async (t) => {
  const { alice, chat, reply } = await fixture.pair(t);
  // The server sends no typing frames to a user whose inbox does not list the conversation yet.
  chat.send("hello");
  await until(() => texts(reply).includes("hello"), "the first message is here");
  chat.typing();
  await until(() => reply.typists.includes(alice.userId), "bob sees alice type");
  chat.send("typed");
  await until(() => texts(reply).includes("typed"), "the message is here");
  assert.deepEqual(reply.typists, []);
  await until(() => (chat.typing(), reply.typists.length === 1), "she types again");
  await until(() => reply.typists.length === 0, "typing ends");
});

test("presence_of_a_stopped_client_is_offline_with_last_seen_time", async (t) => {
  const { alice, bob, chat } = await fixture.pair(t);
  t.after(chat.open());
  await until(() => chat.presence(bob.userId)?.online === true, "bob is online");
  await bob.stop();
  await until(() => chat.presence(bob.userId)?.online === false, "bob is offline");
  assert((chat.presence(bob.userId)?.last_seen_at ?? 0) > Date.now() - 60_000);
  assert.equal(alice.connection.state, "online");
});

test("inbox_order_pins_and_archive_are_the_same_on_every_device", async (t) => {
  const { alice, bob, aliceSession } = await fixture.pair(t);
  const phone = await fixture.online(t, aliceSession);
  const groups = [];
  for (const title of ["a", "b", "c"]) groups.push(await alice.createGroup(title, [bob.userId]));
  const titles = (client = alice, archived = false): string => client.inbox.entries(archived).map(({ title }) => title ?? "-").join("");
  await until(() => titles() === "cba-" && titles(phone) === "cba-", "the latest is first");
  bob.conversation((groups[0] as { id: string }).id).send("message in a");
  await until(() => titles() === "acb-" && titles(phone) === "acb-", "the conversation with a new message is first");
  await groups[1]?.settings({ pinned: true });
  await groups[2]?.settings({ archived: true });
  assert.deepEqual([titles(), titles(alice, true)], ["ba-", "c"]);
  await until(() => titles(phone) === "ba-" && titles(phone, true) === "c", "the other device follows");
  const before = alice.inbox.entries();
  assert.equal(alice.inbox.entries(), before);
});

test("removed_member_gets_gone_and_trouble_for_its_queued_message", async (t) => {
  const { alice, bob } = await fixture.pair(t);
  const carol = await fixture.online(t, await fixture.user("carol"));
  const group = await alice.createGroup("Club", [bob.userId]);
  await group.addMembers([carol.userId]);
  assert.deepEqual((await group.members()).map(({ user_id }) => user_id).sort(), [alice.userId, bob.userId, carol.userId].sort());
  await until(() => carol.conversation(group.id).entry?.title === "Club", "carol has the group");
  const gone: string[] = [];
  carol.on("gone", ({ conversationId }) => gone.push(conversationId));
  await group.removeMember(carol.userId);
  await until(() => gone.includes(group.id), "carol gets the gone event");
  assert.equal(carol.inbox.entries().length, 0);
  const trouble: string[] = [];
  carol.on("trouble", (text) => trouble.push(text));
  carol.conversation(group.id).send("am I still here?");
  await until(() => trouble.length > 0, "carol gets the trouble event");
  assert.equal(carol.waitingCount, 0);
  await bob.conversation(group.id).leave();
  assert.equal(bob.inbox.entries().some(({ conversation_id }) => conversation_id === group.id), false);
});

test("message_event_fires_for_new_messages_from_others_only", async (t) => {
  const { bob, bobSession, chat, reply } = await fixture.pair(t);
  const events: string[] = [];
  bob.on("message", ({ content }) => events.push(content));
  reply.send("my own");
  await until(() => texts(chat).includes("my own"), "his own message is stored");
  chat.send("hers");
  await until(() => events.length > 0, "bob gets the event");
  assert.deepEqual(events, ["hers"]);
  await bob.stop();
  chat.send("missed");
  await until(() => chat.messages.at(-1)?.seq === 3, "it is stored");
  const again = fixture.client(t, bobSession);
  again.on("message", ({ content }) => events.push(content));
  await again.start();
  await until(() => again.inbox.unreadTotal === 2, "the missed message is counted");
  assert.deepEqual(events, ["hers"]);
});

test("changed_display_name_is_fetched_and_found_by_search", async (t) => {
  const { alice, bob } = await fixture.pair(t);
  await bob.updateMe({ displayName: "Robert Blue" });
  assert.equal(bob.me?.displayName, "Robert Blue");
  assert.equal(alice.people.name(bob.userId), bob.userId);
  await until(() => alice.people.name(bob.userId) === "Robert Blue", "the name is learned");
  assert.deepEqual(await alice.people.search("blu"), [{ userId: bob.userId, name: "Robert Blue" }]);
});

test("too_large_message_fails_and_can_be_retried_or_cancelled_while_others_are_sent", async (t) => {
  const { alice, aliceSession, chat } = await fixture.pair(t);
  const large = chat.send("x".repeat(100_000));
  const small = chat.send("small");
  await until(() => chat.messages.some(({ state }) => state === "failed") && chat.messages.some(({ seq }) => seq === 1), "one fails, one arrives");
  const failed = chat.messages.find(({ message_id }) => message_id === large.message_id) as TimelineMessage;
  assert.deepEqual([failed.state, chat.tick(failed)], ["failed", "failed"]);
  assert(failed.failure);
  chat.retry(large.message_id);
  await until(() => chat.messages.at(-1)?.state === "failed", "it fails again");
  assert.equal(chat.cancel(large.message_id), true);
  assert.equal(alice.waitingCount, 0);
  assert.deepEqual((await stored(fixture.server.url, aliceSession, chat.id)).map(({ message_id }) => message_id), [small.message_id]);
});

test("too_large_frame_fails_alone_and_messages_in_flight_are_sent", async (t) => {
  const { alice, bob, chat } = await fixture.pair(t);
  const group = await alice.createGroup("Other", [bob.userId]);
  const huge = chat.send("x".repeat(600_000));
  group.send("at the same time");
  chat.send("afterwards");
  await until(() => alice.waitingCount === 1, "all but one are sent");
  assert.equal(chat.messages.find(({ message_id }) => message_id === huge.message_id)?.state, "failed");
});

test("lone_surrogate_is_replaced_and_empty_message_is_refused", async (t) => {
  const { chat } = await fixture.pair(t);
  assert.throws(() => chat.send(""), { code: "invalid_request" });
  chat.send("cut \ud83d");
  await until(() => chat.messages[0]?.seq === 1, "it is sent");
  assert.equal(chat.messages[0]?.content, "cut \ufffd");
});
