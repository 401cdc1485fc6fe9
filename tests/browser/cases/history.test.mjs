import assert from "node:assert/strict";
import { test } from "node:test";
import { waitUntil } from "../harness/wait.mjs";
import { withEnvironment } from "../harness/environment.mjs";

/** BLUETICK_HISTORY sets another number. Writing 100,000 messages takes a minute. */
const MESSAGES = Number(process.env.BLUETICK_HISTORY ?? 3_000);

/** Messages of many heights; the last of them is the newest. */
async function fill(bob, id, count, after = 0) {
  const text = (number) => `message ${number}${" and more of it".repeat((number * 7) % 23)}`;
  let next = after + 1;
  const worker = async () => {
    while (next < after + count) await bob.send(id, text(next++));
  };
  await Promise.all(Array.from({ length: 32 }, worker));
  await bob.send(id, text(after + count));
}

const scroller = (user) => user.page.getByRole("region", { name: "Messages" });

/**
 * Scrolls, and returns the error in the position of a message that stays on the screen, in pixels.
 */
async function jumpAfterScrolling(user, by) {
  return scroller(user).evaluate(async (area, by) => {
    // Runs between two frames: within a frame, the page may be drawn in part.
    const settled = () => new Promise((resume) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resume))));
    const visible = () => [...area.querySelectorAll("[data-seq]")].find((each) => {
      const { top, bottom } = each.getBoundingClientRect();
      const frame = area.getBoundingClientRect();
      return top >= frame.top + 100 && bottom <= frame.bottom - 100;
    });
    await settled();
    const anchor = visible();
    if (!anchor) return 0;
    const { seq } = anchor.dataset;
    const before = anchor.getBoundingClientRect().top;
    const scrollBefore = area.scrollTop;
    area.scrollTop += by;
    const moved = area.scrollTop - scrollBefore;
    await settled();
    const after = area.querySelector(`[data-seq="${seq}"]`);
    return after ? Math.abs(after.getBoundingClientRect().top - (before - moved)) : 0;
  }, by);
}

/** The first message that is on the screen as a whole. */
const topMost = (user) =>
  scroller(user).evaluate((area) => {
    const { top } = area.getBoundingClientRect();
    // Heights may be off by a fraction of a pixel.
    return [...area.querySelectorAll("[data-seq]")].find((each) => each.getBoundingClientRect().top >= top + 3)?.dataset.seq;
  });

const ARCHIVED = { env: { BLUETICK_ARCHIVE__ENGINE: "directory", BLUETICK_ARCHIVE__AGE_SECONDS: "0", BLUETICK_ARCHIVE__EVERY_SECONDS: "0" } };

test("scrolling_up_through_an_archived_conversation_moves_no_message_and_jump_to_latest_returns", () =>
  withEnvironment(async (env) => {
    const alice = await env.signedUp("alice");
    const bob = await env.server.account("bob");
    const id = await bob.direct("alice");
    await fill(bob, id, MESSAGES - 500);
    // All messages but the last 500 are in the archive now.
    assert.equal(await env.server.archive(), MESSAGES - 500);
    await fill(bob, id, 500, MESSAGES - 500);
    await alice.open("bob");
    await alice.page.getByRole("separator", { name: "New messages" }).waitFor();
    const jump = alice.page.getByRole("button", { name: /^Jump to latest/ });
    await jump.click();
    await alice.sees(`message ${MESSAGES}`);

    let worst = 0;
    const seen = new Set();
    for (let steps = 0; steps < 900; steps++) {
      worst = Math.max(worst, await jumpAfterScrolling(alice, -600));
      const seqs = await alice.page.locator("[data-seq]").evaluateAll((all) => all.map((each) => Number(each.dataset.seq)));
      for (const seq of seqs) seen.add(seq);
      if (seen.size > 1_000) break;
    }
    assert.ok(seen.size > 1_000, `only ${seen.size} messages were seen`);
    const sorted = [...seen].sort((one, other) => one - other);
    assert.equal(sorted.at(-1) - sorted[0] + 1, sorted.length, "no message was left out");
    assert.ok(worst <= 2, `a message jumped by ${worst} pixels`);

    // A new message does not change the scroll position; the button counts it. Only messages on the
    // screen are compared, because the list draws a different range when it rests.
    const topBefore = await topMost(alice);
    await bob.send(id, "the latest of all");
    await waitUntil("it is counted", async () => {
      const name = await jump.getAttribute("aria-label");
      return [/1 new/.test(name), name];
    });
    assert.equal(await topMost(alice), topBefore);
    const elements = await alice.page.locator("[data-seq]").count();
    assert.ok(elements < 150, `${elements} messages are in the document at once`);
    await jump.click();
    await alice.sees("the latest of all");
  }, ARCHIVED));

