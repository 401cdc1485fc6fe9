// Tests of reconnects, tokens and frames with a fake socket and a fake clock. Tests that need the
// real server do not belong here.

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { reconnectDelay_ms } from "../src/backoff.ts";
import { memoryStorage } from "../src/index.ts";
import type { BluetickClient, Storage } from "../src/index.ts";
import { settled, started } from "./support/fake-server.ts";
import { FakeSocket } from "./support/fake-socket.ts";

/**
 * Returns the delay before the next connection attempt, and checks that the attempt waits for it.
 */
async function delayOf(client: BluetickClient): Promise<number> {
  const { waitingUntilMs } = client.connection;
  assert(waitingUntilMs !== null);
  const pause = waitingUntilMs - Date.now();
  const before = FakeSocket.made.length;
  mock.timers.tick(pause - 1);
  await settled();
  assert.equal(FakeSocket.made.length, before, "an attempt before the delay ended");
  mock.timers.tick(1);
  await settled();
  assert.equal(FakeSocket.made.length, before + 1);
  return pause;
}

test("reconnect_delay_is_random_below_a_bound_that_doubles_up_to_30_s", () => {
  for (const [attempt, limit] of [[0, 500], [1, 1_000], [3, 4_000], [6, 30_000], [99, 30_000]] as const) {
    assert.equal(reconnectDelay_ms(attempt, 1006, () => 0), 0);
    assert.equal(reconnectDelay_ms(attempt, 1006, () => 0.999), limit * 0.999);
  }
});

test("reconnect_delay_grows_until_a_connection_is_stable", async (t) => {
  const client = await started(t);
  const pauses = [];
  for (let round = 0; round < 3; round += 1) {
    FakeSocket.last.end(1006);
    pauses.push(await delayOf(client));
  }
  FakeSocket.last.welcome();
  FakeSocket.last.end(1006);
  pauses.push(await delayOf(client));
  FakeSocket.last.welcome();
  mock.timers.tick(6_000);
  FakeSocket.last.end(1006);
  pauses.push(await delayOf(client));
  assert.deepEqual(pauses, [250, 500, 1_000, 2_000, 250]);
});

test("come_back_frame_sets_the_reconnect_delay", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  FakeSocket.last.deliver({ type: "come_back", after_ms: 1_730 });
  FakeSocket.last.end(1012);
  assert.equal(await delayOf(client), 1_730);
  FakeSocket.last.welcome();
  mock.timers.tick(6_000);
  FakeSocket.last.end(1012);
  assert.equal(await delayOf(client), 500 + 0.5 * 2_500, "0.5 to 3 s without a come_back frame");
});

test("close_codes_4400_4409_and_4429_delay_the_reconnect_by_30_s_or_more", async (t) => {
  const client = await started(t);
  for (const code of [4409, 4400, 4429]) {
    FakeSocket.last.end(code);
    assert.equal(await delayOf(client), 45_000);
  }
});

test("online_event_ends_the_reconnect_delay", async (t) => {
  const client = await started(t);
  for (let round = 0; round < 8; round += 1) {
    FakeSocket.last.end(1006);
    await delayOf(client);
  }
  FakeSocket.last.end(1006);
  const before = FakeSocket.made.length;
  globalThis.dispatchEvent?.(new Event("online"));
  client.reconnect();
  await settled();
  assert.equal(FakeSocket.made.length, before + 1);
});

test("connection_without_pong_is_dropped", async (t) => {
  const client = await started(t);
  const socket = FakeSocket.last;
  socket.welcome();
  mock.timers.tick(25_000);
  assert.equal(socket.sent.at(-1)?.type, "ping");
  socket.deliver({ type: "pong" });
  mock.timers.tick(20_000);
  assert.equal(client.connection.state, "online");
  mock.timers.tick(5_000);
  mock.timers.tick(10_000);
  assert.equal(client.connection.state, "offline");
});

