// The first visit of a device: what it learns before the server has said hello is remembered like
// everything after it.

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { memoryStorage } from "../src/index.ts";
import { settled, started } from "./support/fake-server.ts";
import { FakeSocket } from "./support/fake-socket.ts";

const NOWHERE = { last_delivered_seq: 0, last_read_seq: 0 };
const line = (number: number) => ({
  conversation_id: `d${number}`, kind: "direct", peer: `peer-${number}`, title: null, archived: false, pinned: false, muted: false, read_receipts: true,
  member_count: 2, first_seq: 1, last_seq: 0, last_at: number, last_message: null, preview: "", unread: 0, my_status: NOWHERE, peer_status: NOWHERE, peer_presence: null,
});
const LINES = Array.from({ length: 20 }, (_, index) => line(index + 1));

/** Answers the list of conversations; everything else is empty. */
const listing: typeof fetch = async (url) => {
  const isList = /\/conversations\?/.test(String(url)) && !String(url).includes("archived=true");
  return new Response(JSON.stringify({ conversations: isList ? LINES : [], next_cursor: null, user_id: "alice", show_presence: true }));
};

async function written(): Promise<void> {
  mock.timers.tick(1_000);
  await settled();
}

test("conversations_listed_before_the_first_welcome_are_stored", async (t) => {
  for (const writesBefore of [false, true]) {
    const storage = memoryStorage();
    const client = await started(t, { storage, fetch: listing });
    await client.inbox.loadMore();
    assert.equal(client.inbox.entries().length, LINES.length);
    if (writesBefore) await written();
    FakeSocket.last.welcome();
    await settled();
    await written();
    await client.stop();
    const again = await started(t, { storage, fetch: () => Promise.reject(new Error("offline")) });
    assert.equal(again.inbox.entries().length, LINES.length, `with a write before the welcome: ${writesBefore}`);
  }
});

test("conversations_of_an_earlier_epoch_are_dropped_from_the_storage", async (t) => {
  const storage = memoryStorage();
  const client = await started(t, { storage, fetch: listing });
  await client.inbox.loadMore();
  FakeSocket.last.welcome();
  await settled();
  await written();
  await client.stop();
  const empty: typeof fetch = async () => new Response(JSON.stringify({ conversations: [], next_cursor: null, user_id: "alice", show_presence: true }));
  const restored = await started(t, { storage, fetch: empty });
  assert.equal(restored.inbox.entries().length, LINES.length);
  FakeSocket.last.readyState = 1;
  FakeSocket.last.say({ type: "welcome", user_id: "alice", session_id: "s", epoch: 2, server_time: 0 });
  FakeSocket.last.say({ type: "caught_up" });
  await settled();
  await written();
  await restored.stop();
  const last = await started(t, { storage, fetch: () => Promise.reject(new Error("offline")) });
  assert.equal(last.inbox.entries().length, 0);
});
