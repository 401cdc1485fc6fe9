// Tests of the rules by which frames, pages and server entries change the state of a conversation,
// and of the inbox order. Network and storage do not belong here.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import type { InboxEntry } from "../src/index.ts";
import { Inbox } from "../src/inbox.ts";
import { ConversationState, absenceOf } from "../src/conversation-state.ts";
import { ConversationStates } from "../src/conversation-states.ts";
import { storedMessage } from "../src/timeline.ts";
import type { StoredMessage } from "../src/timeline.ts";
import { seeded } from "./support/fixture.ts";

const NO_READ_STATE = { last_delivered_seq: 0, last_read_seq: 0 };
const ENTRY: InboxEntry = {
  conversation_id: "d1", kind: "direct", peer: "bob", title: null, archived: false, pinned: false, muted: false, read_receipts: true, member_count: 2,
  first_seq: 1, last_seq: 0, last_at: 0, last_message: null, preview: "", unread: 0, my_status: NO_READ_STATE, peer_status: NO_READ_STATE, peer_presence: null,
};
const entryWith = (facts: Partial<InboxEntry>): InboxEntry => ({ ...ENTRY, ...facts });

const message = (seq: number, sender_id = "bob", facts: Partial<StoredMessage> = {}): StoredMessage => ({
  ...storedMessage({ conversation_id: "d1", seq, message_id: `m${seq}`, sender_id, receiver_id: null, content: `text ${seq}`, content_type: "text", timestamp: seq, received_at: seq }),
  ...facts,
});

function stateWith(facts: Partial<InboxEntry>, ...messages: StoredMessage[]): ConversationState {
  const state = new ConversationState("d1", "alice");
  state.applyServerEntry(entryWith(facts));
  for (const each of messages) {
    state.noteMessage(each);
    state.receive(each);
  }
  return state;
}

const seqs = (state: ConversationState): (number | null)[] => state.shown({ waiting: () => [] }).map(({ seq }) => seq);

test("repeated_message_counts_once_as_unread_and_notice_changes_the_member_count", () => {
  const notice = message(3, "bob", { content_type: "system", content: '{"event":"member_added"}' });
  const { entry } = stateWith({}, message(1), message(2), message(2), notice);
  assert.deepEqual([entry?.unread, entry?.last_seq, entry?.member_count, entry?.preview], [2, 3, 3, ""]);
});

test("member_count_of_the_server_wins_unless_a_notice_is_newer", () => {
  const notice = message(3, "bob", { content_type: "system", content: '{"event":"member_added"}' });
  // The server's entry counted the notice already, so the client must not count it again.
  const state = stateWith({ last_seq: 3, member_count: 2 }, notice, message(4));
  assert.equal(state.entry?.member_count, 2);
  state.applyServerEntry(entryWith({ last_seq: 3, member_count: 3 }));
  assert.equal(state.entry?.member_count, 3, "the server counts the notice");
  state.noteMessage(message(5, "bob", { content_type: "system", content: '{"event":"member_left"}' }));
  state.applyServerEntry(entryWith({ last_seq: 4, member_count: 3 }));
  assert.equal(state.entry?.member_count, 2, "the notice is newer than the entry");
});

test("read_states_are_fetched_for_groups_that_get_no_receipts_frames", () => {
  const server = readFileSync(new URL("../../../../crates/server/src/delivery/changes.rs", import.meta.url), "utf8");
  const smallGroup = Number(/const SMALL_GROUP: usize = (\d+);/.exec(server)?.[1]);
  const lacksStatuses = (member_count: number): boolean => stateWith({ kind: "group", member_count }, message(1, "alice")).lacksStatuses;
  assert.deepEqual([lacksStatuses(smallGroup), lacksStatuses(smallGroup + 1)], [true, false]);
});

test("own_message_marks_earlier_messages_as_read", () => {
  const { entry } = stateWith({ unread: 4, last_seq: 4 }, message(5), message(6, "alice"), message(7));
  assert.deepEqual([entry?.unread, entry?.my_status.last_read_seq], [1, 5]);
});

test("older_server_entry_reverts_neither_messages_nor_reads", () => {
  const state = stateWith({}, message(1), message(2));
  state.applyServerEntry(entryWith({ last_seq: 1, unread: 1 }));
  assert.deepEqual([state.entry?.unread, state.entry?.last_seq], [2, 2]);
  state.readHere(2);
  state.noteMessage(message(3));
  state.applyServerEntry(entryWith({ last_seq: 2, unread: 2 }));
  assert.deepEqual([state.entry?.unread, state.entry?.my_status.last_read_seq], [1, 2]);
});

