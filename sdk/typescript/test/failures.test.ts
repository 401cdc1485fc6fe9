// Tests of failing storages, wrong tokens and invalid calls: the client reports them and never
// hangs. Failures of the network do not belong here.

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { BluetickClient, memoryStorage } from "../src/index.ts";
import type { ClientOptions, Storage } from "../src/index.ts";
import { settled, started } from "./support/fake-server.ts";
import { FakeSocket } from "./support/fake-socket.ts";

const SCOPE = "alice at http://server";

/** Returns a memory storage with some methods replaced by faulty ones. */
function faultyStorage(faults: Partial<Storage>): Storage {
  const memory = memoryStorage();
  const whole: Storage = { read: (...given) => memory.read(...given), write: (...given) => memory.write(...given), clear: (...given) => memory.clear(...given), close: () => memory.close() };
  return { ...whole, ...faults };
}

async function passing(seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second += 1) {
    mock.timers.tick(1_000);
    await settled();
  }
}

test("forget_resolves_with_trouble_when_the_storage_rejects_throws_or_hangs", async (t) => {
  const never = (): Promise<never> => new Promise(() => {});
  const rejects = (): Promise<never> => Promise.reject(new Error("broken"));
  const throws = (): never => {
    throw new Error("broken");
  };
  for (const fault of [never, rejects, throws]) {
    const client = await started(t, { storage: faultyStorage({ write: fault, clear: fault, close: fault }) });
    const troubles: string[] = [];
    client.on("trouble", (text) => troubles.push(text));
    FakeSocket.last.welcome();
    client.conversation("d1").send("text");
    await settled();
    let isOut = false;
    const out = client.forget().then(() => (isOut = true));
    await passing(30);
    assert(isOut, fault.name);
    await out;
    assert.equal(troubles.at(-1), "The data on this device could not be deleted.");
  }
});

test("message_cancelled_after_a_storage_failure_does_not_come_back", async (t) => {
  for (const cancelAfter_s of [6, 10]) {
    let isSlow = false;
    const memory = memoryStorage();
    const write: Storage["write"] = async (...given) => {
      if (isSlow) await new Promise<void>((resolve) => setTimeout(resolve, 8_000, (isSlow = false)));
      await memory.write(...given);
    };
    const client = await started(t, { storage: faultyStorage({ write, read: (...given) => memory.read(...given) }) });
    isSlow = true;
    const { message_id } = client.conversation("d1").send("never mind");
    await passing(cancelAfter_s);
    assert.equal(client.conversation("d1").cancel(message_id), true);
    await passing(10);
    assert.equal((await memory.read(SCOPE, "outbox")).size, 0, `cancelled after ${cancelAfter_s} s`);
  }
});

test("token_of_another_user_stops_the_client_and_stores_and_sends_nothing", async (t) => {
  const storage = memoryStorage();
  const client = await started(t, { storage });
  const events: string[] = [];
  client.on("trouble", (text) => events.push(text));
  client.on("loggedOut", (reason) => events.push(reason));
  client.conversation("d1").send("hello");
  await settled();
  FakeSocket.last.open("mallory");
  FakeSocket.last.deliver({ type: "caught_up" });
  await settled();
  assert.deepEqual(events, ["The token belongs to mallory, not to alice.", "wrong_user"]);
  assert.deepEqual(FakeSocket.last.sent.map(({ type }) => type), ["hello"]);
  assert.equal(client.connection.state, "offline");
  for (const kind of ["meta", "inbox", "messages", "people"] as const) assert.equal((await storage.read(SCOPE, kind)).size, 0, kind);
});

test("client_without_url_token_or_user_id_is_refused", () => {
  const whole: ClientOptions = { url: "http://server", token: "token", userId: "alice", webSocket: FakeSocket };
  for (const name of ["url", "token", "userId"] as const) {
    for (const value of [undefined, ""]) {
      assert.throws(() => new BluetickClient({ ...whole, [name]: value } as ClientOptions), { code: "invalid_request", message: new RegExp(`^.${name}. `) });
    }
  }
});

test("empty_or_non_string_content_is_refused", async (t) => {
  const client = await started(t);
  for (const nothing of ["", undefined, null, 7, {}]) assert.throws(() => client.conversation("d1").send(nothing as string), { code: "invalid_request" });
  assert.equal(client.waitingCount, 0);
});

const NO_READ_STATE = { last_delivered_seq: 0, last_read_seq: 0 };
const ENTRY = {
  conversation_id: "d1", kind: "direct", peer: "bob", title: null, archived: false, pinned: false, muted: false, read_receipts: true, member_count: 2,
  first_seq: 1, last_seq: 0, last_at: 0, last_message: null, preview: "", unread: 0, my_status: NO_READ_STATE, peer_status: NO_READ_STATE, peer_presence: null,
};

test("mark_read_sends_a_whole_seq_within_the_conversation", async (t) => {
  for (const [given, expected] of [[Number.NaN, []], [-3, []], [1.5, [1]], [99, [3]], [Number.POSITIVE_INFINITY, [3]]] as const) {
    const client = await started(t);
    FakeSocket.last.welcome();
    FakeSocket.last.deliver({ type: "conversation", ...ENTRY, last_seq: 3, unread: 3, my_status: { last_delivered_seq: 3, last_read_seq: 0 } });
    client.conversation("d1").markRead(given);
    mock.timers.tick(100);
    await settled();
    const read = FakeSocket.last.sent.filter(({ type }) => type === "read").map((frame) => (frame as unknown as { seq: number }).seq);
    assert.deepEqual(read, expected, `${given}`);
    await client.stop();
  }
});

test("entry_contains_the_delivered_seq_of_this_device", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  FakeSocket.last.deliver({ type: "conversation", ...ENTRY });
  const [sender_id, receiver_id, content_type] = ["bob", "alice", "text"];
  FakeSocket.last.deliver({ type: "message", conversation_id: "d1", seq: 1, message_id: "m", sender_id, receiver_id, content: "hello", content_type, timestamp: 1, received_at: 1 });
  mock.timers.tick(100);
  assert.deepEqual(client.conversation("d1").entry?.my_status, { last_delivered_seq: 1, last_read_seq: 0 });
  assert.equal(client.inbox.entries()[0], client.conversation("d1").entry);
});

test("stop_rejects_calls_in_progress_and_later_ones_with_stopped", async (t) => {
  const hangs: typeof fetch = (_, options) => new Promise((_, reject) => options?.signal?.addEventListener("abort", () => reject(new Error("aborted"))));
  const client = await started(t, { fetch: hangs });
  const opening = assert.rejects(client.openDirect("bob"), { code: "stopped" });
  await settled();
  await client.stop();
  await opening;
  await assert.rejects(client.openDirect("bob"), { code: "stopped" });
});

test("message_event_skips_erased_lost_and_void_messages", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  FakeSocket.last.deliver({ type: "conversation", ...ENTRY });
  const events: (number | null)[] = [];
  client.on("message", ({ seq }) => events.push(seq));
  const facts = { conversation_id: "d1", sender_id: "bob", receiver_id: "alice", timestamp: 1, received_at: 1 };
  for (const [index, content_type] of ["text", "erased", "lost", "void", "image"].entries()) {
    FakeSocket.last.deliver({ type: "message", seq: index + 1, message_id: `m${index}`, content: "", content_type, ...facts });
  }
  assert.deepEqual(events, [1, 5]);
});
