// Tests of the outbox when the server refuses messages temporarily or does not answer. Cut
// connections do not belong here; `connection-loss.test.ts` tests them.

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

const refuse = ({ message_id }: { message_id: string }, code: string): void => FakeSocket.last.deliver({ type: "error", code, message: `It is ${code}.`, message_id });

const acknowledge = ({ conversation_id, message_id }: Sent, seq: number): void =>
  FakeSocket.last.deliver({ type: "ack", conversation_id, message_id, seq, received_at: 1, duplicate: false });

async function passing(time_ms: number, step_ms = 10): Promise<void> {
  for (let passed_ms = 0; passed_ms < time_ms; passed_ms += step_ms) {
    mock.timers.tick(step_ms);
    await settled();
  }
}

/** Sends one message in each of 60 groups and refuses all of them at once. */
async function overrun(client: BluetickClient): Promise<void> {
  for (let index = 0; index < 60; index += 1) client.conversation(`g${index}`).send("text");
  await settled();
  for (const sent of sends()) refuse(sent, "rate_limited");
}

test("unrelated_message_is_sent_at_once_while_rate_limited_ones_wait", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  await overrun(client);
  const urgent = client.conversation("d1").send("urgent");
  await passing(100);
  assert.equal(sends().at(-1)?.message_id, urgent.message_id);
  assert.equal(sends().length, 61, "a refused message was resent during its pause");
  acknowledge(sends().at(-1) as Sent, 1);
  const before = sends().length;
  for (let round = 0; round < 300 && client.waitingCount > 0; round += 1) {
    await passing(10);
    for (const sent of sends().slice(before)) acknowledge(sent, 1);
  }
  assert.equal(client.waitingCount, 0, "not all were sent within 3 s");
});

test("resends_after_a_refusal_are_spread_over_time", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  await overrun(client);
  await passing(1_100);
  const again = sends().length - 60;
  assert(again > 1 && again < 20, `${again} in the first tenth of a second`);
});

test("pause_of_a_refused_conversation_grows_from_1_s_to_at_most_8_s", async (t) => {
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

test("temporarily_refused_message_shows_its_reason_and_can_be_cancelled", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  const chat = client.conversation("d1");
  assert.equal(chat.waiting.queued + chat.waiting.failed, 0);
  const { message_id } = chat.send("first");
  chat.send("second");
  await settled();
  assert.equal(chat.cancel(message_id), false, "the server may have it");
  let inboxChanges = 0;
  t.after(client.subscribe(({ inbox }) => (inboxChanges += Number(inbox))));
  refuse({ message_id }, "overloaded");
  await settled();
  const waitingFor = { code: "overloaded", message: "It is overloaded." };
  assert.deepEqual([chat.messages[0]?.state, chat.messages[0]?.waitingFor], ["queued", waitingFor]);
  assert.deepEqual([chat.waiting.queued, chat.waiting.last?.content, chat.waiting.waitingFor], [2, "second", waitingFor]);
  assert.equal(chat.waiting, chat.waiting, "a new object without a change");
  assert(inboxChanges > 0);
  assert.equal(chat.cancel(message_id), true);
  await passing(2_000);
  assert.deepEqual(sends().map((sent) => sent.message_id === message_id), [true, false], "it was resent");
});

test("message_refused_with_store_unavailable_is_resent_and_cannot_be_cancelled", async (t) => {
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

test("message_without_an_answer_cannot_be_cancelled_after_a_refused_resend", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  const { message_id } = client.conversation("d1").send("text");
  await settled();
  FakeSocket.last.end(1006);
  await passing(1_000);
  FakeSocket.last.welcome();
  await settled();
  assert.equal(sends().length, 1, "it is resent");
  refuse({ message_id }, "rate_limited");
  assert.equal(client.conversation("d1").cancel(message_id), false);
});

test("message_without_an_answer_drops_a_dead_connection_within_11_s", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  const socket = FakeSocket.last;
  client.conversation("d1").send("hello?");
  await settled();
  await passing(5_000, 100);
  assert.equal(socket.sent.at(-1)?.type, "ping");
  socket.deliver({ type: "pong" });
  await passing(4_900, 100);
  assert.equal(client.connection.state, "online", "a slow server keeps its connection");
  await passing(5_600, 100);
  assert.notEqual(FakeSocket.last, socket);
});

test("messages_queued_for_a_left_conversation_emit_one_trouble_with_their_count", async (t) => {
  const client = await started(t);
  const troubles: string[] = [];
  client.on("trouble", (text) => troubles.push(text));
  for (const text of ["one", "two", "three"]) client.conversation("g1").send(text);
  await settled();
  FakeSocket.last.welcome();
  await settled();
  refuse(sends()[0] as Sent, "conversation_not_found");
  FakeSocket.last.deliver({ type: "gone", conversation_id: "g1" });
  await settled();
  assert.deepEqual(troubles, ["3 messages could not be sent: you are no longer in the conversation."]);
  assert.equal(client.waitingCount, 0);
});
