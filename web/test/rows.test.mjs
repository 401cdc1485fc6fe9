import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { Rows } = await load("/src/state/rows.ts");

const NOON = new Date(2026, 0, 15, 12).getTime();
const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

const message = (seq, facts = {}) => ({
  message_id: `m${seq}`,
  sender_id: "bob",
  content: "hi",
  content_type: "text",
  seq,
  timestamp: NOON + seq * MINUTE,
  received_at: NOON + seq * MINUTE,
  state: "sent",
  ...facts,
});
const range = (from, to) => Array.from({ length: to - from + 1 }, (_, index) => message(from + index));
const seqs = ({ rows }) => rows.map((row) => row.message().seq);

test("older messages come in one step at the start, newer ones in one at the end", () => {
  const rows = new Rows("alice");
  rows.update(range(10, 12), false);
  const steps = rows.update(range(8, 14), false);
  assert.deepEqual(steps.map(({ shift }) => shift), [true, false]);
  assert.deepEqual(steps.map(seqs), [[8, 9, 10, 11, 12], [8, 9, 10, 11, 12, 13, 14]]);
});

test("what is cut at the start goes before anything else changes", () => {
  const rows = new Rows("alice");
  rows.update(range(1, 10), true);
  const steps = rows.update(range(6, 11), false);
  assert.deepEqual(steps.map(({ shift }) => shift), [true, false]);
  assert.deepEqual(seqs(steps[0]), [6, 7, 8, 9, 10]);
});

test("another part of the conversation is a list of its own", () => {
  const rows = new Rows("alice");
  rows.update(range(1, 10), true);
  assert.deepEqual(rows.update(range(500, 510), false).map(({ isFresh }) => isFresh), [true]);
});

test("a message that waited keeps its row when it is stored", () => {
  const rows = new Rows("alice");
  const waiting = message(null, { message_id: "own", sender_id: "alice", received_at: null, state: "queued", timestamp: NOON });
  const [row] = rows.update([waiting], true).at(-1).rows;
  const [same] = rows.update([{ ...waiting, seq: 1, received_at: NOON, state: "sent" }], true).at(-1).rows;
  assert.equal(row, same);
});

test("a day is named where it begins, and at the first message only where nothing is before it", () => {
  const days = (rows) => rows.shown.map((row) => row.around().day !== 0);
  const later = message(3, { received_at: NOON + DAY });
  const whole = new Rows("alice");
  whole.update([message(1), message(2), later], true);
  assert.deepEqual(days(whole), [true, false, true]);
  const part = new Rows("alice");
  part.update([message(1), message(2), later], false);
  assert.deepEqual(days(part), [false, false, true]);
});

test("messages of one person within a few minutes stand together", () => {
  const rows = new Rows("alice");
  rows.update([message(1), message(2), message(9), message(10, { sender_id: "carol" })], true);
  assert.deepEqual(rows.shown.map((row) => row.around().isFirst), [true, false, true, true]);
  assert.deepEqual(rows.shown.map((row) => row.around().isLast), [false, true, true, true]);
});

test("the unread begin at the first message by somebody else after what was read", () => {
  const rows = new Rows("alice");
  rows.divideAfter(2);
  const own = message(3, { sender_id: "alice" });
  const notice = message(4, { content_type: "system" });
  rows.update([message(1), message(2), own, notice, message(5), message(6)], true);
  assert.deepEqual(rows.shown.map((row) => row.around().isUnreadStart), [false, false, false, false, true, false]);
});

test("voids are not shown, part nothing that stands together, and are where no unread begins", () => {
  const rows = new Rows("alice");
  rows.divideAfter(1);
  const gap = message(2, { sender_id: "void", content: "", content_type: "void", received_at: NOON + DAY });
  rows.update([message(1), gap, message(3)], true);
  assert.deepEqual(rows.shown.map((row) => row.message().seq), [1, 3]);
  assert.deepEqual(rows.shown.map((row) => row.around().isUnreadStart), [false, true]);
  assert.deepEqual(rows.shown.map((row) => row.around().day !== 0), [true, false]);
  const only = new Rows("alice");
  only.update([gap], true);
  assert.deepEqual(only.shown, []);
});