test("server_entry_overtaken_by_a_newer_one_is_ignored", () => {
  const state = stateWith({ last_seq: 2, unread: 2 });
  state.applyServerEntry(entryWith({ last_seq: 1, unread: 1, muted: true }));
  assert.deepEqual([state.entry?.unread, state.entry?.last_seq, state.entry?.muted], [2, 2, false]);
  state.applyServerEntry(entryWith({ last_seq: 3, unread: 3 }));
  assert.equal(state.entry?.unread, 3);
});

test("newest_page_replaces_erased_and_lost_messages", () => {
  const state = stateWith({}, message(1), message(2, "bob", { content: "", content_type: "lost" }), message(3));
  const messages = [message(3), message(2), message(1, "bob", { content: "", content_type: "erased" })];
  state.timeline.takeNewest({ messages, next_before_seq: null, next_after_seq: null, head_seq: 3 }, 3);
  assert.deepEqual(state.timeline.messages.map(absenceOf), ["erased", null, null]);
  assert.deepEqual(state.timeline.messages.map(({ content }) => content), ["", "text 2", "text 3"]);
});

const voidAt = (seq: number, sender_id = "void"): StoredMessage => message(seq, sender_id, { message_id: `system:${seq}`, content: "", content_type: "void" });

test("void_advances_the_seq_and_is_never_shown_unread_or_last", () => {
  const state = stateWith({}, message(1), voidAt(2), message(3), voidAt(4));
  const { entry, haveSeq, window } = state;
  assert.deepEqual([haveSeq, window.fromSeq, window.toSeq, seqs(state)], [4, 1, 4, [1, 3]]);
  assert.deepEqual([entry?.unread, entry?.last_seq, entry?.last_at, entry?.last_message?.seq, entry?.preview], [2, 4, 3, 3, "text 3"]);
  assert.equal(state.readHere(1), "exact");
  assert.equal(state.entry?.unread, 1, "the loaded messages give the count");
  assert.equal(state.readHere(4), "exact");
  assert.deepEqual([state.entry?.unread, state.entry?.my_status.last_read_seq], [0, 4], "the read state can end at a void");
});

test("void_fills_a_gap_before_an_early_message_and_within_a_page", () => {
  const state = stateWith({}, message(1));
  assert.equal(state.receive(message(3)), false);
  state.receive(voidAt(2));
  assert.deepEqual([state.haveSeq, seqs(state)], [3, [1, 3]]);
  const paged = stateWith({ last_seq: 3 });
  paged.timeline.takeNewest({ messages: [voidAt(3), message(2), voidAt(1)], next_before_seq: null, next_after_seq: null, head_seq: 3 }, 3);
  assert.deepEqual([paged.window.fromSeq, paged.window.toSeq, paged.window.reachesStart, seqs(paged)], [1, 3, true, [2]]);
});

test("empty_window_starts_with_the_first_message_although_another_device_has_more", () => {
  const state = new ConversationState("d1", "alice");
  state.timeline.takeNewest({ messages: [], next_before_seq: null, next_after_seq: null, head_seq: 0 }, 0);
  state.applyServerEntry(entryWith({ last_seq: 2, unread: 2, my_status: { last_delivered_seq: 2, last_read_seq: 0 } }));
  for (const seq of [1, 2, 3]) state.receive(message(seq));
  assert.deepEqual(seqs(state), [1, 2, 3]);
});

test("message_read_in_another_tab_before_it_arrives_is_not_unread", () => {
  const state = stateWith({}, message(1));
  state.readHere(2);
  state.noteMessage(message(2));
  assert.deepEqual([state.entry?.unread, state.entry?.last_seq], [0, 2]);
  state.noteMessage(message(3));
  assert.equal(state.entry?.unread, 1);
});

test("void_is_not_an_own_message_of_a_user_with_its_sender_id", () => {
  const state = new ConversationState("d1", "void");
  state.applyServerEntry(entryWith({ kind: "group", peer: null, member_count: 3, last_seq: 1, unread: 1, my_status: { last_delivered_seq: 1, last_read_seq: 0 } }));
  state.noteMessage(voidAt(2));
  state.receive(voidAt(2));
  assert.deepEqual([state.entry?.unread, state.entry?.my_status.last_read_seq, state.lacksStatuses], [1, 0, false]);
  state.receive(voidAt(4));
  assert.deepEqual(seqs(state), []);
});