test("refused_fresh_token_or_the_same_token_again_ends_the_session", async (t) => {
  const tokens = ["first", "second", "third"];
  let loggedOut = 0;
  const client = await started(t, { token: () => tokens.shift() ?? "none" });
  client.on("loggedOut", () => (loggedOut += 1));
  FakeSocket.last.welcome();
  FakeSocket.last.end(4403);
  await settled();
  FakeSocket.last.welcome();
  assert.equal(FakeSocket.last.sent[0]?.token, "second");
  assert.equal(client.connection.state, "online");
  FakeSocket.last.end(4403);
  await settled();
  FakeSocket.last.end(4401);
  await settled();
  assert.equal(loggedOut, 1);
  const stubborn = await started(t, { token: () => "same" });
  stubborn.on("loggedOut", () => (loggedOut += 1));
  FakeSocket.last.end(4401);
  await settled();
  assert.equal(loggedOut, 2);
  mock.timers.tick(100_000);
  assert.equal(FakeSocket.made.length, 1, "attempt after the end");
});

test("a_revoked_token_ends_the_client_as_revoked_by_the_socket_and_by_a_call", async (t) => {
  const bySocket = await started(t);
  const reasons: string[] = [];
  bySocket.on("loggedOut", (reason) => reasons.push(reason));
  FakeSocket.last.welcome();
  FakeSocket.last.end(4402);
  await settled();
  const refusal = { error: { code: "token_revoked", message: "the token was revoked" } };
  const byCall = await started(t, { fetch: async () => new Response(JSON.stringify(refusal), { status: 401 }) });
  byCall.on("loggedOut", (reason) => reasons.push(reason));
  await assert.rejects(byCall.openDirect("bob"), { code: "token_revoked" });
  assert.deepEqual(reasons, ["revoked", "revoked"]);
});

test("fresh_token_that_expires_during_an_outage_is_replaced", async (t) => {
  let [given, loggedOut] = [0, 0];
  const client = await started(t, { token: () => `token ${(given += 1)}` });
  client.on("loggedOut", () => (loggedOut += 1));
  FakeSocket.last.welcome();
  FakeSocket.last.end(4403);
  await settled();
  for (let round = 0; round < 3; round += 1) {
    FakeSocket.last.end(1006);
    await delayOf(client);
  }
  FakeSocket.last.end(4403);
  await settled();
  FakeSocket.last.welcome();
  assert.deepEqual([given, loggedOut, client.connection.state], [3, 0, "online"]);
});

test("token_source_without_answer_times_out_and_is_called_again", async (t) => {
  let asked = 0;
  const client = await started(t, { token: () => ((asked += 1) === 1 ? new Promise<string>(() => {}) : "at last") });
  for (let second = 0; second < 30; second += 1) {
    mock.timers.tick(1_000);
    await settled();
  }
  assert.equal(asked, 2);
  FakeSocket.last.welcome();
  assert.equal(client.connection.state, "online");
});

test("message_after_a_gap_is_not_reported_as_delivered", async (t) => {
  await started(t, { fetch: () => new Promise<Response>(() => {}) });
  const socket = FakeSocket.last;
  socket.open();
  socket.deliver({ type: "backlog", conversation_id: "d1", next_after_seq: 4, head_seq: 30 });
  socket.deliver({ type: "caught_up" });
  const [sender_id, receiver_id, content_type] = ["bob", "alice", "text"];
  socket.deliver({ type: "message", conversation_id: "d1", seq: 31, message_id: "m", sender_id, receiver_id, content: "live", content_type, timestamp: 1, received_at: 1 });
  mock.timers.tick(1_000);
  await settled();
  const reported = socket.sent.filter(({ type }) => type === "delivered").map((frame) => (frame as unknown as { seq: number }).seq);
  assert(reported.every((seq) => seq <= 4), `reported `);
});

const VOID = { conversation_id: "d1", sender_id: "void", receiver_id: null, content: "", content_type: "void", timestamp: 1, received_at: 1 };

