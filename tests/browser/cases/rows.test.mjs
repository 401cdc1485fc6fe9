import assert from "node:assert/strict";
import { test } from "node:test";
import { RECONNECT_MS, waitUntil } from "../harness/wait.mjs";
import { withEnvironment } from "../harness/environment.mjs";

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

async function openChat(env, options) {
  const alice = await env.signedUp("alice", options);
  const bob = await env.server.account("bob");
  const id = await bob.direct("alice");
  await bob.send(id, "hello");
  await alice.open("bob");
  await alice.sees("hello");
  return { alice, bob, id };
}

test("escape_in_the_chat_menu_closes_only_the_menu", () =>
  withEnvironment(async (env) => {
    const { alice } = await openChat(env);
    await alice.row("bob").getByRole("link").focus();
    await alice.page.keyboard.press("Shift+F10");
    await alice.page.getByRole("menu").waitFor();
    await alice.page.keyboard.press("Escape");
    await alice.page.getByRole("menu").waitFor({ state: "detached" });
    await alice.composer.waitFor();
    await alice.page.keyboard.press("Escape");
    await alice.composer.waitFor({ state: "detached" });
  }));

test("on_a_touch_screen_the_chat_menu_opens_at_its_row_and_enter_starts_a_new_line", () =>
  withEnvironment(async (env) => {
    const { alice } = await openChat(env, PHONE);
    await alice.composer.fill("one");
    await alice.composer.press("Enter");
    await alice.composer.pressSequentially("two");
    assert.equal(await alice.composer.inputValue(), "one\ntwo");
    await alice.page.getByRole("button", { name: "Send" }).tap();
    await alice.sees("two");
    await alice.page.getByRole("button", { name: "Back to chats" }).tap();
    const row = alice.row("bob");
    await row.getByRole("button", { name: "Options for bob" }).tap();
    const menu = await alice.page.getByRole("menu").boundingBox();
    const line = await row.boundingBox();
    assert.ok(menu.x > 100 && menu.y >= line.y && menu.y < line.y + line.height + 20, JSON.stringify({ menu, line }));
    await alice.page.getByRole("menuitem", { name: "Pin" }).tap();
    await row.getByRole("img", { name: "Pinned" }).waitFor();
  }));

test("the_same_text_twice_is_announced_twice", () =>
  withEnvironment(async (env) => {
    const { alice, bob, id } = await openChat(env);
    const changes = await alice.page.evaluateHandle(() => {
      const seen = [];
      const announcer = document.querySelector("#announcer");
      new MutationObserver(() => seen.push(announcer.textContent)).observe(announcer, { childList: true, characterData: true, subtree: true });
      return seen;
    });
    const count = async () => (await changes.jsonValue()).filter((text) => text.replace("\u200b", "") === "bob: knock").length;
    for (const wanted of [1, 2, 3]) {
      await bob.send(id, "knock");
      await waitUntil(`announced ${wanted} times`, async () => [(await count()) === wanted, await changes.jsonValue()]);
    }
  }));

test("the_chat_list_shows_queued_and_failed_messages", () =>
  withEnvironment(async (env) => {
    const { alice } = await openChat(env);
    const row = alice.row("bob");
    env.proxy.mode = "closed";
    await alice.send("still here");
    await row.getByText("still here").waitFor();
    await row.getByRole("img", { name: "Waiting to send" }).waitFor();
    env.proxy.mode = "open";
    await row.getByRole("img", { name: "Sent", exact: true }).waitFor({ timeout: RECONNECT_MS });
    await alice.send("x".repeat(600));
    await alice.seesTick("x".repeat(600), "failed");
    await row.getByRole("img", { name: "Not sent" }).waitFor();
    await alice.page.getByRole("button", { name: "Delete" }).click();
    await row.getByText("still here").waitFor();
  }, { env: { BLUETICK_LIMITS__CONTENT_BYTES: "500" } }));

test("a_message_that_the_server_refuses_for_now_shows_the_reason_and_can_be_cancelled", () =>
  withEnvironment(async (env) => {
    const { alice } = await openChat(env);
    const last = alice.message("quick 19.");
    // Real key presses could be slow enough for the limit.
    await alice.composer.evaluate((field) => {
      for (let number = 0; number < 20; number++) {
        field.value = `quick ${number}.`;
        field.dispatchEvent(new Event("input", { bubbles: true }));
        field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
      }
    });
    await alice.page.getByText("Waiting: Too many requests.").first().waitFor();
    // Without a connection, queued messages stay queued.
    env.proxy.mode = "closed";
    await last.getByRole("button", { name: "Cancel sending" }).click();
    await last.waitFor({ state: "detached" });
  }, { env: { BLUETICK_LIMITS__SENDS_PER_SECOND: "1", BLUETICK_LIMITS__SENDS_BURST: "2" } }));

