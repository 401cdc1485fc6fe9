import assert from "node:assert/strict";
import { test } from "node:test";
import { RETURN_MS, expectSoon } from "../harness/soon.mjs";
import { inWorld } from "../harness/world.mjs";

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

async function talk(world, options) {
  const alice = await world.signedUp("alice", options);
  const bob = await world.server.account("bob");
  const id = await bob.direct("alice");
  await bob.send(id, "hello");
  await alice.open("bob");
  await alice.sees("hello");
  return { alice, bob, id };
}

test("Escape in the menu of a line closes the menu alone", () =>
  inWorld(async (world) => {
    const { alice } = await talk(world);
    await alice.row("bob").getByRole("link").focus();
    await alice.page.keyboard.press("Shift+F10");
    await alice.page.getByRole("menu").waitFor();
    await alice.page.keyboard.press("Escape");
    await alice.page.getByRole("menu").waitFor({ state: "detached" });
    await alice.composer.waitFor();
    await alice.page.keyboard.press("Escape");
    await alice.composer.waitFor({ state: "detached" });
  }));

test("on a touch screen a line has a menu beside it, and Enter begins a new line", () =>
  inWorld(async (world) => {
    const { alice } = await talk(world, PHONE);
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

test("the same words twice are announced twice", () =>
  inWorld(async (world) => {
    const { alice, bob, id } = await talk(world);
    const changes = await alice.page.evaluateHandle(() => {
      const seen = [];
      const announcer = document.querySelector("#announcer");
      new MutationObserver(() => seen.push(announcer.textContent)).observe(announcer, { childList: true, characterData: true, subtree: true });
      return seen;
    });
    const count = async () => (await changes.jsonValue()).filter((text) => text.replace("\u200b", "") === "bob: knock").length;
    for (const wanted of [1, 2, 3]) {
      await bob.send(id, "knock");
      await expectSoon(`announced ${wanted} times`, async () => [(await count()) === wanted, await changes.jsonValue()]);
    }
  }));

test("what waits or has failed is to be seen in the list", () =>
  inWorld(async (world) => {
    const { alice } = await talk(world);
    const row = alice.row("bob");
    world.proxy.mode = "closed";
    await alice.say("still here");
    await row.getByText("still here").waitFor();
    await row.getByRole("img", { name: "Waiting to be sent" }).waitFor();
    world.proxy.mode = "open";
    await row.getByRole("img", { name: "Sent", exact: true }).waitFor({ timeout: RETURN_MS });
    await alice.say("x".repeat(600));
    await alice.seesTick("x".repeat(600), "failed");
    await row.getByRole("img", { name: "Not sent" }).waitFor();
    await alice.page.getByRole("button", { name: "Discard" }).click();
    await row.getByText("still here").waitFor();
  }, { env: { BLUETICK_LIMITS__CONTENT_BYTES: "500" } }));

test("a message that the server does not take now says why, and can be taken back", () =>
  inWorld(async (world) => {
    const { alice } = await talk(world);
    const last = alice.message("quick 19.");
    // By hand they might come slowly enough to be taken.
    await alice.composer.evaluate((field) => {
      for (let number = 0; number < 20; number++) {
        field.value = `quick ${number}.`;
        field.dispatchEvent(new Event("input", { bubbles: true }));
        field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
      }
    });
    await alice.page.getByText("Waiting: Too many requests.").first().waitFor();
    // What waits goes on waiting.
    world.proxy.mode = "closed";
    await last.getByRole("button", { name: "Cancel sending" }).click();
    await last.waitFor({ state: "detached" });
  }, { env: { BLUETICK_LIMITS__SENDS_PER_SECOND: "1", BLUETICK_LIMITS__SENDS_BURST: "2" } }));

test("a page that could not be had is tried again, by hand or when the connection is back", () =>
  inWorld(async (world) => {
    await world.server.account("alice");
    const bob = await world.server.account("bob");
    const id = await bob.direct("alice");
    // Some pages are fetched ahead; enough have to be left to be asked for twice.
    for (let number = 1; number <= 450; number++) await bob.send(id, `message ${number}.`);
    const alice = await world.person("alice", { serviceWorkers: "block" });
    await alice.logIn();
    const { page } = alice;
    const area = page.getByRole("region", { name: "Messages" });
    const up = () => area.press("Home");
    await alice.open("bob");
    await page.getByRole("separator", { name: "New messages" }).waitFor();
    await page.getByRole("button", { name: /^Jump to latest/ }).click();
    await alice.sees("message 450.");
    const again = page.getByRole("button", { name: "Try again" });
    const ways = [() => again.click(), () => world.proxy.cut()];
    for (const tryAgain of ways) {
      await page.route(/before_seq/, (route) => route.abort());
      await expectSoon("it is told", async () => [await up().then(() => again.isVisible()), ""]);
      await page.unrouteAll();
      const isAsked = page.waitForRequest(/before_seq/);
      await tryAgain();
      await isAsked;
      await again.waitFor({ state: "detached" });
    }
  }));

test("times are the server's, and the sender's clock is told where it differs", () =>
  inWorld(async (world) => {
    const { alice, bob, id } = await talk(world);
    const body = { message_id: crypto.randomUUID(), content: "from the past", timestamp: Date.UTC(2001, 1, 3, 4, 5) };
    await bob.call("POST", `/v1/conversations/${id}/messages`, body);
    await alice.sees("from the past");
    const time = alice.message("from the past").locator("time");
    assert.equal(new Date(await time.getAttribute("datetime")).getFullYear(), new Date().getFullYear());
    assert.match(await time.getAttribute("title"), /clock.*2001/);
    assert.doesNotMatch(await alice.message("hello").locator("time").getAttribute("title"), /clock/);
  }));

test("a very long text is shown in part until somebody wants all of it", () =>
  inWorld(async (world) => {
    const { alice, bob, id } = await talk(world);
    await bob.send(id, "word ".repeat(4_000));
    const content = alice.message("word word").locator(".content");
    await content.waitFor();
    assert.ok((await content.innerText()).length < 5_000);
    await content.getByRole("button", { name: "Show all" }).click();
    await expectSoon("all of it is there", async () => [(await content.innerText()).length > 19_000, ""]);
  }));

test("of a large group, a page of the members is listed at a time", () =>
  inWorld(async (world) => {
    const { alice, bob } = await talk(world);
    const strangers = Array.from({ length: 248 }, (_, number) => `member-${number}`);
    await world.server.mint(strangers);
    const members = ["alice", ...strangers];
    await bob.call("POST", "/v1/conversations", { kind: "group", title: "Everybody", members });
    await alice.open("Everybody");
    await alice.page.getByRole("button", { name: "Info", exact: true }).click();
    const items = alice.page.getByRole("list", { name: "Members" }).getByRole("listitem");
    const isCount = (count) => expectSoon(`${count} are listed`, async () => [(await items.count()) === count, await items.count()]);
    await isCount(100);
    await alice.page.getByRole("button", { name: /^Show more/ }).click();
    await isCount(200);
    await alice.page.getByRole("button", { name: /^Show more/ }).click();
    await isCount(250);
    assert.equal(await alice.page.getByRole("button", { name: /^Show more/ }).count(), 0);
  }));

test("a long name takes one line", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice", PHONE);
    const bob = await world.server.account("bob", "Bartholomew ".repeat(10).trim());
    const { conversation_id } = await bob.call("POST", "/v1/conversations", { kind: "group", title: "Tea", members: ["alice"] });
    await bob.send(conversation_id, "hello");
    await alice.open("Tea");
    const sender = alice.message("hello").locator(".sender");
    await sender.waitFor();
    await expectSoon("it is cut", async () => {
      const { scroll, client, height } = await sender.evaluate((each) => ({ scroll: each.scrollWidth, client: each.clientWidth, height: each.clientHeight }));
      return [scroll > client && height < 30, { scroll, client, height }];
    });
  }));
