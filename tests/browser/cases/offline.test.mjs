import assert from "node:assert/strict";
import { test } from "node:test";
import { RECONNECT_MS, waitUntil } from "../harness/wait.mjs";
import { withEnvironment } from "../harness/environment.mjs";

async function startChat(env) {
  const alice = await env.signedUp("alice");
  const bob = await env.server.account("bob");
  await alice.startChatWith("bob");
  await alice.send("before");
  await alice.seesTick("before", "sent");
  return { alice, bob, id: alice.conversationId };
}

const storedTexts = async (bob, id) => {
  const { messages } = await bob.call("GET", `/v1/conversations/${id}/messages?limit=100`);
  return messages.map(({ content }) => content).reverse();
};

test("messages_written_offline_are_sent_once_and_in_order_on_return", () =>
  withEnvironment(async (env) => {
    const { alice, bob, id } = await startChat(env);
    env.proxy.mode = "closed";
    await alice.context.setOffline(true);
    await alice.page.getByText("Waiting for network").waitFor();
    await alice.send("one", "two", "three");
    await alice.seesTick("three", "queued");
    await bob.send(id, "meanwhile");
    env.proxy.mode = "open";
    await alice.context.setOffline(false);
    await alice.seesTick("three", "sent");
    await alice.seesTexts(["before", "meanwhile", "one", "two", "three"]);
    assert.deepEqual(await storedTexts(bob, id), ["before", "meanwhile", "one", "two", "three"]);
  }));

test("a_lost_connection_is_reported_after_five_seconds", () =>
  withEnvironment(async (env) => {
    const { alice } = await startChat(env);
    const reconnecting = alice.page.getByText("Reconnecting");
    env.proxy.mode = "closed";
    const cutAt = Date.now();
    await alice.page.locator('[data-connection="online"]').waitFor({ state: "detached" });
    await reconnecting.waitFor();
    assert.ok(Date.now() - cutAt > 4_500, `shown after ${Date.now() - cutAt} ms`);
    await alice.send("written meanwhile");
    env.proxy.mode = "open";
    await reconnecting.waitFor({ state: "detached", timeout: RECONNECT_MS });
    await alice.seesTick("written meanwhile", "sent");
  }));

test("a_reload_during_a_send_loses_no_message_and_sends_once", () =>
  withEnvironment(async (env) => {
    const { alice, bob, id } = await startChat(env);
    // The server receives the message, and its answer is lost.
    env.proxy.mode = "drop_answers";
    await alice.send("did it get there?");
    await waitUntil("the server has it", async () => {
      const texts = await storedTexts(bob, id);
      return [texts.includes("did it get there?"), texts];
    });
    env.proxy.mode = "closed";
    await alice.send("and this was never sent");
    await alice.seesTick("and this was never sent", "queued");
    env.proxy.mode = "open";
    await alice.page.reload();
    await alice.seesTick("and this was never sent", "sent");
    await alice.seesTick("did it get there?", "sent");
    const expected = ["before", "did it get there?", "and this was never sent"];
    await alice.seesTexts(expected);
    assert.deepEqual(await storedTexts(bob, id), expected);
  }));

test("without_a_network_the_page_loads_shows_cached_messages_and_queues_a_message", () =>
  withEnvironment(async (env) => {
    const { alice, bob, id } = await startChat(env);
    await bob.send(id, "remember this");
    await alice.sees("remember this");
    await alice.page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
    await waitUntil("the browser keeps it", async () => [(await alice.storedData()).includes("remember this"), ""]);
    env.proxy.mode = "closed";
    await alice.page.reload();
    await alice.sees("remember this");
    assert.match(await alice.row("bob").innerText(), /remember this/);
    await alice.send("from the tunnel");
    await alice.page.reload();
    await alice.seesTick("from the tunnel", "queued");
    env.proxy.mode = "open";
    await alice.seesTick("from the tunnel", "sent", RECONNECT_MS);
    assert.deepEqual(await storedTexts(bob, id), ["before", "remember this", "from the tunnel"]);
  }));

test("a_reload_without_a_network_after_the_first_log_in_shows_every_conversation", () =>
  withEnvironment(async (env) => {
    await env.server.account("alice");
    const names = Array.from({ length: 8 }, (_, index) => `friend-${index + 1}`);
    for (const name of names) {
      const friend = await env.server.account(name);
      await friend.send(await friend.direct("alice"), `hello from ${name}`);
    }
    const alice = await env.user("alice");
    await alice.logIn();
    const all = async () => {
      for (const name of names) await alice.row(`hello from ${name}`).waitFor();
    };
    await all();
    await alice.page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
    env.proxy.mode = "closed";
    await alice.page.reload();
    await all();
  }));

test("two_tabs_of_one_user_show_the_same_state", () =>
  withEnvironment(async (env) => {
    const { alice, bob, id } = await startChat(env);
    const first = alice.page;
    const second = await alice.openTab();
    await alice.open("bob");
    const inBoth = async (what, look) => {
      for (const page of [first, second]) {
        alice.page = page;
        await waitUntil(what, async () => look(page), RECONNECT_MS);
      }
    };
    await alice.send("from the second tab");
    await inBoth("the message is in both", async () => {
      const texts = await alice.texts();
      return [texts.join() === "before,from the second tab", texts];
    });

    // Queued in one tab, it waits in both; sent by one, it is sent in both.
    env.proxy.mode = "closed";
    alice.page = first;
    await alice.send("waiting");
    await inBoth("it waits in both", async () => [(await alice.message("waiting").count()) === 1, await alice.texts()]);
    env.proxy.mode = "open";
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

test("the_other_tab_sends_the_queued_message_of_a_closed_tab", () =>
  withEnvironment(async (env) => {
    const { alice, bob, id } = await startChat(env);
    const first = alice.page;
    await alice.openTab();
    await alice.open("bob");
    env.proxy.mode = "closed";
    await alice.send("my last words");
    await alice.seesTick("my last words", "queued");
    const second = alice.page;
    alice.page = first;
    // The other tab learns of the message after it is stored.
    await alice.seesTick("my last words", "queued");
    await second.close();
    env.proxy.mode = "open";
    await alice.seesTick("my last words", "sent", RECONNECT_MS);
    assert.deepEqual(await storedTexts(bob, id), ["before", "my last words"]);
  }));

test("clients_reconnect_and_send_queued_messages_after_the_server_was_killed", () =>
  withEnvironment(async (env) => {
    const { alice, bob, id } = await startChat(env);
    await env.server.kill();
    await alice.send("while it was dead");
    await env.server.resume();
    await alice.seesTick("while it was dead", "sent", RECONNECT_MS);
    assert.deepEqual(await storedTexts(bob, id), ["before", "while it was dead"]);
  }));
