// Tests of the hint for a server of another origin. The browser gives no reason, so the hint must
// name every possible one. Real browsers do not belong here.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestContext } from "node:test";
import { logIn } from "../src/index.ts";
import { settled, started } from "./support/fake-server.ts";
import { FakeSocket } from "./support/fake-socket.ts";

const account = { userId: "alice", password: "correct horse battery" };
const failing: typeof fetch = () => Promise.reject(new TypeError("Failed to fetch"));
const HINT = /http:\/\/server cannot be reached, or it does not allow pages of https:\/\/app\.example: .*server\.allowed_origins/;

function onPage(t: TestContext, origin: string): void {
  Object.defineProperty(globalThis, "location", { value: { origin }, configurable: true });
  t.after(() => Reflect.deleteProperty(globalThis, "location"));
}

test("a_failed_call_to_another_origin_names_the_setting_and_its_cause", async (t) => {
  onPage(t, "https://app.example");
  await assert.rejects(logIn("http://server/", account, failing), (error: Error & { code: string; cause?: Error }) => {
    assert.equal(error.code, "network");
    assert.match(error.message, HINT);
    assert.equal(error.cause?.message, "Failed to fetch");
    return true;
  });
});

test("a_failed_call_to_the_page's_own_origin_or_without_a_page_names_no_setting", async (t) => {
  await assert.rejects(logIn("http://server", account, failing), { code: "network", message: /cannot be reached/ });
  onPage(t, "http://server");
  await assert.rejects(logIn("http://server/", account, failing), (error: Error) => !error.message.includes("allowed_origins"));
});

test("websocket_never_opened_by_another_origin_sets_the_status_and_emits_trouble_once", async (t) => {
  onPage(t, "https://app.example");
  const client = await started(t);
  const troubles: string[] = [];
  client.on("trouble", (text) => troubles.push(text));
  FakeSocket.last.end(1006);
  client.reconnect();
  await settled();
  FakeSocket.last.end(1006);
  assert.match(client.connection.error ?? "", HINT);
  assert.equal(troubles.length, 1);
  client.reconnect();
  await settled();
  FakeSocket.last.welcome();
  assert.equal(client.connection.error, null);
  // A connection that was open and ended proves that the origin is allowed.
  FakeSocket.last.end(1006);
  assert.equal(client.connection.error, null);
  assert.equal(troubles.length, 1);
});

test("an_outage_after_a_connection_to_another_origin_names_no_setting", async (t) => {
  onPage(t, "https://connected.example");
  const client = await started(t);
  const troubles: string[] = [];
  client.on("trouble", (text) => troubles.push(text));
  FakeSocket.last.welcome();
  FakeSocket.last.end(1006);
  client.reconnect();
  await settled();
  FakeSocket.last.end(1006);
  assert.equal(client.connection.error, null);
  assert.deepEqual(troubles, []);
  await assert.rejects(logIn("http://server", account, failing), { code: "network", message: "The server cannot be reached. Check the connection and try again." });
});

test("an_outage_after_an_answer_from_another_origin_names_no_setting", async (t) => {
  onPage(t, "https://answered.example");
  const refusing: typeof fetch = async () => new Response(JSON.stringify({ error: { code: "invalid_credentials", message: "no" } }), { status: 401 });
  await assert.rejects(logIn("http://server", account, failing), { message: /server\.allowed_origins/ });
  await assert.rejects(logIn("http://server", account, refusing), { code: "invalid_credentials" });
  await assert.rejects(logIn("http://server", account, failing), { code: "network", message: "The server cannot be reached. Check the connection and try again." });
  // An answer of one server proves nothing about another server.
  await assert.rejects(logIn("http://other", account, failing), { message: /server\.allowed_origins/ });
});
