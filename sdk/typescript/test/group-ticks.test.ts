// Tests of ticks in groups, which the slowest member decides, across outages, slow answers and
// changing members. The rule itself does not belong here; `ticks.test.ts` tests it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Proxy } from "./support/proxy.ts";
import { isOffline, isOnline, until, Fixture } from "./support/fixture.ts";
import type { BluetickClient, ClientOptions, Conversation, Session } from "../src/node/index.ts";
import type { TestContext } from "node:test";

let fixture: Fixture;
before(async () => (fixture = await Fixture.start()));
after(() => fixture.stop());

interface Trio {
  readonly alice: BluetickClient;
  readonly group: Conversation;
  readonly bob: Session;
  readonly carol: Session;
}

async function trio(test: TestContext, options: Partial<ClientOptions> = {}): Promise<Trio> {
  const [bob, carol] = [await fixture.user("bob"), await fixture.user("carol")];
  const alice = await fixture.online(test, await fixture.user("alice"), options);
  const group = await alice.createGroup("three", [bob.userId, carol.userId]);
  return { alice, group, bob, carol };
}

/** Reports a read over HTTP, without a client of this library. */
async function read({ id }: Conversation, { token }: Session, seq: number): Promise<void> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const response = await fetch(`${fixture.server.url}/v1/conversations/${id}/read`, { method: "POST", headers, body: JSON.stringify({ seq }) });
  assert(response.ok);
}

async function sent(conversation: Conversation, text: string): Promise<number> {
  const { message_id } = conversation.send(text);
  const seq = (): number | null => conversation.messages.find((message) => message.message_id === message_id)?.seq ?? null;
  await until(() => seq() !== null, "it is sent");
  return seq() as number;
}

const turnsBlue = (conversation: Conversation, seq: number): Promise<void> =>
  until(() => conversation.messages.some((message) => message.seq === seq && conversation.tick(message) === "read"), "two blue ticks");

test("group_tick_turns_blue_after_a_read_during_an_outage", async (t) => {
  const proxy = await Proxy.before(fixture.server.address);
  t.after(() => proxy.stop());
  let inboxLoads = 0;
  const counting: typeof fetch = async (url, options) => {
    const response = await fetch(url, options);
    inboxLoads += Number(String(url).includes("archived=true"));
    return response;
  };
  const { alice, group, bob, carol } = await trio(t, { url: proxy.url, fetch: counting });
  const first = await sent(group, "first");
  await read(group, bob, first);
  await read(group, carol, first);
  await turnsBlue(group, first);
  const second = await sent(group, "second");
  proxy.refuses = true;
  proxy.cut();
  await isOffline(alice);
  await read(group, bob, second);
  proxy.refuses = false;
  const before = inboxLoads;
  alice.reconnect();
  await isOnline(alice);
  await until(() => inboxLoads > before, "alice reloads the inbox");
  await group.members();
  await read(group, carol, second);
  await turnsBlue(group, second);
});

test("group_tick_turns_blue_when_frames_overtake_the_statuses", async (t) => {
  let answer = (): void => {};
  const answered = new Promise<void>((resolve) => (answer = resolve));
  let requests = 0;
  const slow: typeof fetch = async (url, options) => {
    const response = await fetch(url, options);
    if (!String(url).endsWith("/status")) return response;
    requests += 1;
    await answered;
    return response;
  };
  const { alice, group, bob, carol } = await trio(t, { fetch: slow });
  const bobClient = await fixture.online(t, bob);
  const seq = await sent(group, "hello");
  await read(group, bob, seq);
  await until(() => requests > 0, "alice requests the statuses");
  await read(group, carol, seq);
  // Frames arrive in order: after bob's typing frame, carol's read has arrived.
  await until(() => bobClient.conversation(group.id).entry !== undefined, "bob knows the group");
  bobClient.conversation(group.id).typing();
  await until(() => group.typists.includes(bob.userId), "alice has the frames before the typing frame");
  answer();
  await turnsBlue(group, seq);
  assert.equal(alice.connection.state, "online");
});

test("group_tick_turns_blue_for_a_message_that_was_not_loaded_when_read", async (t) => {
  const { alice, group, bob, carol } = await trio(t);
  const seq = await sent(group, "hello");
  const bobClient = await fixture.online(t, bob);
  const reply = bobClient.conversation(group.id);
  await until(() => reply.entry !== undefined, "bob knows the group");
  await sent(reply, "the last message");
  const close = group.open();
  await until(() => group.window.toSeq > seq, "it has arrived");
  await group.loadNewest();
  group.trim(1, "older");
  close();
  assert.equal(group.messages.length, 0, "a closed window away from the head was kept");
  await read(group, bob, seq);
  await read(group, carol, seq);
  reply.typing();
  await until(() => group.typists.includes(bob.userId), "alice has the frames before the typing frame");
  t.after(group.open());
  await turnsBlue(group, seq);
  assert.equal(alice.connection.state, "online");
});

test("group_tick_turns_blue_when_the_slowest_member_is_removed", async (t) => {
  const { group, bob, carol } = await trio(t);
  const seq = await sent(group, "hello");
  await read(group, bob, seq);
  await group.removeMember(carol.userId);
  await turnsBlue(group, seq);
});