test("void_is_reported_as_delivered_and_does_not_end_typing", async (t) => {
  const client = await started(t);
  const socket = FakeSocket.last;
  socket.welcome();
  socket.deliver({ type: "typing", conversation_id: "d1", user_id: "void" });
  socket.deliver({ ...VOID, type: "message", seq: 1, message_id: "m1", sender_id: "bob", content: "hi", content_type: "text" });
  socket.deliver({ ...VOID, type: "message", seq: 2, message_id: "system:2" });
  mock.timers.tick(1_000);
  await settled();
  const reported = socket.sent.filter(({ type }) => type === "delivered").map((frame) => (frame as unknown as { seq: number }).seq);
  assert.deepEqual(reported, [2]);
  assert.deepEqual(client.conversation("d1").messages.map(({ seq }) => seq), [1]);
  assert.deepEqual(client.conversation("d1").typists, ["void"]);
});

test("refresh_with_a_void_at_the_head_previews_the_message_before_it", async (t) => {
  const status = { last_delivered_seq: 0, last_read_seq: 0 };
  const detail = {
    conversation_id: "d1", kind: "direct", peer: "bob", title: null, archived: false, pinned: false, muted: false, read_receipts: true, member_count: 2,
    created_at: 0, created_by: "bob", head_seq: 3, last_at: 2, unread: 1, my_status: status, peer_status: status, members: [],
  };
  const page = [{ ...VOID, seq: 3, message_id: "system:3" }, { ...VOID, seq: 2, message_id: "m2", sender_id: "bob", content: "the last word", content_type: "text" }];
  const answer = (url: string): object => {
    if (url.includes("/messages")) return { messages: url.includes("limit=1&") || url.endsWith("limit=1") ? page.slice(0, 1) : page, next_before_seq: 2, next_after_seq: null, head_seq: 3 };
    return url.includes("/v1/conversations/d1") ? detail : { conversations: [], next_cursor: null, user_id: "alice", show_presence: true, members: [] };
  };
  const client = await started(t, { fetch: async (url) => new Response(JSON.stringify(answer(String(url)))) });
  FakeSocket.last.welcome();
  await client.conversation("d1").members();
  const { last_seq, last_message, preview } = client.conversation("d1").entry ?? {};
  assert.deepEqual([last_seq, last_message?.seq, preview], [3, 2, "the last word"]);
});

test("failing_token_source_is_called_again_after_the_reconnect_delay", async (t) => {
  let isDown = true;
  const token = async (): Promise<string> => {
    if (isDown) throw new Error("down");
    return "at last";
  };
  const client = await started(t, { token });
  assert.equal(client.connection.state, "offline");
  isDown = false;
  await delayOf(client);
  FakeSocket.last.welcome();
  assert.equal(FakeSocket.last.sent[0]?.token, "at last");
});

test("offline_since_spans_all_failed_attempts", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  assert.equal(client.connection.offlineSinceMs, null);
  const lostAt = Date.now();
  FakeSocket.last.end(1006);
  for (let round = 0; round < 3; round += 1) {
    await delayOf(client);
    FakeSocket.last.end(1006);
  }
  assert.equal(client.connection.offlineSinceMs, lostAt);
});

test("error_without_message_id_fails_only_the_message_that_causes_it", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  const socket = FakeSocket.last;
  const poison = client.conversation("d1").send("poison");
  const good = client.conversation("d2").send("good");
  await settled();
  const sends = (): string[] => socket.sent.filter(({ type }) => type === "send").map((frame) => (frame as unknown as { message_id: string }).message_id);
  assert.deepEqual(sends(), [poison.message_id, good.message_id]);
  socket.deliver({ type: "error", code: "invalid_frame", message: "bad" });
  mock.timers.tick(2_000);
  await settled();
  assert.equal(sends().at(-1), poison.message_id, "now one at a time");
  socket.deliver({ type: "error", code: "invalid_frame", message: "bad" });
  mock.timers.tick(100);
  await settled();
  assert.equal(sends().at(-1), good.message_id);
  socket.deliver({ type: "ack", conversation_id: "d2", message_id: good.message_id, seq: 1, received_at: 1, duplicate: false });
  assert.deepEqual(client.conversation("d1").messages.map(({ state }) => state), ["failed"]);
  assert.equal(client.waitingCount, 1);
});

