import assert from "node:assert/strict";
import { test } from "node:test";
import { expectSoon } from "../harness/soon.mjs";
import { inWorld } from "../harness/world.mjs";

/** More can be asked for; a hundred thousand take a minute to write. */
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

const scroller = (person) => person.page.getByRole("region", { name: "Messages" });

/** Scrolls a little, and returns by how much a message that stays on the screen missed its place. */
async function jumpAfterScrolling(person, by) {
  return scroller(person).evaluate(async (area, by) => {
    // Between frames: within one, the page is half drawn, and a scroll is not told to it before the next.
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
const topMost = (person) =>
  scroller(person).evaluate((area) => {
    const { top } = area.getBoundingClientRect();
    // Heights may be off by a fraction of a pixel.
    return [...area.querySelectorAll("[data-seq]")].find((each) => each.getBoundingClientRect().top >= top + 3)?.dataset.seq;
  });

const ARCHIVED = { env: { BLUETICK_ARCHIVE__ENGINE: "directory", BLUETICK_ARCHIVE__AGE_SECONDS: "0", BLUETICK_ARCHIVE__EVERY_SECONDS: "0" } };

test("one scrolls up through a long conversation, most of it archived, without a jump, and comes back to the latest", () =>
  inWorld(async (world) => {
    const alice = await world.signedUp("alice");
    const bob = await world.server.account("bob");
    const id = await bob.direct("alice");
    await fill(bob, id, MESSAGES - 500);
    // All but the last 500 are in the archive then; nothing on the screen tells.
    assert.equal(await world.server.archive(), MESSAGES - 500);
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
    assert.equal(sorted.at(-1) - sorted[0] + 1, sorted.length, "none was left out");
    assert.ok(worst <= 2, `a message jumped by ${worst} pixels`);

    // What comes meanwhile does not move the reader; it is counted.
    // Drawn is more than what is on the screen, and changes when the list comes to rest.
    const place = await topMost(alice);
    await bob.send(id, "the latest of all");
    await expectSoon("it is counted", async () => {
      const name = await jump.getAttribute("aria-label");
      return [/1 new/.test(name), name];
    });
    assert.equal(await topMost(alice), place);
    const elements = await alice.page.locator("[data-seq]").count();
    assert.ok(elements < 150, `${elements} messages are in the document at once`);
    await jump.click();
    await alice.sees("the latest of all");
  }, ARCHIVED));

/** The messages whose any part is on the screen, and how far up that is. */
const onScreen = (person) =>
  scroller(person).evaluate((area) => {
    const frame = area.getBoundingClientRect();
    const isVisible = (each) => each.getBoundingClientRect().bottom > frame.top && each.getBoundingClientRect().top < frame.bottom;
    const all = [...area.querySelectorAll("[data-seq]")];
    return { top: area.scrollTop, seqs: all.filter(isVisible).map((each) => Number(each.dataset.seq)), drawn: all.map((each) => Number(each.dataset.seq)) };
  });

const LEAPS = {
  "the Home key": async (person) => {
    await scroller(person).focus();
    await person.page.keyboard.press("Home");
  },
  "a large turn of the wheel": async (person) => {
    await scroller(person).hover();
    await person.page.mouse.wheel(0, -200_000);
  },
  "a program": (person) => scroller(person).evaluate((area) => void (area.scrollTop = 0)),
};

for (const [how, leap] of Object.entries(LEAPS)) {
  test(`leaping to the top by ${how} loads a page or two each time, and holds the place`, () =>
    inWorld(async (world) => {
      const alice = await world.signedUp("alice", { serviceWorkers: "block" });
      const bob = await world.server.account("bob");
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
        // What is drawn for the first time may push the top away a little; a second leap reaches it.
        let before;
        await expectSoon("the top is reached, and drawn, before its page is here", async () => {
          await leap(alice);
          before = await onScreen(alice);
          return [before.top === 0 && before.seqs.length > 0 && held.length > 0, before];
        });
        await expectSoon("the page has come in front", async () => {
          await release();
          const { top } = await onScreen(alice);
          return [top > 1_000, top];
        });
        const { seqs, drawn } = await onScreen(alice);
        assert.ok(seqs.includes(before.seqs[0]), `${before.seqs[0]} was the first on the screen, which shows ${seqs}`);
        assert.deepEqual(drawn, drawn.toSorted((one, other) => one - other), "in order");
        assert.ok(asked <= 2, `${asked} pages for one leap`);
      }
      await scroller(alice).focus();
      await alice.page.keyboard.press("PageUp");
      await alice.page.keyboard.press("End");
      await expectSoon("the End key leads down again", async () => {
        await release();
        const { top } = await onScreen(alice);
        return [top > 5_000, top];
      });
    }));
}
