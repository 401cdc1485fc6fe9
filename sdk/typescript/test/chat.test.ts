// What people do with each other, against the real server.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { TimelineMessage } from "../src/index.ts";
import { stored, texts, until, Fixture } from "./support/fixture.ts";

let fixture: Fixture;
before(async () => (fixture = await Fixture.start()));
after(() => fixture.stop());

test("a message goes from queued to sending to sent under one id, and its tick to blue", async (t) => {
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

test("unread is exact: by others, above what was read, without notices, also when read in part", async (t) => {
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
  await until(() => reply.entry?.unread === 0 && phone.inbox.unreadTotal === 1, "an answer tells of having read what came before");
});

test("what another device reads, or writes, is read here", async (t) => {
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

test("in a group the tick waits for the last, and who has read it can be asked", async (t) => {
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

test("typing shows, ends with the message, and fades", async (t) => {
  const { alice, chat, reply } = await fixture.pair(t);
  // Before the first message, the other person learns nothing of the conversation.
  chat.send("hello");
  await until(() => texts(reply).includes("hello"), "the first message is here");
  chat.typing();
  await until(() => reply.typists.includes(alice.userId), "bob sees alice type");
  chat.send("typed");
  await until(() => texts(reply).includes("typed"), "the message is here");
  assert.deepEqual(reply.typists, []);
  await until(() => (chat.typing(), reply.typists.length === 1), "she types again");
  await until(() => reply.typists.length === 0, "it fades");
});

test("presence: who is there, and when they went", async (t) => {
  const { alice, bob, chat } = await fixture.pair(t);
  t.after(chat.open());
  await until(() => chat.presence(bob.userId)?.online === true, "bob is there");
  await bob.stop();
  await until(() => chat.presence(bob.userId)?.online === false, "bob is gone");
  assert((chat.presence(bob.userId)?.last_seen_at ?? 0) > Date.now() - 60_000);
  assert.equal(alice.connection.state, "online");
});

test("the inbox is in order while messages come in, and pins, mutes and archives at once on every device", async (t) => {
  const { alice, bob, aliceSession } = await fixture.pair(t);
  const phone = await fixture.online(t, aliceSession);
  const groups = [];
  for (const title of ["a", "b", "c"]) groups.push(await alice.createGroup(title, [bob.userId]));
  const titles = (client = alice, archived = false): string => client.inbox.entries(archived).map(({ title }) => title ?? "-").join("");
  await until(() => titles() === "cba-" && titles(phone) === "cba-", "the latest is first");
  bob.conversation((groups[0] as { id: string }).id).send("news in a");
  await until(() => titles() === "acb-" && titles(phone) === "acb-", "what gets a message comes first");
  await groups[1]?.settings({ pinned: true });
  await groups[2]?.settings({ archived: true });
  assert.deepEqual([titles(), titles(alice, true)], ["ba-", "c"]);
  await until(() => titles(phone) === "ba-" && titles(phone, true) === "c", "the other device follows");
  const before = alice.inbox.entries();
  assert.equal(alice.inbox.entries(), before);
});

test("members come and go; who is out is told so, and what waited is not lost in silence", async (t) => {
  const { alice, bob } = await fixture.pair(t);
  const carol = await fixture.online(t, await fixture.user("carol"));
  const group = await alice.createGroup("Club", [bob.userId]);
  await group.addMembers([carol.userId]);
  assert.deepEqual((await group.members()).map(({ user_id }) => user_id).sort(), [alice.userId, bob.userId, carol.userId].sort());
  await until(() => carol.conversation(group.id).entry?.title === "Club", "carol has the group");
  const gone: string[] = [];
  carol.on("gone", ({ conversationId }) => gone.push(conversationId));
  await group.removeMember(carol.userId);
  await until(() => gone.includes(group.id), "carol is told");
  assert.equal(carol.inbox.entries().length, 0);
  const trouble: string[] = [];
  carol.on("trouble", (text) => trouble.push(text));
  carol.conversation(group.id).send("am I still here?");
  await until(() => trouble.length > 0, "carol hears that it was not sent");
  assert.equal(carol.waitingCount, 0);
  await bob.conversation(group.id).leave();
  assert.equal(bob.inbox.entries().some(({ conversation_id }) => conversation_id === group.id), false);
});

test("listeners hear of new messages by others alone", async (t) => {
  const { bob, bobSession, chat, reply } = await fixture.pair(t);
  const heard: string[] = [];
  bob.on("message", ({ content }) => heard.push(content));
  reply.send("my own");
  await until(() => texts(chat).includes("my own"), "his own is through");
  chat.send("hers");
  await until(() => heard.length > 0, "bob hears");
  assert.deepEqual(heard, ["hers"]);
  await bob.stop();
  chat.send("missed");
  await until(() => chat.messages.at(-1)?.seq === 3, "it is stored");
  const again = fixture.client(t, bobSession);
  again.on("message", ({ content }) => heard.push(content));
  await again.start();
  await until(() => again.inbox.unreadTotal === 2, "what was missed is counted");
  assert.deepEqual(heard, ["hers"]);
});

test("names are found, fetched together and kept; a profile is changed", async (t) => {
  const { alice, bob } = await fixture.pair(t);
  await bob.updateMe({ displayName: "Robert Blue" });
  assert.equal(bob.me?.displayName, "Robert Blue");
  assert.equal(alice.people.name(bob.userId), bob.userId);
  await until(() => alice.people.name(bob.userId) === "Robert Blue", "the name is learned");
  assert.deepEqual(await alice.people.search("blu"), [{ userId: bob.userId, name: "Robert Blue" }]);
});

test("what cannot be sent fails for good and can be tried again or taken back; the rest goes on", async (t) => {
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

test("a frame that no connection takes fails alone, whatever else is under way", async (t) => {
  const { alice, bob, chat } = await fixture.pair(t);
  const group = await alice.createGroup("Other", [bob.userId]);
  const huge = chat.send("x".repeat(600_000));
  group.send("at the same time");
  chat.send("afterwards");
  await until(() => alice.waitingCount === 1, "all but one are sent");
  assert.equal(chat.messages.find(({ message_id }) => message_id === huge.message_id)?.state, "failed");
});

test("half a character and an empty message do no harm", async (t) => {
  const { chat } = await fixture.pair(t);
  assert.throws(() => chat.send(""), { code: "invalid_request" });
  chat.send("cut \ud83d");
  await until(() => chat.messages[0]?.seq === 1, "it is sent");
  assert.equal(chat.messages[0]?.content, "cut \ufffd");
});
