import assert from "node:assert/strict";
import { test } from "node:test";
import { RETURN_MS, expectSoon } from "../harness/soon.mjs";
import { inWorld } from "../harness/world.mjs";

async function twoWhoTalk(world) {
  const alice = await world.signedUp("alice");
  const bob = await world.server.account("bob");
  await alice.startChatWith("bob");
  await alice.say("before");
  await alice.seesTick("before", "sent");
  return { alice, bob, id: alice.conversationId };
}

const storedTexts = async (bob, id) => {
  const { messages } = await bob.call("GET", `/v1/conversations/${id}/messages?limit=100`);
  return messages.map(({ content }) => content).reverse();
};

test("what is written without a network is sent on return, in order and once", () =>
  inWorld(async (world) => {
    const { alice, bob, id } = await twoWhoTalk(world);
    world.proxy.mode = "closed";
    await alice.context.setOffline(true);
    await alice.page.getByText("Waiting for network").waitFor();
    await alice.say("one", "two", "three");
    await alice.seesTick("three", "queued");
    await bob.send(id, "meanwhile");
    world.proxy.mode = "open";
    await alice.context.setOffline(false);
    await alice.seesTick("three", "sent");
    await alice.seesTexts(["before", "meanwhile", "one", "two", "three"]);
    assert.deepEqual(await storedTexts(bob, id), ["before", "meanwhile", "one", "two", "three"]);
  }));

test("a connection that breaks for a moment says nothing; one that stays away says so after five seconds", () =>
  inWorld(async (world) => {
    const { alice } = await twoWhoTalk(world);
    const reconnecting = alice.page.getByText("Reconnecting");
    world.proxy.mode = "closed";
    const cutAt = Date.now();
    await alice.page.locator('[data-connection="online"]').waitFor({ state: "detached" });
    await reconnecting.waitFor();
    assert.ok(Date.now() - cutAt > 4_500, `shown after ${Date.now() - cutAt} ms`);
    await alice.say("written meanwhile");
    world.proxy.mode = "open";
    await reconnecting.waitFor({ state: "detached", timeout: RETURN_MS });
    await alice.seesTick("written meanwhile", "sent");
  }));

test("a page that is loaded again in the middle of a send loses nothing and sends once", () =>
  inWorld(async (world) => {
    const { alice, bob, id } = await twoWhoTalk(world);
    // The server gets the message; its answer never arrives.
    world.proxy.mode = "deaf";
    await alice.say("did it get there?");
    await expectSoon("the server has it", async () => {
      const texts = await storedTexts(bob, id);
      return [texts.includes("did it get there?"), texts];
    });
    world.proxy.mode = "closed";
    await alice.say("and this was never sent");
    await alice.seesTick("and this was never sent", "queued");
    world.proxy.mode = "open";
    await alice.page.reload();
    await alice.seesTick("and this was never sent", "sent");
    await alice.seesTick("did it get there?", "sent");
    const expected = ["before", "did it get there?", "and this was never sent"];
    await alice.seesTexts(expected);
    assert.deepEqual(await storedTexts(bob, id), expected);
  }));

test("without any network the page still loads, shows what it had, and takes a message for later", () =>
  inWorld(async (world) => {
    const { alice, bob, id } = await twoWhoTalk(world);
    await bob.send(id, "remember this");
    await alice.sees("remember this");
    await alice.page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
    await expectSoon("the browser keeps it", async () => [(await alice.remembered()).includes("remember this"), ""]);
    world.proxy.mode = "closed";
    await alice.page.reload();
    await alice.sees("remember this");
    assert.match(await alice.row("bob").innerText(), /remember this/);
    await alice.say("from the tunnel");
    await alice.page.reload();
    await alice.seesTick("from the tunnel", "queued");
    world.proxy.mode = "open";
    await alice.seesTick("from the tunnel", "sent", RETURN_MS);
    assert.deepEqual(await storedTexts(bob, id), ["before", "remember this", "from the tunnel"]);
  }));

test("after a first log-in, a reload without a network shows every conversation", () =>
  inWorld(async (world) => {
    await world.server.account("alice");
    const names = Array.from({ length: 8 }, (_, index) => `friend-${index + 1}`);
    for (const name of names) {
      const friend = await world.server.account(name);
      await friend.send(await friend.direct("alice"), `hello from ${name}`);
    }
    const alice = await world.person("alice");
    await alice.logIn();
    const all = async () => {
      for (const name of names) await alice.row(`hello from ${name}`).waitFor();
    };
    await all();
    await alice.page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
    world.proxy.mode = "closed";
    await alice.page.reload();
    await all();
  }));

test("two tabs of one person show the same, whichever of them does something", () =>
  inWorld(async (world) => {
    const { alice, bob, id } = await twoWhoTalk(world);
    const first = alice.page;
    const second = await alice.openTab();
    await alice.open("bob");
    const inBoth = async (what, look) => {
      for (const page of [first, second]) {
        alice.page = page;
        await expectSoon(what, async () => look(page), RETURN_MS);
      }
    };
    await alice.say("from the second tab");
    await inBoth("the message is in both", async () => {
      const texts = await alice.texts();
      return [texts.join() === "before,from the second tab", texts];
    });

    // Queued in one tab, it waits in both; sent by one, it is sent in both.
    world.proxy.mode = "closed";
    alice.page = first;
    await alice.say("waiting");
    await inBoth("it waits in both", async () => [(await alice.message("waiting").count()) === 1, await alice.texts()]);
    world.proxy.mode = "open";
    await inBoth("it is sent in both", async () => {
      const state = await alice.message("waiting").getAttribute("data-state");
      return [state === "sent", state];
    });

    // Read in one, it is not unread in the other.
    await bob.send(id, "for both");
    await inBoth("it is in both", async () => [(await alice.message("for both").count()) === 1, await alice.texts()]);
    await inBoth("it is read in both", async (page) => [(await page.title()) === "Bluetick", await page.title()]);
    await bob.call("POST", `/v1/conversations/${id}/read`, { seq: 4 });
    await inBoth("the tick is blue in both", async () => {
      const state = await alice.message("waiting").getAttribute("data-state");
      return [state === "read", state];
    });
    assert.deepEqual(await storedTexts(bob, id), ["before", "from the second tab", "waiting", "for both"]);
  }));

test("a tab that is closed before it could send leaves its message to the other tab", () =>
  inWorld(async (world) => {
    const { alice, bob, id } = await twoWhoTalk(world);
    const first = alice.page;
    await alice.openTab();
    await alice.open("bob");
    world.proxy.mode = "closed";
    await alice.say("my last words");
    await alice.seesTick("my last words", "queued");
    await alice.page.close();
    alice.page = first;
    world.proxy.mode = "open";
    await alice.seesTick("my last words", "sent", RETURN_MS);
    assert.deepEqual(await storedTexts(bob, id), ["before", "my last words"]);
  }));

test("a server that is killed and comes back has everybody back, with everything", () =>
  inWorld(async (world) => {
    const { alice, bob, id } = await twoWhoTalk(world);
    await world.server.kill();
    await alice.say("while it was dead");
    await world.server.resume();
    await alice.seesTick("while it was dead", "sent", RETURN_MS);
    assert.deepEqual(await storedTexts(bob, id), ["before", "while it was dead"]);
  }));
