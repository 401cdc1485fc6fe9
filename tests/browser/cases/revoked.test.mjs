// A session that ended elsewhere: the log-in page says so.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inWorld } from "../harness/world.mjs";

/** Ends every session of the person, as another device of theirs would. */
async function logOutEverywhere(world, person) {
  const { token } = await world.server.call("POST", "/v1/login", null, { user_id: person.name, password: person.password });
  const answer = await fetch(`${world.server.url}/v1/logout`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ everywhere: true }),
  });
  assert.ok(answer.ok, `${answer.status}`);
}

test("a session revoked while the page is open leads to a log-in page that says so, and keeps what waits", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice");
    const bob = await world.server.account("bob");
    const id = await bob.direct("alice");
    await bob.send(id, "hello");
    await alice.open("bob");
    await alice.composer.fill("half a thought");
    await logOutEverywhere(world, alice);
    await alice.page.getByText("You were logged out").waitFor();
    assert.equal(await alice.page.getByLabel("User ID").inputValue(), "alice");
    // A reload of the log-in page keeps both.
    await alice.page.reload();
    await alice.page.getByText("You were logged out").waitFor();
    assert.equal(await alice.page.getByLabel("User ID").inputValue(), "alice");
    await alice.logIn();
    assert.equal(await alice.page.getByText("You were logged out").count(), 0);
    await alice.sees("hello");
    assert.equal(await alice.composer.inputValue(), "half a thought");
  }));

test("a session revoked while the page was closed leads to a log-in page that says so", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice");
    await alice.page.goto("about:blank");
    await logOutEverywhere(world, alice);
    await alice.page.goto(world.proxy.url);
    await alice.page.getByText("You were logged out").waitFor();
    await alice.logIn();
  }));

test("a manual log-out shows no notice on the log-in page", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice");
    await alice.page.getByRole("button", { name: "Settings", exact: true }).click();
    await alice.page.getByRole("button", { name: "Log out" }).click();
    await alice.page.getByLabel("User ID").waitFor();
    assert.equal(await alice.page.getByRole("status").count(), 0);
  }));