test("unread_after_a_read_is_exact_if_the_messages_are_loaded", () => {
  const state = stateWith({}, message(1), message(2), message(3, "bob", { content_type: "system", content: "{}" }), message(4));
  assert.equal(state.readHere(1), "exact");
  assert.equal(state.entry?.unread, 2);
  const far = stateWith({ last_seq: 50, unread: 30 });
  assert.equal(far.readHere(20), "unknown");
  assert.equal(far.readHere(50), "exact");
  assert.equal(far.entry?.unread, 0);
});

test("read_on_another_device_without_a_count_requests_the_entry", () => {
  const status = (state: ConversationState, last_read_seq: number, unread?: number) =>
    state.noteStatus({ type: "status", conversation_id: "d1", user_id: "alice", last_delivered_seq: 9, last_read_seq, ...(unread === undefined ? {} : { unread }) });
  const far = stateWith({ last_seq: 9, unread: 9 });
  assert.equal(status(far, 1), "entry");
  assert.equal(status(far, 2, 7), null);
  assert.equal(far.entry?.unread, 7);
  assert.equal(status(far, 9), null);
  assert.equal(far.entry?.unread, 0);
});

test("peer_read_state_never_moves_back_and_follows_the_slowest_member", () => {
  const state = stateWith({});
  const status = (user_id: string, last_delivered_seq: number, last_read_seq: number) => state.noteStatus({ type: "status", conversation_id: "d1", user_id, last_delivered_seq, last_read_seq });
  status("bob", 9, 7);
  status("bob", 8, 8);
  assert.deepEqual(state.entry?.peer_status, { last_delivered_seq: 9, last_read_seq: 8 });
  const group = stateWith({ kind: "group", peer: null, member_count: 3 }, message(1, "alice"));
  assert.equal(group.noteStatus({ type: "status", conversation_id: "d1", user_id: "bob", last_delivered_seq: 1, last_read_seq: 1 }), "statuses");
  group.noteStatuses([{ user_id: "alice", ...NO_READ_STATE, joined_seq: 1 }, { user_id: "bob", last_delivered_seq: 1, last_read_seq: 1, joined_seq: 1 }, { user_id: "carol", ...NO_READ_STATE, joined_seq: 1 }, { user_id: "late", ...NO_READ_STATE, joined_seq: 2 }]);
  assert.deepEqual(group.entry?.peer_status, NO_READ_STATE);
  assert.equal(group.noteStatus({ type: "status", conversation_id: "d1", user_id: "carol", last_delivered_seq: 1, last_read_seq: 0 }), null);
  assert.deepEqual(group.entry?.peer_status, { last_delivered_seq: 1, last_read_seq: 0 });
});

test("group_statuses_are_merged_with_frames_that_arrived_before_them", () => {
  const group = stateWith({ kind: "group", peer: null, member_count: 3 }, message(1, "alice"));
  const read = { last_delivered_seq: 1, last_read_seq: 1 };
  for (const user_id of ["bob", "carol"]) assert.equal(group.noteStatus({ type: "status", conversation_id: "d1", user_id, ...read }), "statuses");
  group.noteStatuses([{ user_id: "bob", ...read, joined_seq: 1 }, { user_id: "carol", ...NO_READ_STATE, joined_seq: 1 }]);
  assert.deepEqual(group.entry?.peer_status, read);
  const version = group.statusesVersion;
  const added = message(2, "bob", { content_type: "system", content: '{"event":"member_added"}' });
  group.noteMessage(added);
  assert.notEqual(group.statusesVersion, version, "statuses requested before a join are stale");
  const laterVersion = group.statusesVersion;
  group.noteMessage(message(1, "bob", { content_type: "system", content: '{"event":"member_left"}' }));
  assert.notEqual(group.statusesVersion, laterVersion, "the same for a notice that the server already counts");
});

test("messages_after_a_gap_are_shown_when_the_gap_is_filled", () => {
  const state = stateWith({ first_seq: 5 });
  for (const [seq, have, shown] of [[5, 5, [5]], [7, 5, [5]], [8, 5, [5]], [6, 8, [5, 6, 7, 8]], [6, 8, [5, 6, 7, 8]]] as const) {
    state.receive(message(seq));
    assert.deepEqual([state.haveSeq, seqs(state)], [have, [...shown]]);
  }
});

test("own_message_after_a_gap_is_shown_at_the_end", () => {
  const state = stateWith({}, message(1));
  state.receive(message(4, "alice"));
  assert.deepEqual(seqs(state), [1, 4]);
  state.receive(message(2));
  state.receive(message(3));
  assert.deepEqual(seqs(state), [1, 2, 3, 4]);
});