test("resend_has_the_retry_flag_and_after_seq", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  client.conversation("d1").send("again");
  await settled();
  assert.equal("retry" in (FakeSocket.last.sent.at(-1) as object), false);
  FakeSocket.last.end(1006);
  await delayOf(client);
  FakeSocket.last.welcome();
  await settled();
  const resend = FakeSocket.last.sent.find(({ type }) => type === "send") as unknown as { retry: boolean; after_seq: number };
  assert.deepEqual([resend.retry, resend.after_seq], [true, 0]);
});

test("typing_is_sent_at_most_every_3_s", async (t) => {
  const client = await started(t);
  FakeSocket.last.welcome();
  const typingFrames = (): number => FakeSocket.last.sent.filter(({ type }) => type === "typing").length;
  for (let key = 0; key < 20; key += 1) client.conversation("d1").typing();
  assert.equal(typingFrames(), 1);
  mock.timers.tick(3_000);
  client.conversation("d1").typing();
  assert.equal(typingFrames(), 2);
});

test("messages_of_one_turn_are_stored_in_one_write_before_they_are_sent", async (t) => {
  const memory = memoryStorage();
  const writes: { count: number; finish: () => void }[] = [];
  const slow: Storage = {
    read: (...given) => memory.read(...given),
    clear: (...given) => memory.clear(...given),
    close: () => memory.close(),
    write: async (scope, changes) => {
      const count = changes.filter(({ kind }) => kind === "outbox").length;
      if (count > 0) await new Promise<void>((finish) => writes.push({ count, finish }));
      return memory.write(scope, changes);
    },
  };
  const client = await started(t, { storage: slow });
  FakeSocket.last.welcome();
  const sends = (): number => FakeSocket.last.sent.filter(({ type }) => type === "send").length;
  for (let index = 0; index < 50; index += 1) client.conversation(`d${index}`).send("text");
  await settled();
  assert.deepEqual([writes.map(({ count }) => count), sends()], [[50], 0]);
  FakeSocket.last.end(1006);
  await delayOf(client);
  FakeSocket.last.welcome();
  assert.equal(sends(), 0, "sent on another connection before it is stored");
  writes[0]?.finish();
  await settled();
  assert.equal(sends(), 50);
});

test("revoked_token_ends_the_session_without_a_reconnect", async (t) => {
  let loggedOut = 0;
  const client = await started(t, { token: "the only one" });
  client.on("loggedOut", () => (loggedOut += 1));
  FakeSocket.last.welcome();
  FakeSocket.last.end(4402);
  await settled();
  assert.equal(loggedOut, 1);
  mock.timers.tick(100_000);
  assert.equal(FakeSocket.made.length, 1);
});

test("log_out_revokes_the_token_and_emits_no_logged_out", async (t) => {
  let loggedOut = 0;
  const calls: unknown[] = [];
  const answer = async (url: unknown, options?: RequestInit): Promise<Response> => {
    calls.push([String(url).replace(/^.*\/v1\//, ""), options?.method, new Headers(options?.headers).get("authorization"), options?.body]);
    return new Response(null, { status: 204 });
  };
  const client = await started(t, { token: "mine", fetch: answer as typeof fetch });
  client.on("loggedOut", () => (loggedOut += 1));
  FakeSocket.last.welcome();
  await settled();
  calls.length = 0;
  await client.logOut({ everywhere: true });
  assert.deepEqual(calls, [["logout", "POST", "Bearer mine", '{"everywhere":true}']]);
  assert.equal(loggedOut, 0);
});

test("log_out_without_a_network_rejects_and_clears_the_storage", async (t) => {
  const nowhere = async (): Promise<Response> => {
    throw new TypeError("no network");
  };
  const stored = memoryStorage();
  let cleared = 0;
  const storage: Storage = {
    read: (...asked) => stored.read(...asked),
    write: (...given) => stored.write(...given),
    clear: (scope) => ((cleared += 1), stored.clear(scope)),
    close: () => stored.close(),
  };
  const client = await started(t, { token: "mine", fetch: nowhere as typeof fetch, storage });
  await assert.rejects(client.logOut(), { code: "network" });
  assert.equal(cleared, 1);
  mock.timers.tick(100_000);
  assert.equal(FakeSocket.made.length, 1, "attempt after the logout");
});
