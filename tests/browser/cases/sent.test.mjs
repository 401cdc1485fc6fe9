// The position of a message after it was sent. The tests measure it, because a drawn row may be
// behind the composer.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SIZES } from "../harness/list.mjs";
import { waitUntil, RECONNECT_MS } from "../harness/wait.mjs";
import { withEnvironment } from "../harness/environment.mjs";

const { desktop: DESKTOP, "a phone": PHONE } = SIZES;
const NARROW = { viewport: { width: 390, height: 844 } };

const MANY_LINES = Array.from({ length: 14 }, (_, number) => `line ${number + 1}`).join("\n");

/** The positions of the row of a message, the list and the composer, after 3 frames. */
function measure(user, text) {
  return user.message(text).evaluate(async (row) => {
    for (let frame = 0; frame < 3; frame++) await new Promise((resume) => requestAnimationFrame(resume));
    const { top, bottom } = row.getBoundingClientRect();
    const list = document.querySelector(".scroller").getBoundingClientRect();
    return { top, bottom, listTop: list.top, listBottom: list.bottom, composerTop: document.querySelector(".composer").getBoundingClientRect().top };
  });
}

async function isOnScreen(user, text, when) {
  const box = await measure(user, text);
  const isWhole = box.top >= box.listTop && box.bottom <= box.composerTop && box.bottom <= box.listBottom;
  assert.ok(isWhole, `${when}: ${JSON.stringify(box)}`);
}

const WAYS = {
  Enter: (user) => user.composer.press("Enter"),
  "the send button": (user) => user.page.getByRole("button", { name: "Send", exact: true }).click(),
};

/** Alice has a conversation of several screens open. Its messages have many heights. */
async function openLongChat(env, options) {
  await env.server.account("alice");
  const bob = await env.server.account("bob");
  const id = await bob.direct("alice");
  for (let number = 1; number <= 60; number++) await bob.send(id, `message ${number}.${" and more of it".repeat((number * 7) % 23)}`);
  await bob.call("POST", `/v1/conversations/${id}/delivered`, { seq: 60 });
  const alice = await env.user("alice", options);
  await alice.logIn();
  const { token } = await env.server.call("POST", "/v1/login", null, { user_id: "alice", password: alice.password });
  await env.server.call("POST", `/v1/conversations/${id}/read`, token, { seq: 60 });
  await alice.page.reload();
  await alice.isOnline();
  await alice.open("bob");
  await alice.sees("message 60.");
  return { alice, bob, id };
}

async function sendAndMeasure(alice, text, name, send, state) {
  await alice.composer.fill(text);
  await send(alice);
  await alice.message(name).waitFor();
  await isOnScreen(alice, name, "drawn");
  await alice.seesTick(name, state);
  await isOnScreen(alice, name, state);
}

const CASES = [
  ["desktop", DESKTOP, ["Enter", "the send button"]],
  ["a phone", PHONE, ["the send button"]],
  ["a narrow window", NARROW, ["Enter"]],
];

for (const [size, options, ways] of CASES) {
  for (const way of ways) {
    test(`a message sent by ${way} on ${size} is on the screen above the composer`, () =>
      withEnvironment(async (env) => {
        const { alice, bob, id } = await openLongChat(env, options);
        const send = WAYS[way];
        await sendAndMeasure(alice, "one line", "one line", send, "sent");
        await sendAndMeasure(alice, `many\n${MANY_LINES}`, "many", send, "sent");
        await sendAndMeasure(alice, "and one more", "and one more", send, "sent");
        // Sending from above the end scrolls to the end.
        await alice.page.getByRole("region", { name: "Messages" }).hover();
        await alice.page.mouse.wheel(0, -3_000);
        await alice.page.getByRole("button", { name: /^Jump to latest/ }).waitFor();
        await sendAndMeasure(alice, `from above\n${MANY_LINES}`, "from above", send, "sent");
        await bob.send(id, `an answer\n${MANY_LINES}`);
        await alice.sees("an answer");
        await isOnScreen(alice, "an answer", "an answer");

        env.proxy.mode = "closed";
        await alice.context.setOffline(true);
        await alice.page.locator('[data-connection="offline"]').waitFor();
        await sendAndMeasure(alice, "offline, one line", "offline, one line", send, "queued");
        await sendAndMeasure(alice, `offline, many\n${MANY_LINES}`, "offline, many", send, "queued");
        env.proxy.mode = "open";
        await alice.context.setOffline(false);
        await alice.seesTick("offline, many", "sent", RECONNECT_MS);
        await isOnScreen(alice, "offline, many", "back online");
      }));
  }
}

