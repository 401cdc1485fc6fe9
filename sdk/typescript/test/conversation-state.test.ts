// The rules by which frames, pages and the server's word move what a device knows of one conversation.

import assert from "node:assert/strict";
import test from "node:test";
import type { InboxEntry } from "../src/index.ts";
import { Inbox } from "../src/inbox.ts";
import { ConversationState, absenceOf } from "../src/conversation-state.ts";
import { ConversationStates } from "../src/conversation-states.ts";
import { storedMessage } from "../src/timeline.ts";
import type { StoredMessage } from "../src/timeline.ts";
import { seeded } from "./support/fixture.ts";

const NOWHERE = { last_delivered_seq: 0, last_read_seq: 0 };
const LINE: InboxEntry = {
  conversation_id: "d1", kind: "direct", peer: "bob", title: null, archived: false, pinned: false, muted: false, read_receipts: true, member_count: 2,
  first_seq: 1, last_seq: 0, last_at: 0, last_message: null, preview: "", unread: 0, my_status: NOWHERE, peer_status: NOWHERE, peer_presence: null,
};
const line = (facts: Partial<InboxEntry>): InboxEntry => ({ ...LINE, ...facts });

const message = (seq: number, sender_id = "bob", facts: Partial<StoredMessage> = {}): StoredMessage => ({
  ...storedMessage({ conversation_id: "d1", seq, message_id: `m${seq}`, sender_id, receiver_id: null, content: `text ${seq}`, content_type: "text", timestamp: seq, received_at: seq }),
  ...facts,
});

function threadWith(facts: Partial<InboxEntry>, ...messages: StoredMessage[]): ConversationState {
  const state = new ConversationState("d1", "alice");
  state.applyServerEntry(line(facts));
  for (const each of messages) {
    state.noteMessage(each);
    state.receive(each);
  }
  return state;
}

const seqs = (state: ConversationState): (number | null)[] => state.shown({ waiting: () => [] }).map(({ seq }) => seq);

test("messages by others are unread, once; notices are not, and move the number of members", () => {
  const notice = message(3, "bob", { content_type: "system", content: '{"event":"member_added"}' });
  const { entry } = threadWith({}, message(1), message(2), message(2), notice);
  assert.deepEqual([entry?.unread, entry?.last_seq, entry?.member_count, entry?.preview], [2, 3, 3, ""]);
});

test("how many members there are is the server's word, unless a notice came after it", () => {
  const notice = message(3, "bob", { content_type: "system", content: '{"event":"member_added"}' });
  // The place of the notice was known before the notice itself, so nobody counted it.
  const state = threadWith({ last_seq: 3, member_count: 2 }, notice, message(4));
  assert.equal(state.entry?.member_count, 2);
  state.applyServerEntry(line({ last_seq: 3, member_count: 3 }));
  assert.equal(state.entry?.member_count, 3, "though it does not know of the newest message");
  state.noteMessage(message(5, "bob", { content_type: "system", content: '{"event":"member_left"}' }));
  state.applyServerEntry(line({ last_seq: 4, member_count: 3 }));
  assert.equal(state.entry?.member_count, 2, "nor of the notice");
});

test("a message of one's own, from whichever device, tells of having read what came before", () => {
  const { entry } = threadWith({ unread: 4, last_seq: 4 }, message(5), message(6, "alice"), message(7));
  assert.deepEqual([entry?.unread, entry?.my_status.last_read_seq], [1, 5]);
});

test("an older answer of the server takes back neither a message nor a read", () => {
  const state = threadWith({}, message(1), message(2));
  state.applyServerEntry(line({ last_seq: 1, unread: 1 }));
  assert.deepEqual([state.entry?.unread, state.entry?.last_seq], [2, 2]);
  state.readHere(2);
  state.noteMessage(message(3));
  state.applyServerEntry(line({ last_seq: 2, unread: 2 }));
  assert.deepEqual([state.entry?.unread, state.entry?.my_status.last_read_seq], [1, 2]);
});

