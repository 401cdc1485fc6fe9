// Ticks in groups, where the one furthest behind decides: over pauses, slow answers and changing members.

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

/** Somebody without a client of this library reads. */
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

test("a tick turns blue although some have read while one was away", async (t) => {
  const proxy = await Proxy.before(fixture.server.address);
  t.after(() => proxy.stop());
  let listings = 0;
  const counting: typeof fetch = async (url, options) => {
    const response = await fetch(url, options);
    listings += Number(String(url).includes("archived=true"));
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
  const before = listings;
  alice.reconnect();
  await isOnline(alice);
  await until(() => listings > before, "the inbox was read anew");
  await group.members();
  await read(group, carol, second);
  await turnsBlue(group, second);
});

test("a tick turns blue although an answer is overtaken by the frames that follow it", async (t) => {
  let answer = (): void => {};
  const answered = new Promise<void>((resolve) => (answer = resolve));
  let asked = 0;
  const slow: typeof fetch = async (url, options) => {
    const response = await fetch(url, options);
    if (!String(url).endsWith("/status")) return response;
    asked += 1;
    await answered;
    return response;
  };
  const { alice, group, bob, carol } = await trio(t, { fetch: slow });
  const heard = await fixture.online(t, bob);
  const seq = await sent(group, "hello");
  await read(group, bob, seq);
  await until(() => asked > 0, "the frame made it ask");
  await read(group, carol, seq);
  // Frames come in order: bob's typing tells that carol's reading was heard.
  await until(() => heard.conversation(group.id).entry !== undefined, "bob knows the group");
  heard.conversation(group.id).typing();
  await until(() => group.typists.includes(bob.userId), "what came before is heard");
  answer();
  await turnsBlue(group, seq);
  assert.equal(alice.connection.state, "online");
});

test("a tick turns blue although the message was not at hand when it was read", async (t) => {
  const { alice, group, bob, carol } = await trio(t);
  const seq = await sent(group, "hello");
  const heard = await fixture.online(t, bob);
  const reply = heard.conversation(group.id);
  await until(() => reply.entry !== undefined, "bob knows the group");
  await sent(reply, "the last message is somebody else's");
  const close = group.open();
  await until(() => group.window.toSeq > seq, "it has arrived");
  await group.loadNewest();
  group.trim(1, "older");
  close();
  assert.equal(group.messages.length, 0, "away from the end nothing is kept");
  await read(group, bob, seq);
  await read(group, carol, seq);
  reply.typing();
  await until(() => group.typists.includes(bob.userId), "what came before is heard");
  t.after(group.open());
  await turnsBlue(group, seq);
  assert.equal(alice.connection.state, "online");
});

test("a tick turns blue when the one who was behind is removed", async (t) => {
  const { group, bob, carol } = await trio(t);
  const seq = await sent(group, "hello");
  await read(group, bob, seq);
  await group.removeMember(carol.userId);
  await turnsBlue(group, seq);
});