test("a_page_that_failed_to_load_is_loaded_by_try_again_or_when_the_connection_is_back", () =>
  withEnvironment(async (env) => {
    await env.server.account("alice");
    const bob = await env.server.account("bob");
    const id = await bob.direct("alice");
    // The list fetches some pages ahead, and two pages must be left for the test.
    for (let number = 1; number <= 450; number++) await bob.send(id, `message ${number}.`);
    const alice = await env.user("alice", { serviceWorkers: "block" });
    await alice.logIn();
    const { page } = alice;
    const area = page.getByRole("region", { name: "Messages" });
    const up = () => area.press("Home");
    await alice.open("bob");
    await page.getByRole("separator", { name: "New messages" }).waitFor();
    await page.getByRole("button", { name: /^Jump to latest/ }).click();
    await alice.sees("message 450.");
    const again = page.getByRole("button", { name: "Try again" });
    const ways = [() => again.click(), () => env.proxy.cut()];
    for (const tryAgain of ways) {
      await page.route(/before_seq/, (route) => route.abort());
      await waitUntil("the error is shown", async () => [await up().then(() => again.isVisible()), ""]);
      await page.unrouteAll();
      const isAsked = page.waitForRequest(/before_seq/);
      await tryAgain();
      await isAsked;
      await again.waitFor({ state: "detached" });
    }
  }));

test("times_are_of_the_server_clock_and_a_different_sender_clock_is_in_the_tooltip", () =>
  withEnvironment(async (env) => {
    const { alice, bob, id } = await openChat(env);
    const body = { message_id: crypto.randomUUID(), content: "from the past", timestamp: Date.UTC(2001, 1, 3, 4, 5) };
    await bob.call("POST", `/v1/conversations/${id}/messages`, body);
    await alice.sees("from the past");
    const time = alice.message("from the past").locator("time");
    assert.equal(new Date(await time.getAttribute("datetime")).getFullYear(), new Date().getFullYear());
    assert.match(await time.getAttribute("title"), /clock.*2001/);
    assert.doesNotMatch(await alice.message("hello").locator("time").getAttribute("title"), /clock/);
  }));

test("a_very_long_text_is_truncated_until_read_more", () =>
  withEnvironment(async (env) => {
    const { alice, bob, id } = await openChat(env);
    await bob.send(id, "word ".repeat(4_000));
    const content = alice.message("word word").locator(".content");
    await content.waitFor();
    assert.ok((await content.innerText()).length < 5_000);
    await content.getByRole("button", { name: "Read more" }).click();
    await waitUntil("all of it is there", async () => [(await content.innerText()).length > 19_000, ""]);
  }));

test("a_large_group_lists_its_members_in_pages_of_100", () =>
  withEnvironment(async (env) => {
    const { alice, bob } = await openChat(env);
    const strangers = Array.from({ length: 248 }, (_, number) => `member-${number}`);
    await env.server.mint(strangers);
    const members = ["alice", ...strangers];
    await bob.call("POST", "/v1/conversations", { kind: "group", title: "Everybody", members });
    await alice.open("Everybody");
    await alice.page.getByRole("button", { name: "Info", exact: true }).click();
    const items = alice.page.getByRole("list", { name: "Members" }).getByRole("listitem");
    const isCount = (count) => waitUntil(`${count} are listed`, async () => [(await items.count()) === count, await items.count()]);
    await isCount(100);
    await alice.page.getByRole("button", { name: /^Show more/ }).click();
    await isCount(200);
    await alice.page.getByRole("button", { name: /^Show more/ }).click();
    await isCount(250);
    assert.equal(await alice.page.getByRole("button", { name: /^Show more/ }).count(), 0);
  }));

test("a_long_sender_name_is_truncated_to_one_line", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice", PHONE);
    const bob = await env.server.account("bob", "Bartholomew ".repeat(10).trim());
    const { conversation_id } = await bob.call("POST", "/v1/conversations", { kind: "group", title: "Tea", members: ["alice"] });
    await bob.send(conversation_id, "hello");
    await alice.open("Tea");
    const sender = alice.message("hello").locator(".sender");
    await sender.waitFor();
    await waitUntil("it is cut", async () => {
      const { scroll, client, height } = await sender.evaluate((each) => ({ scroll: each.scrollWidth, client: each.clientWidth, height: each.clientHeight }));
      return [scroll > client && height < 30, { scroll, client, height }];
    });
  }));
