// Messages whose content is not there, and an archive that does not answer.

import assert from "node:assert/strict";
import { test } from "node:test";
import { expectSoon } from "../harness/soon.mjs";
import { inWorld } from "../harness/world.mjs";

/** Bob has written, and a device of alice has all of it; this is another one. */
async function secondDevice(world, count, onPage) {
  const first = await world.signedUp("alice");
  const bob = await world.server.account("bob");
  const id = await bob.direct("alice");
  await bob.send(id, "message 1");
  await first.open("bob");
  for (let number = 2; number <= count; number++) await bob.send(id, `message ${number}`);
  // Until the first has told so, it would be pushed to the second, which would begin at what is unread.
  await expectSoon("all is read", async () => {
    const { members } = await bob.call("GET", `/v1/conversations/${id}/status`);
    const { last_read_seq } = members.find(({ user_id }) => user_id === "alice");
    return [last_read_seq === count, last_read_seq];
  });
  const second = await world.person("alice", { serviceWorkers: "block" });
  await second.page.route(/\/messages\?/, onPage);
  await second.logIn();
  await second.open("bob");
  return second;
}

test("a message that was deleted, or cannot be read, says so, and cannot be copied", () =>
  inWorld(async (world) => {
    const types = { 2: "erased", 3: "lost" };
    const alice = await secondDevice(world, 4, async (route) => {
      const answer = await route.fetch();
      const page = await answer.json();
      const messages = page.messages.map((message) => (types[message.seq] ? { ...message, content: "", content_type: types[message.seq] } : message));
      await route.fulfill({ response: answer, json: { ...page, messages } });
    });
    await alice.sees("message 4");
    for (const words of ["This message was deleted", "This message cannot be read at the moment"]) {
      const shown = alice.page.locator(".message .absent", { hasText: words });
      await shown.waitFor();
      const look = await shown.evaluate((each) => [getComputedStyle(each).fontStyle, getComputedStyle(each).userSelect]);
      assert.deepEqual(look, ["italic", "none"]);
    }
  }));

test("older messages that cannot be loaded are said to be so, and loaded when somebody tries again", () =>
  inWorld(async (world) => {
    let isDown = true;
    const alice = await secondDevice(world, 130, async (route) => {
      if (!isDown || !route.request().url().includes("before_seq")) return route.continue();
      await route.fulfill({ status: 503, json: { error: { code: "archive_unavailable", message: "older messages cannot be read now" } } });
    });
    await alice.sees("message 130");
    const error = alice.page.getByRole("alert").filter({ hasText: "Older messages can't be loaded right now." });
    await expectSoon("the error is shown", async () => {
      await alice.page.getByRole("region", { name: "Messages" }).evaluate((area) => (area.scrollTop = 0));
      return [await error.isVisible(), await alice.page.getByRole("alert").allInnerTexts()];
    });
    isDown = false;
    await error.getByRole("button", { name: "Try again" }).click();
    await error.waitFor({ state: "hidden" });
    await expectSoon("the first message is here", async () => {
      await alice.page.getByRole("region", { name: "Messages" }).evaluate((area) => (area.scrollTop = 0));
      return [await alice.page.locator('[data-seq="1"]').isVisible(), "not yet"];
    });
  }));
