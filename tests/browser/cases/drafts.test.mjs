import assert from "node:assert/strict";
import { test } from "node:test";
import { expectSoon } from "../harness/soon.mjs";
import { inWorld } from "../harness/world.mjs";

const isWritten = (person, page, text) =>
  expectSoon(`"${text}" is in the field`, async () => {
    person.page = page;
    const value = await person.composer.inputValue();
    return [value === text, value];
  });

test("two tabs have one draft, and a draft that was sent does not come back", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice");
    await world.server.account("bob");
    await alice.startChatWith("bob");
    const address = alice.page.url();
    const first = alice.page;
    await alice.composer.fill("half a thought");
    await expectSoon("the draft is kept", async () => [(await alice.remembered()).includes("half a thought"), ""]);
    const second = await alice.openTab();
    await second.goto(address);
    await isWritten(alice, second, "half a thought");
    await alice.composer.fill("a whole thought");
    await isWritten(alice, first, "a whole thought");
    alice.page = second;
    await alice.composer.press("Enter");
    await alice.seesTick("a whole thought", "sent");
    await isWritten(alice, first, "");
    await expectSoon("the draft is gone", async () => {
      const drafts = await first.evaluate(() => Object.keys(localStorage).filter((key) => /draft|sent/.test(key)));
      return [drafts.length === 0, drafts];
    });
    await first.reload();
    await isWritten(alice, first, "");
    await second.reload();
    await isWritten(alice, second, "");
  }));

test("a page that goes away with the key still down neither loses the message nor keeps its draft", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice");
    await world.server.account("bob");
    await alice.startChatWith("bob");
    await alice.composer.fill("in a hurry");
    await expectSoon("the draft is kept", async () => [(await alice.remembered()).includes("in a hurry"), ""]);
    const loaded = alice.page.waitForEvent("load");
    // Both in one turn, and not before the browser has answered that it will.
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
