// A session that ended on another device: the log-in screen shows the reason.

import assert from "node:assert/strict";
import { test } from "node:test";
import { withEnvironment } from "../harness/environment.mjs";

/** Ends every session of the user, as another device of the user would. */
async function logOutEverywhere(env, user) {
  const { token } = await env.server.call("POST", "/v1/login", null, { user_id: user.name, password: user.password });
  const answer = await fetch(`${env.server.url}/v1/logout`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ everywhere: true }),
  });
  assert.ok(answer.ok, `${answer.status}`);
}

test("a_session_revoked_while_the_page_is_open_shows_the_log_in_screen_with_the_reason_and_keeps_the_draft", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    const bob = await env.server.account("bob");
    const id = await bob.direct("alice");
    await bob.send(id, "hello");
    await alice.open("bob");
    await alice.composer.fill("half a thought");
    await logOutEverywhere(env, alice);
    await alice.page.getByText("You were logged out").waitFor();
    assert.equal(await alice.page.getByLabel("User ID").inputValue(), "alice");
    // A reload of the log-in screen keeps both.
    await alice.page.reload();
    await alice.page.getByText("You were logged out").waitFor();
    assert.equal(await alice.page.getByLabel("User ID").inputValue(), "alice");
    await alice.logIn();
    assert.equal(await alice.page.getByText("You were logged out").count(), 0);
    await alice.sees("hello");
    assert.equal(await alice.composer.inputValue(), "half a thought");
  }));

test("a_session_revoked_while_the_page_was_closed_shows_the_log_in_screen_with_the_reason", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    await alice.page.goto("about:blank");
    await logOutEverywhere(env, alice);
    await alice.page.goto(env.proxy.url);
    await alice.page.getByText("You were logged out").waitFor();
    await alice.logIn();
  }));

test("a_manual_log_out_shows_no_notice_on_the_log_in_screen", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    await alice.page.getByRole("button", { name: "Settings", exact: true }).click();
    await alice.page.getByRole("button", { name: "Log out" }).click();
    await alice.page.getByLabel("User ID").waitFor();
    assert.equal(await alice.page.getByRole("status").count(), 0);
  }));
