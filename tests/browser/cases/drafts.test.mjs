import assert from "node:assert/strict";
import { test } from "node:test";
import { waitUntil } from "../harness/wait.mjs";
import { withEnvironment } from "../harness/environment.mjs";

const isWritten = (user, page, text) =>
  waitUntil(`"${text}" is in the field`, async () => {
    user.page = page;
    const value = await user.composer.inputValue();
    return [value === text, value];
  });

test("two_tabs_share_one_draft_and_a_sent_draft_does_not_come_back", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    await env.server.account("bob");
    await alice.startChatWith("bob");
    const address = alice.page.url();
    const first = alice.page;
    await alice.composer.fill("half a thought");
    await waitUntil("the draft is kept", async () => [(await alice.storedData()).includes("half a thought"), ""]);
    const second = await alice.openTab();
    await second.goto(address);
    await isWritten(alice, second, "half a thought");
    await alice.composer.fill("a whole thought");
    await isWritten(alice, first, "a whole thought");
    alice.page = second;
    await alice.composer.press("Enter");
    await alice.seesTick("a whole thought", "sent");
    await isWritten(alice, first, "");
    await waitUntil("the draft is gone", async () => {
      const drafts = await first.evaluate(() => Object.keys(localStorage).filter((key) => /draft|sent/.test(key)));
      return [drafts.length === 0, drafts];
    });
    await first.reload();
    await isWritten(alice, first, "");
    await second.reload();
    await isWritten(alice, second, "");
  }));

test("a_reload_right_after_enter_keeps_the_message_and_deletes_its_draft", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    await env.server.account("bob");
    await alice.startChatWith("bob");
    await alice.composer.fill("in a hurry");
    await waitUntil("the draft is kept", async () => [(await alice.storedData()).includes("in a hurry"), ""]);
    const loaded = alice.page.waitForEvent("load");
    // Both in one task, which starts after this call has returned.
    await alice.page.evaluate(() => {
      setTimeout(() => {
        document.querySelector("textarea").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
        location.reload();
      });
    });
    await loaded;
    await alice.seesTick("in a hurry", "sent");
    await isWritten(alice, alice.page, "");
    assert.deepEqual(await alice.texts(), ["in a hurry"]);
  }));