test("an answer that was overtaken by a newer one counts nothing", () => {
  const state = threadWith({ last_seq: 2, unread: 2 });
  state.applyServerEntry(line({ last_seq: 1, unread: 1, muted: true }));
  assert.deepEqual([state.entry?.unread, state.entry?.last_seq, state.entry?.muted], [2, 2, false]);
  state.applyServerEntry(line({ last_seq: 3, unread: 3 }));
  assert.equal(state.entry?.unread, 3);
});

test("a newest page tells of what was deleted since, or can be read again", () => {
  const state = threadWith({}, message(1), message(2, "bob", { content: "", content_type: "lost" }), message(3));
  const messages = [message(3), message(2), message(1, "bob", { content: "", content_type: "erased" })];
  state.timeline.takeNewest({ messages, next_before_seq: null, next_after_seq: null, head_seq: 3 }, 3);
  assert.deepEqual(state.timeline.messages.map(absenceOf), ["erased", null, null]);
  assert.deepEqual(state.timeline.messages.map(({ content }) => content), ["", "text 2", "text 3"]);
});

const voidAt = (seq: number, sender_id = "void"): StoredMessage => message(seq, sender_id, { message_id: `system:${seq}`, content: "", content_type: "void" });

test("a void is counted and not shown, is never unread and never the last message", () => {
  const state = threadWith({}, message(1), voidAt(2), message(3), voidAt(4));
  const { entry, haveSeq, window } = state;
  assert.deepEqual([haveSeq, window.fromSeq, window.toSeq, seqs(state)], [4, 1, 4, [1, 3]]);
  assert.deepEqual([entry?.unread, entry?.last_seq, entry?.last_at, entry?.last_message?.seq, entry?.preview], [2, 4, 3, 3, "text 3"]);
  assert.equal(state.readHere(1), "exact");
  assert.equal(state.entry?.unread, 1, "counted from the messages at hand");
  assert.equal(state.readHere(4), "exact");
  assert.deepEqual([state.entry?.unread, state.entry?.my_status.last_read_seq], [0, 4], "what is read may end with one");
});

test("a void fills the gap that kept an early message waiting, and a page with voids is whole", () => {
  const state = threadWith({}, message(1));
  assert.equal(state.receive(message(3)), false);
  state.receive(voidAt(2));
  assert.deepEqual([state.haveSeq, seqs(state)], [3, [1, 3]]);
  const paged = threadWith({ last_seq: 3 });
  paged.timeline.takeNewest({ messages: [voidAt(3), message(2), voidAt(1)], next_before_seq: null, next_after_seq: null, head_seq: 3 }, 3);
  assert.deepEqual([paged.window.fromSeq, paged.window.toSeq, paged.window.reachesStart, seqs(paged)], [1, 3, true, [2]]);
});

test("a window that was empty begins with the first message, however far another device has told to be", () => {
  const state = new ConversationState("d1", "alice");
  state.timeline.takeNewest({ messages: [], next_before_seq: null, next_after_seq: null, head_seq: 0 }, 0);
  state.applyServerEntry(line({ last_seq: 2, unread: 2, my_status: { last_delivered_seq: 2, last_read_seq: 0 } }));
  for (const seq of [1, 2, 3]) state.receive(message(seq));
  assert.deepEqual(seqs(state), [1, 2, 3]);
});

test("what was read in another tab before it came here is not unread", () => {
  const state = threadWith({}, message(1));
  state.readHere(2);
  state.noteMessage(message(2));
  assert.deepEqual([state.entry?.unread, state.entry?.last_seq], [0, 2]);
  state.noteMessage(message(3));
  assert.equal(state.entry?.unread, 1);
});

test("to somebody whose name is that of a void's sender, it is nobody's message all the same", () => {
  const state = new ConversationState("d1", "void");
  state.applyServerEntry(line({ kind: "group", peer: null, member_count: 3, last_seq: 1, unread: 1, my_status: { last_delivered_seq: 1, last_read_seq: 0 } }));
  state.noteMessage(voidAt(2));
  state.receive(voidAt(2));
  assert.deepEqual([state.entry?.unread, state.entry?.my_status.last_read_seq, state.lacksStatuses], [1, 0, false]);
  state.receive(voidAt(4));
  assert.deepEqual(seqs(state), []);
});

