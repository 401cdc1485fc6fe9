// Opening a conversation with unread messages: the list goes to the divider for every mix of
// message heights, and only messages on the screen are marked as read.

import assert from "node:assert/strict";
import { test } from "node:test";
import { look, SIZES } from "../harness/list.mjs";
import { waitUntil } from "../harness/wait.mjs";
import { withEnvironment } from "../harness/environment.mjs";

const lines = (count) => "\nanother line".repeat(count);
/** How many lines each unread message has besides its first. */
const HEIGHTS = {
  "13 unread, one of them tall": (number) => (number === 8 ? 40 : 0),
  "13 unread, the first taller than the screen": (number) => (number === 1 ? 80 : 0),
  "13 unread, the last taller than the screen": (number) => (number === 13 ? 80 : 0),
  "13 unread, of different heights": (number) => (number * 5) % 17,
  "70 unread, of different heights": (number) => (number * 5) % 17,
  "3 unread that fit on the screen": () => 0,
};

/** The number of messages that the user has read before. */
const BEFORE = 30;

/** Alice has read the first 30 messages; the rest arrived while she was away. */
async function openUnreadChat(env, count, height, options) {
  const alice = await env.server.account("alice");
  const bob = await env.server.account("bob");
  const id = await bob.direct("alice");
  for (let number = 1; number <= BEFORE; number++) await bob.send(id, `read ${number}.${lines(number % 4)}`);
  await alice.call("POST", `/v1/conversations/${id}/read`, { seq: BEFORE });
  for (let number = 1; number <= count; number++) await bob.send(id, `new ${number}.${lines(height(number))}`);
  const user = await env.user("alice", options);
  await user.logIn();
  const readUpTo = async () => {
    const { members } = await bob.call("GET", `/v1/conversations/${id}/status`);
    return members.find(({ user_id }) => user_id === "alice").last_read_seq;
  };
  return { alice: user, bob, id, readUpTo };
}

for (const [size, options] of Object.entries(SIZES)) {
  for (const [what, height] of Object.entries(HEIGHTS)) {
    test(`opening a conversation with ${what} on ${size} goes to the divider and reads only the shown messages`, () =>
      withEnvironment(async (env) => {
        const count = Number(what.match(/^\d+/)[0]);
        const { alice, bob, id, readUpTo } = await openUnreadChat(env, count, height, options);
        await alice.open("bob");
        // The page sends the read receipt once scrolling has stopped.
        await waitUntil("something is read", async () => {
          const read = await readUpTo();
          return [read > BEFORE, read];
        });
        const { top, bottom, divider, isDividerShown, lastSeen, isEnd } = await look(alice);
        assert.ok(isDividerShown, `the divider is at ${JSON.stringify(divider)} in ${top} to ${bottom}`);
        const read = await readUpTo();
        assert.ok(read <= lastSeen, `${read} is read, and ${lastSeen} is the last one shown`);
        // The next message is below. The list follows it only when the end was on the screen.
        await bob.send(id, "one more");
        if (!isEnd) await alice.page.getByRole("button", { name: /^Jump to latest, \d+ new/ }).click();
        await alice.sees("one more");
        await waitUntil("all is read", async () => {
          const read = await readUpTo();
          return [read === BEFORE + count + 1, read];
        });
      }));
  }
}

test("unread_messages_are_read_while_the_user_scrolls_down", () =>
  withEnvironment(async (env) => {
    const { alice, readUpTo } = await openUnreadChat(env, 13, (number) => (number === 8 ? 40 : 2), SIZES.desktop);
    await alice.open("bob");
    await waitUntil("something is read", async () => [(await readUpTo()) > BEFORE, ""]);
    const list = alice.page.getByRole("region", { name: "Messages" });
    for (let before = await readUpTo(); before < BEFORE + 13; before = await readUpTo()) {
      await list.hover();
      await alice.page.mouse.wheel(0, 300);
      const { lastSeen } = await look(alice);
      const read = await readUpTo();
      assert.ok(read <= lastSeen, `${read} is read, and ${lastSeen} is the last one shown`);
    }
  }));

test("messages_that_arrive_while_a_conversation_opens_with_one_unread_message_are_followed_and_read", () =>
  withEnvironment(async (env) => {
    const { alice, bob, id, readUpTo } = await openUnreadChat(env, 1, () => 0, SIZES.desktop);
    await alice.row("bob").getByRole("link").click();
    for (let number = 1; number <= 40; number++) await bob.send(id, `live ${number}.`);
    await waitUntil("all is read", async () => {
      const read = await readUpTo();
      return [read === BEFORE + 41, read];
    });
    await alice.sees("live 40.");
  }));
