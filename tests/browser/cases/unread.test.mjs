// Opening a conversation with unread messages: the list lands on the divider, whatever the heights
// of the messages, and only what was on the screen is marked as read.

import assert from "node:assert/strict";
import { test } from "node:test";
import { look, SIZES } from "../harness/list.mjs";
import { expectSoon } from "../harness/soon.mjs";
import { inWorld } from "../harness/world.mjs";

const lines = (count) => "\nanother line".repeat(count);
/** How many lines each unread message has besides its first. */
const HEIGHTS = {
  "13 unread, one of them tall": (number) => (number === 8 ? 40 : 0),
  "13 unread, the first taller than the screen": (number) => (number === 1 ? 80 : 0),
  "13 unread, the last taller than the screen": (number) => (number === 13 ? 80 : 0),
  "13 unread, each of another height": (number) => (number * 5) % 17,
  "70 unread, each of another height": (number) => (number * 5) % 17,
  "3 unread that fit on the screen": () => 0,
};

const BEFORE = 30;

/** Alice has read the first 30 messages; the rest came while she was away. */
async function unreadTalk(world, count, height, options) {
  const alice = await world.server.account("alice");
  const bob = await world.server.account("bob");
  const id = await bob.direct("alice");
  for (let number = 1; number <= BEFORE; number++) await bob.send(id, `read ${number}.${lines(number % 4)}`);
  await alice.call("POST", `/v1/conversations/${id}/read`, { seq: BEFORE });
  for (let number = 1; number <= count; number++) await bob.send(id, `new ${number}.${lines(height(number))}`);
  const person = await world.person("alice", options);
  await person.logIn();
  const readUpTo = async () => {
    const { members } = await bob.call("GET", `/v1/conversations/${id}/status`);
    return members.find(({ user_id }) => user_id === "alice").last_read_seq;
  };
  return { alice: person, bob, id, readUpTo };
}

for (const [size, options] of Object.entries(SIZES)) {
  for (const [what, height] of Object.entries(HEIGHTS)) {
    test(`opening a conversation with ${what} on ${size} lands on the divider and reads only what is shown`, () =>
      inWorld(async (world) => {
        const count = Number(what.match(/^\d+/)[0]);
        const { alice, bob, id, readUpTo } = await unreadTalk(world, count, height, options);
        await alice.open("bob");
        // The page sends the read receipt once scrolling has stopped.
        await expectSoon("something is read", async () => {
          const read = await readUpTo();
          return [read > BEFORE, read];
        });
        const { top, bottom, divider, isDividerShown, lastSeen, isEnd } = await look(alice);
        assert.ok(isDividerShown, `the divider is at ${JSON.stringify(divider)} in ${top} to ${bottom}`);
        const read = await readUpTo();
        assert.ok(read <= lastSeen, `${read} is read, and ${lastSeen} is the last one shown`);
        // What comes now is below; the reader stays, or follows where the end was in sight.
        await bob.send(id, "one more");
        if (!isEnd) await alice.page.getByRole("button", { name: /^Jump to latest, \d+ new/ }).click();
        await alice.sees("one more");
        await expectSoon("all is read", async () => {
          const read = await readUpTo();
          return [read === BEFORE + count + 1, read];
        });
      }));
  }
}

test("unread messages are read one after the other as the person scrolls down", () =>
  inWorld(async (world) => {
    const { alice, readUpTo } = await unreadTalk(world, 13, (number) => (number === 8 ? 40 : 2), SIZES.desktop);
    await alice.open("bob");
    await expectSoon("something is read", async () => [(await readUpTo()) > BEFORE, ""]);
    const list = alice.page.getByRole("region", { name: "Messages" });
    for (let before = await readUpTo(); before < BEFORE + 13; before = await readUpTo()) {
      await list.hover();
      await alice.page.mouse.wheel(0, 300);
      const { lastSeen } = await look(alice);
      const read = await readUpTo();
      assert.ok(read <= lastSeen, `${read} is read, and ${lastSeen} is the last one shown`);
    }
  }));

test("messages that come while a conversation with one unread message opens are followed to the end and read", () =>
  inWorld(async (world) => {
    const { alice, bob, id, readUpTo } = await unreadTalk(world, 1, () => 0, SIZES.desktop);
    await alice.row("bob").getByRole("link").click();
    for (let number = 1; number <= 40; number++) await bob.send(id, `live ${number}.`);
    await expectSoon("all is read", async () => {
      const read = await readUpTo();
      return [read === BEFORE + 41, read];
    });
    await alice.sees("live 40.");
  }));
