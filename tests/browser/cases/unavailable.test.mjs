// Messages without content, and an archive that does not respond.

import assert from "node:assert/strict";
import { test } from "node:test";
import { waitUntil } from "../harness/wait.mjs";
import { withEnvironment } from "../harness/environment.mjs";

/** A second device of alice, after her first device has read all messages of bob. */
async function secondDevice(env, count, onPage) {
  const first = await env.signedUp("alice");
  const bob = await env.server.account("bob");
  const id = await bob.direct("alice");
  await bob.send(id, "message 1");
  await first.open("bob");
  for (let number = 2; number <= count; number++) await bob.send(id, `message ${number}`);
  // Before the first device has sent its receipt, the second one would open at the unread messages.
  await waitUntil("all is read", async () => {
    const { members } = await bob.call("GET", `/v1/conversations/${id}/status`);
    const { last_read_seq } = members.find(({ user_id }) => user_id === "alice");
    return [last_read_seq === count, last_read_seq];
  });
  const second = await env.user("alice", { serviceWorkers: "block" });
  await second.page.route(/\/messages\?/, onPage);
  await second.logIn();
  await second.open("bob");
  return second;
}

test("deleted_and_unavailable_messages_show_a_notice_that_cannot_be_selected", () =>
  withEnvironment(async (env) => {
    const types = { 2: "erased", 3: "lost" };
    const alice = await secondDevice(env, 4, async (route) => {
      const answer = await route.fetch();
      const page = await answer.json();
      const messages = page.messages.map((message) => (types[message.seq] ? { ...message, content: "", content_type: types[message.seq] } : message));
      await route.fulfill({ response: answer, json: { ...page, messages } });
    });
    await alice.sees("message 4");
    for (const text of ["This message was deleted", "This message is not available"]) {
      const shown = alice.page.locator(".message .absent", { hasText: text });
      await shown.waitFor();
      const look = await shown.evaluate((each) => [getComputedStyle(each).fontStyle, getComputedStyle(each).userSelect]);
      assert.deepEqual(look, ["italic", "none"]);
    }
  }));

test("older_messages_that_cannot_be_loaded_show_an_error_and_load_after_try_again", () =>
  withEnvironment(async (env) => {
    let isDown = true;
    const alice = await secondDevice(env, 130, async (route) => {
      if (!isDown || !route.request().url().includes("before_seq")) return route.continue();
      await route.fulfill({ status: 503, json: { error: { code: "archive_unavailable", message: "older messages cannot be read now" } } });
    });
    await alice.sees("message 130");
    const error = alice.page.getByRole("alert").filter({ hasText: "Older messages can't be loaded right now." });
    await waitUntil("the error is shown", async () => {
      await alice.page.getByRole("region", { name: "Messages" }).evaluate((area) => (area.scrollTop = 0));
      return [await error.isVisible(), await alice.page.getByRole("alert").allInnerTexts()];
    });
    isDown = false;
    await error.getByRole("button", { name: "Try again" }).click();
    await error.waitFor({ state: "hidden" });
    await waitUntil("the first message is here", async () => {
      await alice.page.getByRole("region", { name: "Messages" }).evaluate((area) => (area.scrollTop = 0));
      return [await alice.page.locator('[data-seq="1"]').isVisible(), "not yet"];
    });
  }));
