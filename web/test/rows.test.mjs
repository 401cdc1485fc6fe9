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

test("older_messages_are_one_step_at_the_start_and_newer_ones_one_step_at_the_end", () => {
  const rows = new Rows("alice");
  rows.update(range(10, 12), false);
  const steps = rows.update(range(8, 14), false);
  assert.deepEqual(steps.map(({ shift }) => shift), [true, false]);
  assert.deepEqual(steps.map(seqs), [[8, 9, 10, 11, 12], [8, 9, 10, 11, 12, 13, 14]]);
});

test("removed_rows_at_the_start_are_the_first_step", () => {
  const rows = new Rows("alice");
  rows.update(range(1, 10), true);
  const steps = rows.update(range(6, 11), false);
  assert.deepEqual(steps.map(({ shift }) => shift), [true, false]);
  assert.deepEqual(seqs(steps[0]), [6, 7, 8, 9, 10]);
});

test("another_part_of_the_conversation_is_a_fresh_list", () => {
  const rows = new Rows("alice");
  rows.update(range(1, 10), true);
  assert.deepEqual(rows.update(range(500, 510), false).map(({ isFresh }) => isFresh), [true]);
});

test("a_queued_message_keeps_its_row_when_it_is_stored", () => {
  const rows = new Rows("alice");
  const waiting = message(null, { message_id: "own", sender_id: "alice", received_at: null, state: "queued", timestamp: NOON });
  const [row] = rows.update([waiting], true).at(-1).rows;
  const [same] = rows.update([{ ...waiting, seq: 1, received_at: NOON, state: "sent" }], true).at(-1).rows;
  assert.equal(row, same);
});

test("a_day_separator_is_at_the_start_of_a_day_and_at_the_start_of_the_conversation", () => {
  const days = (rows) => rows.shown.map((row) => row.layout().day !== 0);
  const later = message(3, { received_at: NOON + DAY });
  const whole = new Rows("alice");
  whole.update([message(1), message(2), later], true);
  assert.deepEqual(days(whole), [true, false, true]);
  const part = new Rows("alice");
  part.update([message(1), message(2), later], false);
  assert.deepEqual(days(part), [false, false, true]);
});

test("messages_of_one_sender_within_five_minutes_form_a_group", () => {
  const rows = new Rows("alice");
  rows.update([message(1), message(2), message(9), message(10, { sender_id: "carol" })], true);
  assert.deepEqual(rows.shown.map((row) => row.layout().isFirst), [true, false, true, true]);
  assert.deepEqual(rows.shown.map((row) => row.layout().isLast), [false, true, true, true]);
});

test("the_unread_divider_is_before_the_first_unread_message_of_another_user", () => {
  const rows = new Rows("alice");
  rows.setDividerAfter(2);
  const own = message(3, { sender_id: "alice" });
  const notice = message(4, { content_type: "system" });
  rows.update([message(1), message(2), own, notice, message(5), message(6)], true);
  assert.deepEqual(rows.shown.map((row) => row.layout().isUnreadStart), [false, false, false, false, true, false]);
});

test("voids_have_no_row_no_day_separator_and_no_unread_divider", () => {
  const rows = new Rows("alice");
  rows.setDividerAfter(1);
  const gap = message(2, { sender_id: "void", content: "", content_type: "void", received_at: NOON + DAY });
  rows.update([message(1), gap, message(3)], true);
  assert.deepEqual(rows.shown.map((row) => row.message().seq), [1, 3]);
  assert.deepEqual(rows.shown.map((row) => row.layout().isUnreadStart), [false, true]);
  assert.deepEqual(rows.shown.map((row) => row.layout().day !== 0), [true, false]);
  const only = new Rows("alice");
  only.update([gap], true);
  assert.deepEqual(only.shown, []);
});
