import assert from "node:assert/strict";
import { test } from "node:test";
import { waitUntil } from "../harness/wait.mjs";
import { withEnvironment } from "../harness/environment.mjs";

const LONG = " and so on".repeat(12);
const readUpTo = async (bob, id) => {
  const { members } = await bob.call("GET", `/v1/conversations/${id}/status`);
  return members.find(({ user_id }) => user_id === "alice").last_read_seq;
};

test("opening_a_conversation_by_its_address_shows_the_unread_divider_and_reads_only_messages_on_the_screen", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    const bob = await env.server.account("bob");
    const id = await bob.direct("alice");
    await bob.send(id, "read before");
    await alice.open("bob");
    await alice.sees("read before");
    await waitUntil("it is read", async () => [(await readUpTo(bob, id)) === 1, ""]);
    const address = alice.page.url();
    await alice.page.goto("about:blank");
    for (let number = 1; number <= 40; number++) await bob.send(id, `missed ${number}${LONG}`);
    await alice.page.goto(address);
    await alice.page.getByRole("separator", { name: "New messages" }).waitFor();
    await alice.sees("missed 2 ");
    await waitUntil("some of it is read", async () => [(await readUpTo(bob, id)) > 1, ""]);
    const read = await readUpTo(bob, id);
    assert.ok(read < 30, `${read} of 41 are read after one look`);
    await alice.page.getByRole("button", { name: /^Jump to latest/ }).click();
    await waitUntil("all is read", async () => {
      const read = await readUpTo(bob, id);
      return [read === 41, read];
    });
  }));

test("messages_read_on_another_device_are_not_unread", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    const bob = await env.server.account("bob");
    const id = await bob.direct("alice");
    await bob.send(id, "first");
    await alice.open("bob");
    await alice.sees("first");
    const address = alice.page.url();
    await alice.page.goto("about:blank");
    for (let number = 1; number <= 40; number++) await bob.send(id, `missed ${number}${LONG}`);
    const { token } = await env.server.call("POST", "/v1/login", null, { user_id: "alice", password: alice.password });
    await env.server.call("POST", `/v1/conversations/${id}/read`, token, { seq: 41 });
    await alice.page.goto(address);
    await alice.sees("missed 40 ");
    await alice.isOnline();
    await alice.send("done");
    await alice.seesTick("done", "sent");
    assert.equal(await alice.page.getByRole("separator", { name: "New messages" }).count(), 0);
  }));

test("the_address_of_an_unknown_conversation_shows_an_error_and_no_composer", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    for (const hash of ["g01JABCDEFGHJKMNPQRSTVWXYZ", "gnonsense"]) {
      await alice.page.goto("about:blank");
      await alice.page.goto(`${env.proxy.url}/#${hash}`);
      await alice.page.getByText("This chat doesn't exist").waitFor();
      assert.equal(await alice.composer.count(), 0);
    }
  }));

test("a_session_lasts_until_the_server_ends_it_with_a_wrong_local_clock", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    await alice.page.evaluate(() => {
      for (const area of [localStorage, sessionStorage]) {
        const session = JSON.parse(area.getItem("bluetick:session"));
        area.setItem("bluetick:session", JSON.stringify({ ...session, expiresAt: 1 }));
      }
    });
    await alice.page.reload();
    await alice.isOnline();
  }));

test("going_back_to_the_list_adds_no_history_entry", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    const bob = await env.server.account("bob");
    await bob.send(await bob.direct("alice"), "hello");
    const lengths = [];
    for (let round = 0; round < 3; round++) {
      await alice.open("bob");
      lengths.push(await alice.page.evaluate(() => history.length));
      await alice.page.keyboard.press("Escape");
      await alice.composer.waitFor({ state: "detached" });
      await waitUntil("the address is the list's", async () => [new URL(alice.page.url()).hash === "", alice.page.url()]);
    }
    assert.deepEqual(lengths, [lengths[0], lengths[0], lengths[0]]);
    await alice.page.goForward();
    await alice.composer.waitFor();
    await alice.page.goBack();
    await alice.composer.waitFor({ state: "detached" });
  }));

test("a_connection_over_the_limit_shows_a_notice", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    await alice.openTab();
    await alice.page.getByText("Too many tabs or devices are open").waitFor();
  }, { env: { BLUETICK_LIMITS__CONNECTIONS_PER_USER: "1" } }));