async function goOffline(env, user) {
  env.proxy.mode = "closed";
  await user.context.setOffline(true);
  await user.page.locator('[data-connection="offline"]').waitFor();
}

for (const [size, options] of Object.entries(SIZES)) {
  test(`a message sent offline on ${size} from far above the end is on the screen after the newest messages`, () =>
    withEnvironment(async (env) => {
      const account = await env.server.account("alice");
      const bob = await env.server.account("bob");
      const id = await bob.direct("alice");
      for (let number = 1; number <= 330; number++) await bob.send(id, `message ${number}.${" and more of it".repeat((number * 7) % 23)}`);
      await account.call("POST", `/v1/conversations/${id}/read`, { seq: 30 });
      const alice = await env.user("alice", options);
      await alice.logIn();
      // The list opens at the divider; the newest of the 300 unread messages are not loaded there.
      await alice.open("bob");
      await alice.page.locator(".unread-divider").waitFor();
      await alice.page.getByRole("button", { name: /^Jump to latest, \d+ new/ }).waitFor();
      await alice.sees("message 31.");
      await goOffline(env, alice);
      const send = WAYS["the send button"];
      await sendAndMeasure(alice, "from far above", "from far above", send, "queued");
      await alice.sees("message 330.");
      assert.equal(await alice.page.locator(".area-error").count(), 0);
      await sendAndMeasure(alice, `again\n${MANY_LINES}`, "again", send, "queued");
      env.proxy.mode = "open";
      await alice.context.setOffline(false);
      await alice.seesTick("again", "sent", RECONNECT_MS);
      await isOnScreen(alice, "again", "back online");
    }));
}

/** Waits until the scroll position stays the same for 10 frames. */
async function rests(user) {
  const top = () =>
    user.page.locator(".scroller").evaluate(async (list) => {
      for (let frame = 0; frame < 10; frame++) await new Promise((resume) => requestAnimationFrame(resume));
      return list.scrollTop;
    });
  let before = await top();
  await waitUntil("the list rests", async () => {
    const last = before;
    before = await top();
    return [last === before, before];
  });
}

const MOVES = {
  "Page Up": async ({ page }) => {
    await page.getByRole("region", { name: "Messages" }).focus();
    for (let time = 0; time < 2; time++) await page.keyboard.press("PageUp");
  },
  "the wheel": async ({ page }) => {
    await page.getByRole("region", { name: "Messages" }).hover();
    await page.mouse.wheel(0, -900);
  },
};

for (const [what, move] of Object.entries(MOVES)) {
  test(`a message sent while ${what} still moves the list is on the screen when the list rests`, () =>
    withEnvironment(async (env) => {
      const { alice } = await openLongChat(env, DESKTOP);
      for (let time = 1; time <= 8; time++) {
        const text = `at once ${time}.`;
        await alice.composer.fill(text);
        await move(alice);
        await alice.composer.press("Enter");
        await alice.message(text).waitFor();
        await rests(alice);
        await isOnScreen(alice, text, `time ${time}`);
      }
      // The user can scroll away from the end again.
      await move(alice);
      await alice.page.getByRole("button", { name: "Jump to latest" }).waitFor();
    }));
}
