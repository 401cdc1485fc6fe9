// Tests of the request queue: concurrency, urgency, and pauses after failures. The requests
// themselves do not belong here.

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import type { TestContext } from "node:test";
import { BluetickError } from "../src/index.ts";
import { RequestQueue } from "../src/request-queue.ts";
import { settled, started } from "./support/fake-server.ts";
import { FakeSocket } from "./support/fake-socket.ts";

/** Returns a queue whose requests end when the test ends them. */
function controlledQueue(test: TestContext, limit: number) {
  mock.timers.enable({ apis: ["setTimeout"] });
  test.after(() => mock.timers.reset());
  const queue = new RequestQueue(limit, () => 0.5);
  test.after(() => queue.stop());
  const startedKeys: string[] = [];
  const ends = new Map<string, (error?: unknown) => void>();
  const add = (key: string, isUrgent = true): void =>
    queue.add(key, () => new Promise<void>((resolve, reject) => (startedKeys.push(key), ends.set(key, (error) => (error ? reject(error) : resolve())))), isUrgent);
  const end = async (key: string, error?: unknown): Promise<void> => (ends.get(key)?.(error), settled());
  return { add, startedKeys, end };
}

test("urgent_requests_start_before_background_requests_within_the_limit", async (t) => {
  const { add, startedKeys, end } = controlledQueue(t, 2);
  for (const key of ["a", "b"]) add(key);
  for (const key of ["c", "d", "e"]) add(key, false);
  add("d");
  assert.deepEqual(startedKeys, ["a", "b"]);
  await end("a");
  await end("b");
  assert.deepEqual(startedKeys, ["a", "b", "d", "c"]);
});

test("request_added_while_its_key_is_running_runs_once_more", async (t) => {
  const { add, startedKeys, end } = controlledQueue(t, 4);
  for (let call = 0; call < 5; call += 1) add("a");
  assert.deepEqual(startedKeys, ["a"]);
  await end("a");
  await end("a");
  assert.deepEqual(startedKeys, ["a", "a"]);
});

test("background_requests_are_spaced_and_urgent_ones_start_at_once", async (t) => {
  const { add, startedKeys, end } = controlledQueue(t, 2);
  for (const key of ["a", "b", "c"]) add(key, false);
  await end("a");
  assert.deepEqual(startedKeys, ["a"], "background requests started together");
  add("d");
  assert.deepEqual(startedKeys, ["a", "d"]);
  mock.timers.tick(25);
  assert.deepEqual(startedKeys, ["a", "d", "b"]);
});

test("failed_requests_are_repeated_after_the_retry_after_time", async (t) => {
  const { add, startedKeys, end } = controlledQueue(t, 2);
  for (const key of ["a", "b", "c"]) add(key);
  const enough = new BluetickError("rate_limited", "Too many.", 429, 7_000);
  await end("a", enough);
  await end("b", enough);
  mock.timers.tick(6_999);
  assert.equal(startedKeys.length, 2);
  mock.timers.tick(1);
  await end("c");
  await end("a");
  mock.timers.tick(25);
  assert.deepEqual(startedKeys, ["a", "b", "c", "a", "b"]);
});

test("large_backlog_refreshes_at_most_4_conversations_at_a_time", async (t) => {
  let [running, most, calls] = [0, 0, 0];
  const answer: typeof fetch = async (url) => {
    if (!/conversations\/g\d+$/.test(String(url))) return new Response(JSON.stringify({ conversations: [], next_cursor: null }));
    calls += 1;
    most = Math.max(most, (running += 1));
    await new Promise((resolve) => setTimeout(resolve, 200));
    running -= 1;
    const headers = { "retry-after": "2" };
    return new Response(JSON.stringify({ error: { code: "rate_limited", message: "Too many." } }), { status: 429, headers });
  };
  await started(t, { fetch: answer });
  FakeSocket.last.open();
  for (let index = 0; index < 500; index += 1) FakeSocket.last.deliver({ type: "backlog", conversation_id: `g${index}`, next_after_seq: 0, head_seq: 3 });
  FakeSocket.last.deliver({ type: "caught_up" });
  for (let step = 0; step < 1_000; step += 1) {
    await settled();
    mock.timers.tick(10);
  }
  assert.equal(most, 4);
  assert(calls <= 5 * 4, `${calls} calls within 10 s although retry-after is 2 s`);
});