test("what is left unread is counted from the messages at hand, or else asked for", () => {
  const state = threadWith({}, message(1), message(2), message(3, "bob", { content_type: "system", content: "{}" }), message(4));
  assert.equal(state.readHere(1), "exact");
  assert.equal(state.entry?.unread, 2);
  const far = threadWith({ last_seq: 50, unread: 30 });
  assert.equal(far.readHere(20), "unknown");
  assert.equal(far.readHere(50), "exact");
  assert.equal(far.entry?.unread, 0);
});

test("what another device read is no longer unread; where nobody says how much is left, the server is asked", () => {
  const status = (state: ConversationState, last_read_seq: number, unread?: number) =>
    state.noteStatus({ type: "status", conversation_id: "d1", user_id: "alice", last_delivered_seq: 9, last_read_seq, ...(unread === undefined ? {} : { unread }) });
  const far = threadWith({ last_seq: 9, unread: 9 });
  assert.equal(status(far, 1), "entry");
  assert.equal(status(far, 2, 7), null);
  assert.equal(far.entry?.unread, 7);
  assert.equal(status(far, 9), null);
  assert.equal(far.entry?.unread, 0);
});

test("the others' boundaries never go back; in a group the one furthest behind decides, from their joining on", () => {
  const state = threadWith({});
  const status = (user_id: string, last_delivered_seq: number, last_read_seq: number) => state.noteStatus({ type: "status", conversation_id: "d1", user_id, last_delivered_seq, last_read_seq });
  status("bob", 9, 7);
  status("bob", 8, 8);
  assert.deepEqual(state.entry?.peer_status, { last_delivered_seq: 9, last_read_seq: 8 });
  const group = threadWith({ kind: "group", peer: null, member_count: 3 }, message(1, "alice"));
  assert.equal(group.noteStatus({ type: "status", conversation_id: "d1", user_id: "bob", last_delivered_seq: 1, last_read_seq: 1 }), "statuses");
  group.noteStatuses([{ user_id: "alice", ...NOWHERE, joined_seq: 1 }, { user_id: "bob", last_delivered_seq: 1, last_read_seq: 1, joined_seq: 1 }, { user_id: "carol", ...NOWHERE, joined_seq: 1 }, { user_id: "late", ...NOWHERE, joined_seq: 2 }]);
  assert.deepEqual(group.entry?.peer_status, NOWHERE);
  assert.equal(group.noteStatus({ type: "status", conversation_id: "d1", user_id: "carol", last_delivered_seq: 1, last_read_seq: 0 }), null);
  assert.deepEqual(group.entry?.peer_status, { last_delivered_seq: 1, last_read_seq: 0 });
});

test("an answer about a group's ticks is joined to what frames told since it was asked for", () => {
  const group = threadWith({ kind: "group", peer: null, member_count: 3 }, message(1, "alice"));
  const read = { last_delivered_seq: 1, last_read_seq: 1 };
  for (const user_id of ["bob", "carol"]) assert.equal(group.noteStatus({ type: "status", conversation_id: "d1", user_id, ...read }), "statuses");
  group.noteStatuses([{ user_id: "bob", ...read, joined_seq: 1 }, { user_id: "carol", ...NOWHERE, joined_seq: 1 }]);
  assert.deepEqual(group.entry?.peer_status, read);
  const number = group.statusesVersion;
  const added = message(2, "bob", { content_type: "system", content: '{"event":"member_added"}' });
  group.noteMessage(added);
  assert.notEqual(group.statusesVersion, number, "an answer asked for before somebody joined does not count");
  const retries = group.statusesVersion;
  group.noteMessage(message(1, "bob", { content_type: "system", content: '{"event":"member_left"}' }));
  assert.notEqual(group.statusesVersion, retries, "also where the server's word had counted that already");
});

test("the device has only what came without a gap, and shows no gap", () => {
  const state = threadWith({ first_seq: 5 });
  for (const [seq, have, shown] of [[5, 5, [5]], [7, 5, [5]], [8, 5, [5]], [6, 8, [5, 6, 7, 8]], [6, 8, [5, 6, 7, 8]]] as const) {
    state.receive(message(seq));
    assert.deepEqual([state.haveSeq, seqs(state)], [have, [...shown]]);
  }
});

