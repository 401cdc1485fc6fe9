// What the outbox does when the server refuses something for the moment, or says nothing at all.

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import type { BluetickClient } from "../src/index.ts";
import { settled, started } from "./support/fake-server.ts";
import { FakeSocket } from "./support/fake-socket.ts";

interface Sent {
  readonly type: string;
  readonly message_id: string;
  readonly conversation_id: string;
}

const sends = (): Sent[] => FakeSocket.last.sent.filter(({ type }) => type === "send") as unknown as Sent[];

const refuse = ({ message_id }: { message_id: string }, code: string): void => FakeSocket.last.say({ type: "error", code, message: `It is ${code}.`, message_id });

const acknowledge = ({ conversation_id, message_id }: Sent, seq: number): void =>
  FakeSocket.last.say({ type: "ack", conversation_id, message_id, seq, received_at: 1, duplicate: false });

async function passing(time_ms: number, step_ms = 10): Promise<void> {
  for (let passed_ms = 0; passed_ms < time_ms; passed_ms += step_ms) {
    mock.timers.tick(step_ms);
    await settled();
  }
}

/** Sixty groups with a message each under way, all refused in one moment. */
async function overrun(client: BluetickClient): Promise<void> {
  for (let index = 0; index < 60; index += 1) client.conversation(`g${index}`).send("text");
  await settled();
  for (const sent of sends()) refuse(sent, "rate_limited");
}

test("a moment of rate limiting lets an unrelated message through at once, and the rest within seconds", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  await overrun(client);
  const urgent = client.conversation("d1").send("urgent");
  await passing(100);
  assert.equal(sends().at(-1)?.message_id, urgent.message_id);
  assert.equal(sends().length, 61, "the refused ones rest");
  acknowledge(sends().at(-1) as Sent, 1);
  const before = sends().length;
  for (let round = 0; round < 300 && client.waitingCount > 0; round += 1) {
    await passing(10);
    for (const sent of sends().slice(before)) acknowledge(sent, 1);
  }
  assert.equal(client.waitingCount, 0, "all are sent within three seconds");
});

test("after a refusal messages go one after the other instead of in another volley", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  await overrun(client);
  await passing(1_100);
  const again = sends().length - 60;
  assert(again > 1 && again < 20, `${again} in the first tenth of a second`);
});

test("rests of one conversation grow slowly and stay short", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  client.conversation("d1").send("text");
  await settled();
  const pauses: number[] = [];
  for (let round = 0; round < 12; round += 1) {
    const [count, at] = [sends().length, Date.now()];
    refuse(sends().at(-1) as Sent, "overloaded");
    while (sends().length === count) await passing(50, 50);
    pauses.push(Date.now() - at);
  }
  assert(Math.abs((pauses[0] as number) - 1_000) <= 50, `${pauses}`);
  assert((pauses.at(-1) as number) <= 8_050, `${pauses}`);
});

test("a message that is refused for the moment says why, is counted, and can be taken back", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  const chat = client.conversation("d1");
  assert.equal(chat.waiting.queued + chat.waiting.failed, 0);
  const { message_id } = chat.send("first");
  chat.send("second");
  await settled();
  assert.equal(chat.cancel(message_id), false, "it may be with the server");
  let inboxTold = 0;
  t.after(client.subscribe(({ inbox }) => (inboxTold += Number(inbox))));
  refuse({ message_id }, "overloaded");
  await settled();
  const waitingFor = { code: "overloaded", message: "It is overloaded." };
  assert.deepEqual([chat.messages[0]?.state, chat.messages[0]?.waitingFor], ["queued", waitingFor]);
  assert.deepEqual([chat.waiting.queued, chat.waiting.last?.content, chat.waiting.waitingFor], [2, "second", waitingFor]);
  assert.equal(chat.waiting, chat.waiting, "the same until it changes");
  assert(inboxTold > 0);
  assert.equal(chat.cancel(message_id), true);
  await passing(2_000);
  assert.deepEqual(sends().map((sent) => sent.message_id === message_id), [true, false], "and is not sent again");
});

test("a store that did not answer may have stored it: it goes again under its id, and is not taken back", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  const chat = client.conversation("d1");
  const { message_id } = chat.send("text");
  await settled();
  refuse({ message_id }, "store_unavailable");
  await settled();
  assert.deepEqual([chat.messages[0]?.state, chat.messages[0]?.waitingFor?.code], ["queued", "store_unavailable"]);
  assert.equal(chat.cancel(message_id), false);
  await passing(2_000);
  const [first, again] = sends() as (Sent & { retry?: boolean; after_seq?: number })[];
  assert.deepEqual([first?.message_id, first?.retry], [message_id, undefined]);
  assert.deepEqual([again?.message_id, again?.retry, again?.after_seq], [message_id, true, 0]);
  acknowledge(again as Sent, 1);
  assert.equal(client.waitingCount, 0);
});

test("what the server may have stored is not taken back although a retries attempt was refused", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  const { message_id } = client.conversation("d1").send("text");
  await settled();
  FakeSocket.last.end(1006);
  await passing(1_000);
  FakeSocket.last.welcome();
  await settled();
  assert.equal(sends().length, 1, "it goes again");
  refuse({ message_id }, "rate_limited");
  assert.equal(client.conversation("d1").cancel(message_id), false);
});

test("a message without an answer finds out within ten seconds that the network is deaf", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  const socket = FakeSocket.last;
  client.conversation("d1").send("hello?");
  await settled();
  await passing(5_000, 100);
  assert.equal(socket.sent.at(-1)?.type, "ping");
  socket.say({ type: "pong" });
  await passing(4_900, 100);
  assert.equal(client.connection.state, "online", "a server that is only slow is waited for");
  await passing(5_600, 100);
  assert.notEqual(FakeSocket.last, socket);
});

test("what was queued for a conversation one is removed from is told once, with how many", async (t) => {
  const client = await started(t);
  const troubles: string[] = [];
  client.on("trouble", (text) => troubles.push(text));
  for (const text of ["one", "two", "three"]) client.conversation("g1").send(text);
  await settled();
  FakeSocket.last.welcome();
  await settled();
  refuse(sends()[0] as Sent, "conversation_not_found");
  FakeSocket.last.say({ type: "gone", conversation_id: "g1" });
  await settled();
  assert.deepEqual(troubles, ["3 messages could not be sent: you are no longer in the conversation."]);
  assert.equal(client.waitingCount, 0);
});