test("messages_in_random_order_with_duplicates_are_shown_once_and_complete", () => {
  for (let seed = 0; seed < 200; seed += 1) {
    const random = seeded(seed);
    const state = stateWith({});
    const rest = [...Array(30).keys()].flatMap((index) => (random() < 0.3 ? [index + 1, index + 1] : [index + 1]));
    while (rest.length > 0) {
      const [seq] = rest.splice(Math.floor(random() * Math.min(rest.length, 6)), 1) as [number];
      state.noteMessage(message(seq));
      state.receive(message(seq));
      const shown = seqs(state).filter((each) => each !== null);
      shown.forEach((each, index) => assert.equal(each, index + 1, `seed ${seed}`));
    }
    assert.deepEqual([state.haveSeq, state.timeline.toSeq, state.timeline.early.length], [30, 30, 0], `seed ${seed}`);
  }
});

test("window_away_from_the_head_does_not_grow_and_counts_newer_messages", () => {
  const state = stateWith({}, ...Array.from({ length: 20 }, (_, index) => message(index + 1)));
  state.timeline.trim(10, "older");
  state.invalidate();
  state.noteMessage(message(21));
  state.receive(message(21));
  assert.deepEqual([state.window.toSeq, state.window.reachesHead, state.newerCount, state.haveSeq], [10, false, 11, 21]);
});

test("message_pushed_before_or_during_a_newer_page_is_not_skipped", () => {
  const nine = Array.from({ length: 9 }, (_, index) => message(index + 1));
  const page = (from: number, to: number) => ({
    messages: Array.from({ length: to - from + 1 }, (_, index) => message(from + index)),
    head_seq: to, next_before_seq: null, next_after_seq: null,
  });
  for (const isOnItsWay of [true, false]) {
    const state = stateWith({}, ...nine);
    state.timeline.trim(5, "older");
    state.isLoading = isOnItsWay;
    state.noteMessage(message(10));
    state.receive(message(10));
    state.isLoading = true;
    // The server answered before it stored message 10.
    state.timeline.takeNewer(page(6, 9), Math.max(9, state.headSeq));
    state.isLoading = false;
    state.settleEarly();
    state.invalidate();
    assert.equal(state.window.reachesHead, isOnItsWay, "the window follows the head although message 10 is missing");
    state.timeline.takeNewer(page(10, 10), Math.max(10, state.headSeq));
    state.invalidate();
    assert.deepEqual([seqs(state), state.window.reachesHead], [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], true]);
  }
});

test("shown_array_is_the_same_object_until_it_changes", () => {
  const state = stateWith({}, message(1));
  const emptyOutbox = { waiting: () => [] };
  const before = state.shown(emptyOutbox);
  assert.equal(state.shown(emptyOutbox), before);
  state.receive(message(2));
  assert.notEqual(state.shown(emptyOutbox), before);
});

test("inbox_order_is_pinned_then_latest_and_unread_total_skips_muted_and_archived", () => {
  const states = new ConversationStates("alice");
  const inbox = new Inbox(states, async () => {});
  const facts: [string, number, Partial<InboxEntry>][] = [["a", 3, {}], ["b", 1, { pinned: true }], ["c", 9, { muted: true }], ["d", 20, { archived: true, pinned: true }], ["e", 30, { archived: true }], ["f", 5, { archived: true }]];
  for (const [conversation_id, last_at, set] of facts) {
    const state = states.get(conversation_id);
    state.applyServerEntry(entryWith({ conversation_id, last_at, unread: 1, last_seq: 1, ...set }));
    state.isListed = true;
  }
  const order = (archived: boolean): string => inbox.entries(archived).map(({ conversation_id }) => conversation_id).join("");
  assert.deepEqual([order(false), order(true), inbox.unreadTotal], ["bca", "edf", 2]);
});

test("conversations_without_an_open_view_keep_a_bounded_number_of_messages", () => {
  const states = new ConversationStates("alice");
  for (let index = 0; index < 80; index += 1) {
    const state = states.get(`d${index}`);
    state.applyServerEntry(entryWith({ conversation_id: `d${index}` }));
    if (index === 0) state.openCount = 1;
    for (let seq = 1; seq <= 300; seq += 1) {
      state.receive(message(seq));
      states.used(state);
    }
  }
  const sizes = [...states.all()].map(({ timeline }) => timeline.messages.length);
  assert.equal(sizes[0], 300, "an open conversation keeps its messages");
  assert.equal(sizes.filter((size) => size > 0).length, 50);
  assert(sizes.slice(1).every((size) => size <= 200));
});
