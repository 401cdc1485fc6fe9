import assert from "node:assert/strict";
import { test } from "node:test";
import { expectSoon } from "../harness/soon.mjs";
import { inWorld } from "../harness/world.mjs";

const LONG = " and so on".repeat(12);
const readUpTo = async (bob, id) => {
  const { members } = await bob.call("GET", `/v1/conversations/${id}/status`);
  return members.find(({ user_id }) => user_id === "alice").last_read_seq;
};

test("coming back by the address shows where the unread begin, and reads only what was on the screen", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice");
    const bob = await world.server.account("bob");
    const id = await bob.direct("alice");
    await bob.send(id, "read before");
    await alice.open("bob");
    await alice.sees("read before");
    await expectSoon("it is read", async () => [(await readUpTo(bob, id)) === 1, ""]);
    const address = alice.page.url();
    await alice.page.goto("about:blank");
    for (let number = 1; number <= 40; number++) await bob.send(id, `missed ${number}${LONG}`);
    await alice.page.goto(address);
    await alice.page.getByRole("separator", { name: "New messages" }).waitFor();
    await alice.sees("missed 2 ");
    await expectSoon("some of it is read", async () => [(await readUpTo(bob, id)) > 1, ""]);
    const read = await readUpTo(bob, id);
    assert.ok(read < 30, `${read} of 41 are read after one look`);
    await alice.page.getByRole("button", { name: /^Jump to latest/ }).click();
    await expectSoon("all is read", async () => {
      const read = await readUpTo(bob, id);
      return [read === 41, read];
    });
  }));

test("what another device has read is not unread here", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice");
    const bob = await world.server.account("bob");
    const id = await bob.direct("alice");
    await bob.send(id, "first");
    await alice.open("bob");
    await alice.sees("first");
    const address = alice.page.url();
    await alice.page.goto("about:blank");
    for (let number = 1; number <= 40; number++) await bob.send(id, `missed ${number}${LONG}`);
    const { token } = await world.server.call("POST", "/v1/login", null, { user_id: "alice", password: alice.password });
    await world.server.call("POST", `/v1/conversations/${id}/read`, token, { seq: 41 });
    await alice.page.goto(address);
    await alice.sees("missed 40 ");
    await alice.isOnline();
    await alice.say("done");
    await alice.seesTick("done", "sent");
    assert.equal(await alice.page.getByRole("separator", { name: "New messages" }).count(), 0);
  }));

test("an address of no conversation says so and takes no message", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice");
    for (const hash of ["g01JABCDEFGHJKMNPQRSTVWXYZ", "gnonsense"]) {
      await alice.page.goto("about:blank");
      await alice.page.goto(`${world.proxy.url}/#${hash}`);
      await alice.page.getByText("This chat does not exist").waitFor();
      assert.equal(await alice.composer.count(), 0);
    }
  }));

test("a session lasts until the server ends it, whatever the clock here says", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice");
    await alice.page.evaluate(() => {
      for (const area of [localStorage, sessionStorage]) {
        const session = JSON.parse(area.getItem("bluetick:session"));
        area.setItem("bluetick:session", JSON.stringify({ ...session, expiresAt: 1 }));
      }
    });
    await alice.page.reload();
    await alice.isOnline();
  }));

test("the way back to the list is no new place in the history", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice");
    const bob = await world.server.account("bob");
    await bob.send(await bob.direct("alice"), "hello");
    const lengths = [];
    for (let round = 0; round < 3; round++) {
      await alice.open("bob");
      lengths.push(await alice.page.evaluate(() => history.length));
      await alice.page.keyboard.press("Escape");
      await alice.composer.waitFor({ state: "detached" });
      await expectSoon("the address is the list's", async () => [new URL(alice.page.url()).hash === "", alice.page.url()]);
    }
    assert.deepEqual(lengths, [lengths[0], lengths[0], lengths[0]]);
    await alice.page.goForward();
    await alice.composer.waitFor();
    await alice.page.goBack();
    await alice.composer.waitFor({ state: "detached" });
  }));

test("one connection too many is told in words", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice");
    await alice.openTab();
    await alice.page.getByText("Too many tabs or devices are open").waitFor();
  }, { env: { BLUETICK_LIMITS__CONNECTIONS_PER_USER: "1" } }));
