import assert from "node:assert/strict";
import { test } from "node:test";
import { waitUntil } from "../harness/wait.mjs";
import { withEnvironment } from "../harness/environment.mjs";

test("the_client_can_be_used_with_the_keyboard_alone", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    for (const name of ["bob", "bonnie", "carol"]) await env.server.account(name);
    const { page } = alice;
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.tagName);
    await page.keyboard.press("/");
    assert.equal(await focused(), "Search people and chats");
    await page.keyboard.type("bo");
    await page.getByRole("option").nth(1).waitFor();
    await page.keyboard.press("ArrowDown");
    const chosen = page.getByRole("option", { selected: true });
    await waitUntil("the second is chosen", async () => [/bonnie/.test(await chosen.innerText()), await chosen.innerText()]);
    await page.keyboard.press("Enter");
    await waitUntil("the composer for bonnie has the focus", async () => [/^Message to bonnie/.test(await focused()), await focused()]);
    await page.keyboard.type("first line");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("second line");
    await page.keyboard.press("Enter");
    await alice.seesTick("first line", "sent");
    assert.deepEqual(await alice.texts(), ["first line\nsecond line"]);

    await page.keyboard.press("Control+k");
    await page.keyboard.type("carol");
    await page.getByRole("option").filter({ hasText: "carol" }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "carol" }).waitFor();
    await alice.send("hi carol");
    await alice.seesTick("hi carol", "sent");
    await page.keyboard.press("Alt+ArrowDown");
    await page.getByRole("heading", { name: "bonnie" }).waitFor();
    await page.keyboard.press("Alt+ArrowUp");
    await page.getByRole("heading", { name: "carol" }).waitFor();
    await page.keyboard.press("Escape");
    await alice.composer.waitFor({ state: "detached" });
    await page.keyboard.press("?");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  }));

test("only_new_messages_of_others_are_announced_and_ticks_have_labels", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    const bob = await env.server.account("bob");
    const id = await bob.direct("alice");
    await bob.send(id, "old news");
    const announcer = alice.page.locator('[aria-live="polite"]#announcer');
    await waitUntil("it is announced", async () => {
      const said = await announcer.innerText();
      return [said === "bob: old news", said];
    });
    await alice.page.reload();
    await alice.open("bob");
    await alice.sees("old news");
    await alice.send("my own");
    await alice.message("my own").getByRole("img", { name: "Sent" }).waitFor();
    assert.equal(await announcer.innerText(), "", "history and own messages are not announced");
    await bob.send(id, "something new");
    await waitUntil("it is announced", async () => {
      const said = await announcer.innerText();
      return [said === "bob: something new", said];
    });
    await bob.call("POST", `/v1/conversations/${id}/read`, { seq: 3 });
    await alice.message("my own").getByRole("img", { name: "Read" }).waitFor();
  }));

test("a_phone_shows_either_the_list_or_the_conversation", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice", { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
    const bob = await env.server.account("bob");
    await bob.send(await bob.direct("alice"), "hello on the phone");
    await alice.open("bob");
    await alice.sees("hello on the phone");
    assert.equal(await alice.row("bob").isVisible(), false);
    const width = await alice.page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 390, `${width} pixels wide`);
    await alice.page.getByRole("button", { name: "Back to chats" }).click();
    await alice.row("bob").waitFor();
    assert.equal(await alice.composer.count(), 0);
  }));
