// Bounds the processor time per message for a large window and a large inbox. Correctness does not
// belong here.

import assert from "node:assert/strict";
import test from "node:test";
import { BluetickClient } from "../src/index.ts";
import type { InboxEntry } from "../src/index.ts";
import { FakeSocket } from "./support/fake-socket.ts";

/** The number of messages that the client receives. */
const MESSAGES = 10_000;
/**
 * Upper bound on the processor time, several times the usual one. Other processes of the machine do
 * not count.
 */
const WITHIN_MS = 4_000;

const id = (index: number): string => `g${String(index).padStart(6, "0")}`;
const NO_READ_STATE = { last_delivered_seq: 0, last_read_seq: 0 };
const entryOf = (index: number): InboxEntry => ({
  conversation_id: id(index), kind: "group", peer: null, title: `group ${index}`, archived: false, pinned: false, muted: false, read_receipts: true, member_count: 3,
  first_seq: 1, last_seq: 0, last_at: index, last_message: null, preview: "", unread: 0, my_status: NO_READ_STATE, peer_status: NO_READ_STATE, peer_presence: null,
});

test("ten_thousand_messages_beside_5000_conversations_stay_below_the_processor_bound", async (t) => {
  const answer = async (): Promise<Response> => new Response(JSON.stringify({ conversations: [], next_cursor: null, messages: [], next_before_seq: null, next_after_seq: null, head_seq: 0, members: [] }));
  const client = new BluetickClient({ url: "http://server", token: "token", userId: "alice", webSocket: FakeSocket, fetch: answer });
  t.after(() => client.stop());
  await client.start();
  await new Promise((resolve) => setTimeout(resolve, 5));
  const socket = FakeSocket.last;
  socket.welcome();
  for (let index = 0; index < 5_000; index += 1) socket.deliver({ type: "conversation", ...entryOf(index) });
  const open = client.conversation(id(7));
  t.after(open.open());
  let looks = 0;
  let shown = 0;
  // Read the state on every third change, like a screen with 60 frames per second at 200 messages
  // per second.
  client.subscribe(({ conversations }) => {
    looks += 1;
    if (looks % 3 !== 0 || !conversations.has(open.id)) return;
    shown = Math.max(shown, open.messages.length);
    assert.equal(client.inbox.entries()[0]?.conversation_id, open.id);
  });
  const before = process.cpuUsage();
  for (let seq = 1; seq <= MESSAGES; seq += 1) {
    const body = { message_id: `m${seq}`, sender_id: "bob", receiver_id: null, content: "hello", content_type: "text", timestamp: seq, received_at: 10_000 + seq };
    socket.deliver({ type: "message", conversation_id: open.id, seq, ...body });
    await null;
  }
  const { user, system } = process.cpuUsage(before);
  const took_ms = (user + system) / 1_000;
  t.diagnostic(`${((took_ms * 1_000) / MESSAGES).toFixed(0)} µs a message, drawing included`);
  assert(took_ms < WITHIN_MS, `${took_ms} ms`);
  assert.deepEqual([open.entry?.unread, open.window.toSeq], [MESSAGES, MESSAGES]);
  assert(shown <= 2_000, "and the window is bounded");
});