test("one's own message that was acknowledged ahead of what is missing is shown at the end", () => {
  const state = threadWith({}, message(1));
  state.receive(message(4, "alice"));
  assert.deepEqual(seqs(state), [1, 4]);
  state.receive(message(2));
  state.receive(message(3));
  assert.deepEqual(seqs(state), [1, 2, 3, 4]);
});

test("whatever order messages come in, doubled and with pages between, each is shown once and none is missing", () => {
  for (let seed = 0; seed < 200; seed += 1) {
    const random = seeded(seed);
    const state = threadWith({});
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

test("a window away from the end does not grow, and says how much lies beyond", () => {
  const state = threadWith({}, ...Array.from({ length: 20 }, (_, index) => message(index + 1)));
  state.timeline.trim(10, "older");
  state.invalidate();
  state.noteMessage(message(21));
  state.receive(message(21));
  assert.deepEqual([state.window.toSeq, state.window.reachesHead, state.newerCount, state.haveSeq], [10, false, 11, 21]);
});

test("what is pushed before a newer page was asked for, or while it is on its way, is not passed over", () => {
  const nine = Array.from({ length: 9 }, (_, index) => message(index + 1));
  const page = (from: number, to: number) => ({
    messages: Array.from({ length: to - from + 1 }, (_, index) => message(from + index)),
    head_seq: to, next_before_seq: null, next_after_seq: null,
  });
  for (const isOnItsWay of [true, false]) {
    const state = threadWith({}, ...nine);
    state.timeline.trim(5, "older");
    state.isLoading = isOnItsWay;
    state.noteMessage(message(10));
    state.receive(message(10));
    state.isLoading = true;
    // The server answered before the tenth.
    state.timeline.takeNewer(page(6, 9), Math.max(9, state.headSeq));
    state.isLoading = false;
    state.settleEarly();
    state.invalidate();
    assert.equal(state.window.reachesHead, isOnItsWay, "nine is not the end");
    state.timeline.takeNewer(page(10, 10), Math.max(10, state.headSeq));
    state.invalidate();
    assert.deepEqual([seqs(state), state.window.reachesHead], [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], true]);
  }
});

test("the array that is shown stays the same until something in it changed", () => {
  const state = threadWith({}, message(1));
  const nobody = { waiting: () => [] };
  const before = state.shown(nobody);
  assert.equal(state.shown(nobody), before);
  state.receive(message(2));
  assert.notEqual(state.shown(nobody), before);
});

test("pinned first, then the latest; archived apart and not counted, nor muted", () => {
  const states = new ConversationStates("alice");
  const inbox = new Inbox(states, async () => {});
  const facts: [string, number, Partial<InboxEntry>][] = [["a", 3, {}], ["b", 1, { pinned: true }], ["c", 9, { muted: true }], ["d", 20, { archived: true, pinned: true }], ["e", 30, { archived: true }], ["f", 5, { archived: true }]];
  for (const [conversation_id, last_at, set] of facts) {
    const state = states.get(conversation_id);
    state.applyServerEntry(line({ conversation_id, last_at, unread: 1, last_seq: 1, ...set }));
    state.isListed = true;
  }
  const order = (archived: boolean): string => inbox.entries(archived).map(({ conversation_id }) => conversation_id).join("");
  assert.deepEqual([order(false), order(true), inbox.unreadTotal], ["bca", "edf", 2]);
});

test("of conversations nobody looks at, only so many messages of only so many are kept", () => {
  const states = new ConversationStates("alice");
  for (let index = 0; index < 80; index += 1) {
    const state = states.get(`d${index}`);
    state.applyServerEntry(line({ conversation_id: `d${index}` }));
    if (index === 0) state.openCount = 1;
    for (let seq = 1; seq <= 300; seq += 1) {
      state.receive(message(seq));
      states.used(state);
    }
  }
  const sizes = [...states.all()].map(({ timeline }) => timeline.messages.length);
  assert.equal(sizes[0], 300, "what is looked at stays");
  assert.equal(sizes.filter((size) => size > 0).length, 50);
  assert(sizes.slice(1).every((size) => size <= 200));
});
