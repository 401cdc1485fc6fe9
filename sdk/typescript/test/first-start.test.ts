// Tests of the first start of a device: the client stores what it learns before the first welcome.
// Later starts do not belong here; `persistence.test.ts` tests them.

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { memoryStorage } from "../src/index.ts";
import { settled, started } from "./support/fake-server.ts";
import { FakeSocket } from "./support/fake-socket.ts";

const NO_READ_STATE = { last_delivered_seq: 0, last_read_seq: 0 };
const entryOf = (number: number) => ({
  conversation_id: `d${number}`, kind: "direct", peer: `peer-${number}`, title: null, archived: false, pinned: false, muted: false, read_receipts: true,
  member_count: 2, first_seq: 1, last_seq: 0, last_at: number, last_message: null, preview: "", unread: 0, my_status: NO_READ_STATE, peer_status: NO_READ_STATE, peer_presence: null,
});
const ENTRIES = Array.from({ length: 20 }, (_, index) => entryOf(index + 1));

/** Answers requests for the inbox; all other answers are empty. */
const answerList: typeof fetch = async (url) => {
  const isList = /\/conversations\?/.test(String(url)) && !String(url).includes("archived=true");
  return new Response(JSON.stringify({ conversations: isList ? ENTRIES : [], next_cursor: null, user_id: "alice", show_presence: true }));
};

async function written(): Promise<void> {
  mock.timers.tick(1_000);
  await settled();
}

test("conversations_listed_before_the_first_welcome_are_stored", async (t) => {
  for (const writesBefore of [false, true]) {
    const storage = memoryStorage();
    const client = await started(t, { storage, fetch: answerList });
    await client.inbox.loadMore();
    assert.equal(client.inbox.entries().length, ENTRIES.length);
    if (writesBefore) await written();
    FakeSocket.last.welcome();
    await settled();
    await written();
    await client.stop();
    const again = await started(t, { storage, fetch: () => Promise.reject(new Error("offline")) });
    assert.equal(again.inbox.entries().length, ENTRIES.length, `with a write before the welcome: ${writesBefore}`);
  }
});

test("conversations_of_an_earlier_epoch_are_dropped_from_the_storage", async (t) => {
  const storage = memoryStorage();
  const client = await started(t, { storage, fetch: answerList });
  await client.inbox.loadMore();
  FakeSocket.last.welcome();
  await settled();
  await written();
  await client.stop();
  const empty: typeof fetch = async () => new Response(JSON.stringify({ conversations: [], next_cursor: null, user_id: "alice", show_presence: true }));
  const restored = await started(t, { storage, fetch: empty });
  assert.equal(restored.inbox.entries().length, ENTRIES.length);
  FakeSocket.last.readyState = 1;
  FakeSocket.last.deliver({ type: "welcome", user_id: "alice", session_id: "s", epoch: 2, server_time: 0 });
  FakeSocket.last.deliver({ type: "caught_up" });
  await settled();
  await written();
  await restored.stop();
  const last = await started(t, { storage, fetch: () => Promise.reject(new Error("offline")) });
  assert.equal(last.inbox.entries().length, 0);
});
