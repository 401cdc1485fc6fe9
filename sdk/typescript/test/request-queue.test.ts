// Many questions to the server: a few at a time, and patience with one that has enough.

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import type { TestContext } from "node:test";
import { BluetickError } from "../src/index.ts";
import { RequestQueue } from "../src/request-queue.ts";
import { settled, started } from "./support/fake-server.ts";
import { FakeSocket } from "./support/fake-socket.ts";

/** Work whose end the test decides. */
function desk(test: TestContext, limit: number) {
  mock.timers.enable({ apis: ["setTimeout"] });
  test.after(() => mock.timers.reset());
  const turns = new RequestQueue(limit, () => 0.5);
  test.after(() => turns.stop());
  const begun: string[] = [];
  const ends = new Map<string, (error?: unknown) => void>();
  const add = (key: string, isUrgent = true): void =>
    turns.add(key, () => new Promise<void>((resolve, reject) => (begun.push(key), ends.set(key, (error) => (error ? reject(error) : resolve())))), isUrgent);
  const end = async (key: string, error?: unknown): Promise<void> => (ends.get(key)?.(error), settled());
  return { add, begun, end };
}

test("few at a time, the urgent ones first", async (t) => {
  const { add, begun, end } = desk(t, 2);
  for (const key of ["a", "b"]) add(key);
  for (const key of ["c", "d", "e"]) add(key, false);
  add("d");
  assert.deepEqual(begun, ["a", "b"]);
  await end("a");
  await end("b");
  assert.deepEqual(begun, ["a", "b", "d", "c"]);
});

test("a wish that comes while its work is under way is done after it, once", async (t) => {
  const { add, begun, end } = desk(t, 4);
  for (let wish = 0; wish < 5; wish += 1) add("a");
  assert.deepEqual(begun, ["a"]);
  await end("a");
  await end("a");
  assert.deepEqual(begun, ["a", "a"]);
});

test("what nobody waits for leaves room for what a person does", async (t) => {
  const { add, begun, end } = desk(t, 2);
  for (const key of ["a", "b", "c"]) add(key, false);
  await end("a");
  assert.deepEqual(begun, ["a"], "not all at once");
  add("d");
  assert.deepEqual(begun, ["a", "d"]);
  mock.timers.tick(25);
  assert.deepEqual(begun, ["a", "d", "b"]);
});

test("a server that has enough is left alone for as long as it wants, and then asked again", async (t) => {
  const { add, begun, end } = desk(t, 2);
  for (const key of ["a", "b", "c"]) add(key);
  const enough = new BluetickError("rate_limited", "Too many.", 429, 7_000);
  await end("a", enough);
  await end("b", enough);
  mock.timers.tick(6_999);
  assert.equal(begun.length, 2);
  mock.timers.tick(1);
  await end("c");
  await end("a");
  mock.timers.tick(25);
  assert.deepEqual(begun, ["a", "b", "c", "a", "b"]);
});

test("a device that is far behind asks about four conversations at a time", async (t) => {
  let [underWay, most, calls] = [0, 0, 0];
  const answer: typeof fetch = async (url) => {
    if (!/conversations\/g\d+$/.test(String(url))) return new Response(JSON.stringify({ conversations: [], next_cursor: null }));
    calls += 1;
    most = Math.max(most, (underWay += 1));
    await new Promise((resolve) => setTimeout(resolve, 200));
    underWay -= 1;
    const headers = { "retry-after": "2" };
    return new Response(JSON.stringify({ error: { code: "rate_limited", message: "Too many." } }), { status: 429, headers });
  };
  await started(t, { fetch: answer });
  FakeSocket.last.open();
  for (let index = 0; index < 500; index += 1) FakeSocket.last.say({ type: "backlog", conversation_id: `g${index}`, next_after_seq: 0, head_seq: 3 });
  FakeSocket.last.say({ type: "caught_up" });
  for (let step = 0; step < 1_000; step += 1) {
    await settled();
    mock.timers.tick(10);
  }
  assert.equal(most, 4);
  assert(calls <= 5 * 4, `${calls} calls in ten seconds to a server that wants two seconds between them`);
});