/** The scroll position, and the seqs of the messages on the screen and of all drawn messages. */
const onScreen = (user) =>
  scroller(user).evaluate((area) => {
    const frame = area.getBoundingClientRect();
    const isVisible = (each) => each.getBoundingClientRect().bottom > frame.top && each.getBoundingClientRect().top < frame.bottom;
    const all = [...area.querySelectorAll("[data-seq]")];
    return { top: area.scrollTop, seqs: all.filter(isVisible).map((each) => Number(each.dataset.seq)), drawn: all.map((each) => Number(each.dataset.seq)) };
  });

const JUMPS = {
  "the Home key": async (user) => {
    await scroller(user).focus();
    await user.page.keyboard.press("Home");
  },
  "a large turn of the wheel": async (user) => {
    await scroller(user).hover();
    await user.page.mouse.wheel(0, -200_000);
  },
  "a script": (user) => scroller(user).evaluate((area) => void (area.scrollTop = 0)),
};

for (const [how, jumpUp] of Object.entries(JUMPS)) {
  test(`jumping to the top by ${how} loads one or two pages each time and keeps the position`, () =>
    withEnvironment(async (env) => {
      const alice = await env.signedUp("alice", { serviceWorkers: "block" });
      const bob = await env.server.account("bob");
      await fill(bob, await bob.direct("alice"), Math.min(MESSAGES, 3_000));
      await alice.open("bob");
      await alice.page.getByRole("button", { name: /^Jump to latest/ }).click();
      await alice.sees(`message ${Math.min(MESSAGES, 3_000)}`);
      const held = [];
      let asked = 0;
      await alice.page.route(/messages\?.*before_seq/, (route) => {
        asked += 1;
        held.push(route);
      });
      const release = () => Promise.all(held.splice(0).map((route) => route.continue()));
      for (let round = 1; round <= 6; round++) {
        asked = 0;
        // Rows that are drawn for the first time may move the top; a second jump reaches it.
        let before;
        await waitUntil("the top is drawn before its page arrives", async () => {
          await jumpUp(alice);
          before = await onScreen(alice);
          return [before.top === 0 && before.seqs.length > 0 && held.length > 0, before];
        });
        await waitUntil("the page is above the top", async () => {
          await release();
          const { top } = await onScreen(alice);
          return [top > 1_000, top];
        });
        const { seqs, drawn } = await onScreen(alice);
        assert.ok(seqs.includes(before.seqs[0]), `${before.seqs[0]} was the first on the screen, which shows ${seqs}`);
        assert.deepEqual(drawn, drawn.toSorted((one, other) => one - other), "in order");
        assert.ok(asked <= 2, `${asked} pages for one jump`);
      }
      await scroller(alice).focus();
      await alice.page.keyboard.press("PageUp");
      await alice.page.keyboard.press("End");
      await waitUntil("the End key leads down again", async () => {
        await release();
        const { top } = await onScreen(alice);
        return [top > 5_000, top];
      });
    }));
}
