// What is told of as just written, and counted as unread, in whatever order a message, its line and the backlog come.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestContext } from "node:test";
import type { BluetickClient } from "../src/index.ts";
import { started } from "./support/fake-server.ts";
import { FakeSocket } from "./support/fake-socket.ts";

const NOWHERE = { last_delivered_seq: 0, last_read_seq: 0 };
const LINE = {
  conversation_id: "d1", kind: "direct", peer: "bob", title: null, archived: false, pinned: false, muted: false, read_receipts: true, member_count: 2,
  first_seq: 1, last_seq: 0, last_at: 0, last_message: null, preview: "", unread: 0, my_status: NOWHERE, peer_status: NOWHERE, peer_presence: null,
};
const WELCOMED_AT = 1_000;

const message = (seq: number, received_at = WELCOMED_AT + seq, conversation_id = "d1") => ({
  conversation_id, seq, message_id: `m${seq}`, sender_id: "bob", receiver_id: "alice", content: `text ${seq}`, content_type: "text", timestamp: received_at, received_at,
});
const push = (...given: Parameters<typeof message>): void => FakeSocket.last.say({ type: "message", ...message(...given) });
const lineUpTo = (seq: number): object => ({ ...LINE, last_seq: seq, unread: seq, last_at: WELCOMED_AT + seq, last_message: message(seq), preview: `text ${seq}` });
const open = (): void => FakeSocket.last.open("alice", WELCOMED_AT);
const catchUp = (): void => FakeSocket.last.say({ type: "caught_up" });

/** The messages that a client tells of, from its start on. */
async function listening(test: TestContext, fetch?: typeof globalThis.fetch): Promise<{ client: BluetickClient; heard: string[] }> {
  const client = await started(test, fetch ? { fetch } : {});
  const heard: string[] = [];
  client.on("message", ({ conversation_id, content }) => heard.push(`${conversation_id}: ${content}`));
  return { client, heard };
}

test("a message is told of once, whether its line comes before it, with it counted, or after it", async (t) => {
  const orders = [
    [() => FakeSocket.last.say({ type: "conversation", ...LINE }), () => push(1)],
    [() => FakeSocket.last.say({ type: "conversation", ...lineUpTo(1) }), () => push(1)],
    [() => push(1), () => FakeSocket.last.say({ type: "conversation", ...lineUpTo(1) })],
    [() => push(1), () => FakeSocket.last.say({ type: "conversation", ...LINE }), () => FakeSocket.last.say({ type: "conversation", ...lineUpTo(1) })],
  ];
  for (const [index, steps] of orders.entries()) {
    const { client, heard } = await listening(t);
    open();
    catchUp();
    for (const step of steps) step();
    assert.deepEqual([heard, client.inbox.unreadTotal], [["d1: text 1"], 1], `order ${index}`);
    await client.stop();
  }
});

test("while the backlog comes in, what was written since the connection stands is told of, and what was missed is not", async (t) => {
  const { heard } = await listening(t);
  open();
  FakeSocket.last.say({ type: "conversation", ...LINE });
  FakeSocket.last.say({ type: "conversation", ...LINE, conversation_id: "d2" });
  push(1, WELCOMED_AT - 1);
  push(1, WELCOMED_AT, "d2");
  push(2, WELCOMED_AT - 1);
  catchUp();
  assert.deepEqual(heard, ["d2: text 1"]);
  // Stored after the pause of a slow disk, or by a server whose clock is behind.
  push(3, WELCOMED_AT - 1);
  assert.deepEqual(heard, ["d2: text 1", "d1: text 3"]);
});

test("whether one wants to be told is known by then", async (t) => {
  const { client } = await listening(t);
  const muted: (boolean | undefined)[] = [];
  client.on("message", ({ conversation_id }) => muted.push(client.conversation(conversation_id).entry?.muted));
  open();
  catchUp();
  push(8);
  assert.deepEqual(muted, []);
  FakeSocket.last.say({ type: "conversation", ...lineUpTo(8), muted: true });
  assert.deepEqual(muted, [true]);
});

test("of a conversation that one has left meanwhile nothing is told", async (t) => {
  const { heard } = await listening(t);
  open();
  catchUp();
  push(1);
  FakeSocket.last.say({ type: "gone", conversation_id: "d1" });
  FakeSocket.last.say({ type: "conversation", ...lineUpTo(1) });
  assert.deepEqual(heard, []);
});

test("messages that are stored while a conversation is asked about are counted", async (t) => {
  const { conversation_id, kind, peer, title, archived, pinned, muted, read_receipts, member_count, my_status, peer_status } = LINE;
  const members = [{ user_id: "alice", role: "member", joined_seq: 1 }];
  const detail = { conversation_id, kind, peer, title, archived, pinned, muted, read_receipts, member_count, my_status, peer_status, members, unread: 1, head_seq: 1, last_at: 1, created_at: 1, created_by: "bob" };
  // Three more were stored since the line was read.
  const storedCount = 4;
  const answers = (url: URL): object => {
    if (url.pathname.endsWith("/d1")) return detail;
    if (!url.pathname.endsWith("/messages")) return { conversations: [], next_cursor: null, user_id: "alice", show_presence: true };
    const before_seq = Number(url.searchParams.get("before_seq") ?? storedCount + 1);
    const after_seq = Number(url.searchParams.get("after_seq") ?? 0);
    const all = Array.from({ length: storedCount }, (_, index) => message(index + 1)).filter(({ seq }) => seq < before_seq && seq > after_seq);
    return { messages: all.reverse().slice(0, Number(url.searchParams.get("limit"))), next_before_seq: null, next_after_seq: null, head_seq: storedCount };
  };
  const { client, heard } = await listening(t, async (asked) => new Response(JSON.stringify(answers(new URL(String(asked))))));
  open();
  catchUp();
  push(1);
  while (client.inbox.entries().length === 0) await new Promise(setImmediate);
  for (const seq of [2, 3, 4]) push(seq);
  assert.deepEqual([client.inbox.unreadTotal, client.inbox.entries()[0]?.preview], [4, "text 4"]);
  assert.deepEqual(heard, [1, 2, 3, 4].map((seq) => `d1: text ${seq}`));
});
