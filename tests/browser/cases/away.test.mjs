// Messages that arrive while the tab is hidden or the network is gone, in an open conversation: the
// list goes to the first of them when the user is back, and only what was shown is marked as read.

import assert from "node:assert/strict";
import { test } from "node:test";
import { look, SIZES } from "../harness/list.mjs";
import { waitUntil, RECONNECT_MS } from "../harness/wait.mjs";
import { withEnvironment } from "../harness/environment.mjs";

/** The number of messages that the user has read before. */
const BEFORE = 40;
const lines = (count) => "\nanother line".repeat(count);

/** Alice has the conversation with bob open at its end, and has read all of it. */
async function openChat(env, options) {
  const account = await env.server.account("alice");
  const bob = await env.server.account("bob");
  const id = await bob.direct("alice");
  for (let number = 1; number <= BEFORE; number++) await bob.send(id, `read ${number}.${lines(number % 4)}`);
  await account.call("POST", `/v1/conversations/${id}/read`, { seq: BEFORE });
  const alice = await env.user("alice", options);
  await alice.logIn();
  await alice.open("bob");
  await alice.sees(`read ${BEFORE}.`);
  const readUpTo = async () => {
    const { members } = await bob.call("GET", `/v1/conversations/${id}/status`);
    return members.find(({ user_id }) => user_id === "alice").last_read_seq;
  };
  const sendMany = async (count) => {
    for (let number = 1; number <= count; number++) await bob.send(id, `new ${number}.${lines(number % 5)}`);
  };
  return { alice, bob, id, readUpTo, sendMany };
}

const setVisibility = (user, state) =>
  user.page.evaluate((state) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => state });
    document.dispatchEvent(new Event("visibilitychange"));
  }, state);

/** The ways to be away: how the user leaves and comes back. */
const WAYS = {
  "the tab was hidden": {
    leave: (alice) => setVisibility(alice, "hidden"),
    async comeBack(alice, _world, count) {
      // A hidden tab counts what arrives.
      await waitUntil("all has arrived", async () => {
        const title = await alice.page.title();
        return [title.startsWith(`(${count})`), title];
      });
      await setVisibility(alice, "visible");
    },
  },
  "the network was gone": {
    async leave(alice, env) {
      env.proxy.mode = "closed";
      await alice.context.setOffline(true);
      await alice.page.locator('[data-connection="offline"]').waitFor();
    },
    async comeBack(alice, env) {
      env.proxy.mode = "open";
      await alice.context.setOffline(false);
    },
  },
  "the connection broke for a moment": {
    leave: async (_alice, env) => void (env.proxy.mode = "closed"),
    comeBack: async (_alice, env) => void (env.proxy.mode = "open"),
  },
};

async function someIsRead(readUpTo) {
  await waitUntil("something is read", async () => {
    const read = await readUpTo();
    return [read > BEFORE, read];
  }, RECONNECT_MS);
}

async function allIsRead(readUpTo, last) {
  await waitUntil("all is read", async () => {
    const read = await readUpTo();
    return [read === last, read];
  }, RECONNECT_MS);
}

for (const [size, options] of Object.entries(SIZES)) {
  for (const [way, { leave, comeBack }] of Object.entries(WAYS)) {
    test(`when ${way} on ${size}, 60 missed messages start at the divider and only the shown ones are read`, () =>
      withEnvironment(async (env) => {
        const { alice, readUpTo, sendMany } = await openChat(env, options);
        await leave(alice, env);
        await sendMany(60);
        assert.equal(await readUpTo(), BEFORE);
        await comeBack(alice, env, 60);
        await someIsRead(readUpTo);
        const { isDividerShown, divider, lastSeen } = await look(alice);
        assert.ok(isDividerShown, `the divider is at ${JSON.stringify(divider)}`);
        const read = await readUpTo();
        assert.ok(read <= lastSeen && read < BEFORE + 60, `${read} is read, and ${lastSeen} is the last one shown`);
        await alice.page.getByRole("button", { name: /^Jump to latest, \d+ new/ }).click();
        await alice.sees("new 60.");
        await allIsRead(readUpTo, BEFORE + 60);
      }));
  }
}

for (const [way, { leave, comeBack }] of Object.entries(WAYS)) {
  test(`when ${way}, two missed messages are read on return and the list follows its end`, () =>
    withEnvironment(async (env) => {
      const { alice, bob, id, readUpTo, sendMany } = await openChat(env, SIZES.desktop);
      await leave(alice, env);
      await sendMany(2);
      await comeBack(alice, env, 2);
      await allIsRead(readUpTo, BEFORE + 2);
      assert.ok((await look(alice)).isDividerShown);
      for (let number = 1; number <= 20; number++) await bob.send(id, `live ${number}.${lines(number % 5)}`);
      await allIsRead(readUpTo, BEFORE + 22);
      assert.ok((await look(alice)).isEnd);
    }));

  test(`when ${way}, a reader above the end keeps the scroll position`, () =>
    withEnvironment(async (env) => {
      const { alice, readUpTo, sendMany } = await openChat(env, SIZES.desktop);
      const list = alice.page.getByRole("region", { name: "Messages" });
      await list.hover();
      await alice.page.mouse.wheel(0, -900);
      await alice.page.getByRole("button", { name: "Jump to latest" }).waitFor();
      const position = () => alice.page.locator(".scroller").evaluate(async (list) => {
        for (let frame = 0; frame < 3; frame++) await new Promise((resume) => requestAnimationFrame(resume));
        const { top } = list.getBoundingClientRect();
        const row = [...list.querySelectorAll("[data-seq]")].find((each) => each.getBoundingClientRect().bottom > top);
        return { seq: row.dataset.seq, top: Math.round(row.getBoundingClientRect().top) };
      });
      // The wheel moves the list over several frames.
      let before = await position();
      await waitUntil("the list rests", async () => {
        const last = before;
        before = await position();
        return [JSON.stringify(last) === JSON.stringify(before), before];
      });
      await leave(alice, env);
      await sendMany(60);
      await comeBack(alice, env, 60);
      await alice.page.getByRole("button", { name: "Jump to latest, 60 new" }).waitFor({ timeout: RECONNECT_MS });
      assert.deepEqual(await position(), before);
      assert.equal(await readUpTo(), BEFORE);
    }));
}

test("when the network was gone, 700 missed messages start at the divider and only the shown ones are read", () =>
  withEnvironment(async (env) => {
    const { leave, comeBack } = WAYS["the network was gone"];
    const { alice, readUpTo, sendMany } = await openChat(env, SIZES.desktop);
    await leave(alice, env);
    await sendMany(700);
    await comeBack(alice, env, 700);
    await someIsRead(readUpTo);
    await alice.page.getByRole("button", { name: /^Jump to latest, \d+ new/ }).waitFor();
    const { isDividerShown, divider, lastSeen } = await look(alice);
    assert.ok(isDividerShown, `the divider is at ${JSON.stringify(divider)}`);
    const read = await readUpTo();
    assert.ok(read <= lastSeen, `${read} is read, and ${lastSeen} is the last one shown`);
    await alice.page.getByRole("button", { name: /^Jump to latest, \d+ new/ }).click();
    await alice.sees("new 700.");
    await allIsRead(readUpTo, BEFORE + 700);
  }));
