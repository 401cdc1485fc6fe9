// Tests of which messages are announced and counted as unread, for every order of messages, entries
// and the catch-up. Notifications on the screen do not belong here.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestContext } from "node:test";
import type { BluetickClient } from "../src/index.ts";
import { started } from "./support/fake-server.ts";
import { FakeSocket } from "./support/fake-socket.ts";

const NO_READ_STATE = { last_delivered_seq: 0, last_read_seq: 0 };
const ENTRY = {
  conversation_id: "d1", kind: "direct", peer: "bob", title: null, archived: false, pinned: false, muted: false, read_receipts: true, member_count: 2,
  first_seq: 1, last_seq: 0, last_at: 0, last_message: null, preview: "", unread: 0, my_status: NO_READ_STATE, peer_status: NO_READ_STATE, peer_presence: null,
};
/** The time of the welcome, by the server's clock. */
const WELCOMED_AT = 1_000;

const message = (seq: number, received_at = WELCOMED_AT + seq, conversation_id = "d1") => ({
  conversation_id, seq, message_id: `m${seq}`, sender_id: "bob", receiver_id: "alice", content: `text ${seq}`, content_type: "text", timestamp: received_at, received_at,
});
const push = (...given: Parameters<typeof message>): void => FakeSocket.last.deliver({ type: "message", ...message(...given) });
const entryUpTo = (seq: number): object => ({ ...ENTRY, last_seq: seq, unread: seq, last_at: WELCOMED_AT + seq, last_message: message(seq), preview: `text ${seq}` });
const open = (): void => FakeSocket.last.open("alice", WELCOMED_AT);
const catchUp = (): void => FakeSocket.last.deliver({ type: "caught_up" });

/** Starts a client and collects its `message` events. */
async function listening(test: TestContext, fetch?: typeof globalThis.fetch): Promise<{ client: BluetickClient; events: string[] }> {
  const client = await started(test, fetch ? { fetch } : {});
  const events: string[] = [];
  client.on("message", ({ conversation_id, content }) => events.push(`${conversation_id}: ${content}`));
  return { client, events };
}

test("message_is_announced_once_before_or_after_its_inbox_entry", async (t) => {
  const orders = [
    [() => FakeSocket.last.deliver({ type: "conversation", ...ENTRY }), () => push(1)],
    [() => FakeSocket.last.deliver({ type: "conversation", ...entryUpTo(1) }), () => push(1)],
    [() => push(1), () => FakeSocket.last.deliver({ type: "conversation", ...entryUpTo(1) })],
    [() => push(1), () => FakeSocket.last.deliver({ type: "conversation", ...ENTRY }), () => FakeSocket.last.deliver({ type: "conversation", ...entryUpTo(1) })],
  ];
  for (const [index, steps] of orders.entries()) {
    const { client, events } = await listening(t);
    open();
    catchUp();
    for (const step of steps) step();
    assert.deepEqual([events, client.inbox.unreadTotal], [["d1: text 1"], 1], `order ${index}`);
    await client.stop();
  }
});

test("catch_up_announces_messages_received_after_the_connect_only", async (t) => {
  const { events } = await listening(t);
  open();
  FakeSocket.last.deliver({ type: "conversation", ...ENTRY });
  FakeSocket.last.deliver({ type: "conversation", ...ENTRY, conversation_id: "d2" });
  push(1, WELCOMED_AT - 1);
  push(1, WELCOMED_AT, "d2");
  push(2, WELCOMED_AT - 1);
  catchUp();
  assert.deepEqual(events, ["d2: text 1"]);
  // The server stored the message after a slow write, or its clock is behind.
  push(3, WELCOMED_AT - 1);
  assert.deepEqual(events, ["d2: text 1", "d1: text 3"]);
});

test("message_event_waits_for_the_entry_with_the_mute_setting", async (t) => {
  const { client } = await listening(t);
  const muted: (boolean | undefined)[] = [];
  client.on("message", ({ conversation_id }) => muted.push(client.conversation(conversation_id).entry?.muted));
  open();
  catchUp();
  push(8);
  assert.deepEqual(muted, []);
  FakeSocket.last.deliver({ type: "conversation", ...entryUpTo(8), muted: true });
  assert.deepEqual(muted, [true]);
});

test("message_of_a_left_conversation_is_not_announced", async (t) => {
  const { events } = await listening(t);
  open();
  catchUp();
  push(1);
  FakeSocket.last.deliver({ type: "gone", conversation_id: "d1" });
  FakeSocket.last.deliver({ type: "conversation", ...entryUpTo(1) });
  assert.deepEqual(events, []);
});

test("messages_stored_during_a_refresh_are_counted_as_unread", async (t) => {
  const { conversation_id, kind, peer, title, archived, pinned, muted, read_receipts, member_count, my_status, peer_status } = ENTRY;
  const members = [{ user_id: "alice", role: "member", joined_seq: 1 }];
  const detail = { conversation_id, kind, peer, title, archived, pinned, muted, read_receipts, member_count, my_status, peer_status, members, unread: 1, head_seq: 1, last_at: 1, created_at: 1, created_by: "bob" };
  // The server stores three more messages after it answers the first request.
  const storedCount = 4;
  const answers = (url: URL): object => {
    if (url.pathname.endsWith("/d1")) return detail;
    if (!url.pathname.endsWith("/messages")) return { conversations: [], next_cursor: null, user_id: "alice", show_presence: true };
    const before_seq = Number(url.searchParams.get("before_seq") ?? storedCount + 1);
    const after_seq = Number(url.searchParams.get("after_seq") ?? 0);
    const all = Array.from({ length: storedCount }, (_, index) => message(index + 1)).filter(({ seq }) => seq < before_seq && seq > after_seq);
    return { messages: all.reverse().slice(0, Number(url.searchParams.get("limit"))), next_before_seq: null, next_after_seq: null, head_seq: storedCount };
  };
  const { client, events } = await listening(t, async (asked) => new Response(JSON.stringify(answers(new URL(String(asked))))));
  open();
  catchUp();
  push(1);
  while (client.inbox.entries().length === 0) await new Promise(setImmediate);
  for (const seq of [2, 3, 4]) push(seq);
  assert.deepEqual([client.inbox.unreadTotal, client.inbox.entries()[0]?.preview], [4, "text 4"]);
  assert.deepEqual(events, [1, 2, 3, 4].map((seq) => `d1: text ${seq}`));
});
