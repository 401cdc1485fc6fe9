// The rules by which frames, pages and the server's word move what a device knows of one conversation.

import assert from "node:assert/strict";
import test from "node:test";
import type { InboxEntry } from "../src/index.ts";
import { Inbox } from "../src/inbox.ts";
import { Thread, absenceOf } from "../src/thread.ts";
import { Threads } from "../src/threads.ts";
import { storedMessage } from "../src/timeline.ts";
import type { StoredMessage } from "../src/timeline.ts";
import { seeded } from "./support/world.ts";

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

function threadWith(facts: Partial<InboxEntry>, ...messages: StoredMessage[]): Thread {
  const thread = new Thread("d1", "alice");
  thread.learn(line(facts));
  for (const each of messages) {
    thread.noteMessage(each);
    thread.receive(each);
  }
  return thread;
}

const seqs = (thread: Thread): (number | null)[] => thread.shown({ waiting: () => [] }).map(({ seq }) => seq);

test("messages by others are unread, once; notices are not, and move the number of members", () => {
  const notice = message(3, "bob", { content_type: "system", content: '{"event":"member_added"}' });
  const { entry } = threadWith({}, message(1), message(2), message(2), notice);
  assert.deepEqual([entry?.unread, entry?.last_seq, entry?.member_count, entry?.preview], [2, 3, 3, ""]);
});

test("how many members there are is the server's word, unless a notice came after it", () => {
  const notice = message(3, "bob", { content_type: "system", content: '{"event":"member_added"}' });
  // The place of the notice was known before the notice itself, so nobody counted it.
  const thread = threadWith({ last_seq: 3, member_count: 2 }, notice, message(4));
  assert.equal(thread.entry?.member_count, 2);
  thread.learn(line({ last_seq: 3, member_count: 3 }));
  assert.equal(thread.entry?.member_count, 3, "though it does not know of the newest message");
  thread.noteMessage(message(5, "bob", { content_type: "system", content: '{"event":"member_left"}' }));
  thread.learn(line({ last_seq: 4, member_count: 3 }));
  assert.equal(thread.entry?.member_count, 2, "nor of the notice");
});

test("a message of one's own, from whichever device, tells of having read what came before", () => {
  const { entry } = threadWith({ unread: 4, last_seq: 4 }, message(5), message(6, "alice"), message(7));
  assert.deepEqual([entry?.unread, entry?.my_status.last_read_seq], [1, 5]);
});

test("an older answer of the server takes back neither a message nor a read", () => {
  const thread = threadWith({}, message(1), message(2));
  thread.learn(line({ last_seq: 1, unread: 1 }));
  assert.deepEqual([thread.entry?.unread, thread.entry?.last_seq], [2, 2]);
  thread.readHere(2);
  thread.noteMessage(message(3));
  thread.learn(line({ last_seq: 2, unread: 2 }));
  assert.deepEqual([thread.entry?.unread, thread.entry?.my_status.last_read_seq], [1, 2]);
});

test("an answer that was overtaken by a newer one counts nothing", () => {
  const thread = threadWith({ last_seq: 2, unread: 2 });
  thread.learn(line({ last_seq: 1, unread: 1, muted: true }));
  assert.deepEqual([thread.entry?.unread, thread.entry?.last_seq, thread.entry?.muted], [2, 2, false]);
  thread.learn(line({ last_seq: 3, unread: 3 }));
  assert.equal(thread.entry?.unread, 3);
});

test("a newest page tells of what was deleted since, or can be read again", () => {
  const thread = threadWith({}, message(1), message(2, "bob", { content: "", content_type: "lost" }), message(3));
  const messages = [message(3), message(2), message(1, "bob", { content: "", content_type: "erased" })];
  thread.timeline.takeNewest({ messages, next_before_seq: null, next_after_seq: null, head_seq: 3 }, 3);
  assert.deepEqual(thread.timeline.messages.map(absenceOf), ["erased", null, null]);
  assert.deepEqual(thread.timeline.messages.map(({ content }) => content), ["", "text 2", "text 3"]);
});

const voidAt = (seq: number, sender_id = "void"): StoredMessage => message(seq, sender_id, { message_id: `system:${seq}`, content: "", content_type: "void" });

test("a void is counted and not shown, is never unread and never the last message", () => {
  const thread = threadWith({}, message(1), voidAt(2), message(3), voidAt(4));
  const { entry, haveSeq, window } = thread;
  assert.deepEqual([haveSeq, window.fromSeq, window.toSeq, seqs(thread)], [4, 1, 4, [1, 3]]);
  assert.deepEqual([entry?.unread, entry?.last_seq, entry?.last_at, entry?.last_message?.seq, entry?.preview], [2, 4, 3, 3, "text 3"]);
  assert.equal(thread.readHere(1), "exact");
  assert.equal(thread.entry?.unread, 1, "counted from the messages at hand");
  assert.equal(thread.readHere(4), "exact");
  assert.deepEqual([thread.entry?.unread, thread.entry?.my_status.last_read_seq], [0, 4], "what is read may end with one");
});

test("a void fills the gap that kept an early message waiting, and a page with voids is whole", () => {
  const thread = threadWith({}, message(1));
  assert.equal(thread.receive(message(3)), false);
  thread.receive(voidAt(2));
  assert.deepEqual([thread.haveSeq, seqs(thread)], [3, [1, 3]]);
  const paged = threadWith({ last_seq: 3 });
  paged.timeline.takeNewest({ messages: [voidAt(3), message(2), voidAt(1)], next_before_seq: null, next_after_seq: null, head_seq: 3 }, 3);
  assert.deepEqual([paged.window.fromSeq, paged.window.toSeq, paged.window.reachesStart, seqs(paged)], [1, 3, true, [2]]);
});

test("a window that was empty begins with the first message, however far another device has told to be", () => {
  const thread = new Thread("d1", "alice");
  thread.timeline.takeNewest({ messages: [], next_before_seq: null, next_after_seq: null, head_seq: 0 }, 0);
  thread.learn(line({ last_seq: 2, unread: 2, my_status: { last_delivered_seq: 2, last_read_seq: 0 } }));
  for (const seq of [1, 2, 3]) thread.receive(message(seq));
  assert.deepEqual(seqs(thread), [1, 2, 3]);
});

test("what was read in another tab before it came here is not unread", () => {
  const thread = threadWith({}, message(1));
  thread.readHere(2);
  thread.noteMessage(message(2));
  assert.deepEqual([thread.entry?.unread, thread.entry?.last_seq], [0, 2]);
  thread.noteMessage(message(3));
  assert.equal(thread.entry?.unread, 1);
});

test("to somebody whose name is that of a void's sender, it is nobody's message all the same", () => {
  const thread = new Thread("d1", "void");
  thread.learn(line({ kind: "group", peer: null, member_count: 3, last_seq: 1, unread: 1, my_status: { last_delivered_seq: 1, last_read_seq: 0 } }));
  thread.noteMessage(voidAt(2));
  thread.receive(voidAt(2));
  assert.deepEqual([thread.entry?.unread, thread.entry?.my_status.last_read_seq, thread.lacksStatuses], [1, 0, false]);
  thread.receive(voidAt(4));
  assert.deepEqual(seqs(thread), []);
});

test("what is left unread is counted from the messages at hand, or else asked for", () => {
  const thread = threadWith({}, message(1), message(2), message(3, "bob", { content_type: "system", content: "{}" }), message(4));
  assert.equal(thread.readHere(1), "exact");
  assert.equal(thread.entry?.unread, 2);
  const far = threadWith({ last_seq: 50, unread: 30 });
  assert.equal(far.readHere(20), "unsure");
  assert.equal(far.readHere(50), "exact");
  assert.equal(far.entry?.unread, 0);
});

test("what another device read is no longer unread; where nobody says how much is left, the server is asked", () => {
  const status = (thread: Thread, last_read_seq: number, unread?: number) =>
    thread.noteStatus({ type: "status", conversation_id: "d1", user_id: "alice", last_delivered_seq: 9, last_read_seq, ...(unread === undefined ? {} : { unread }) });
  const far = threadWith({ last_seq: 9, unread: 9 });
  assert.equal(status(far, 1), "entry");
  assert.equal(status(far, 2, 7), null);
  assert.equal(far.entry?.unread, 7);
  assert.equal(status(far, 9), null);
  assert.equal(far.entry?.unread, 0);
});

test("the others' boundaries never go back; in a group the one furthest behind decides, from their joining on", () => {
  const thread = threadWith({});
  const status = (user_id: string, last_delivered_seq: number, last_read_seq: number) => thread.noteStatus({ type: "status", conversation_id: "d1", user_id, last_delivered_seq, last_read_seq });
  status("bob", 9, 7);
  status("bob", 8, 8);
  assert.deepEqual(thread.entry?.peer_status, { last_delivered_seq: 9, last_read_seq: 8 });
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
  const number = group.statusesNumber;
  const added = message(2, "bob", { content_type: "system", content: '{"event":"member_added"}' });
  group.noteMessage(added);
  assert.notEqual(group.statusesNumber, number, "an answer asked for before somebody joined does not count");
  const later = group.statusesNumber;
  group.noteMessage(message(1, "bob", { content_type: "system", content: '{"event":"member_left"}' }));
  assert.notEqual(group.statusesNumber, later, "also where the server's word had counted that already");
});

test("the device has only what came without a gap, and shows no gap", () => {
  const thread = threadWith({ first_seq: 5 });
  for (const [seq, have, shown] of [[5, 5, [5]], [7, 5, [5]], [8, 5, [5]], [6, 8, [5, 6, 7, 8]], [6, 8, [5, 6, 7, 8]]] as const) {
    thread.receive(message(seq));
    assert.deepEqual([thread.haveSeq, seqs(thread)], [have, [...shown]]);
  }
});

test("one's own message that was acknowledged ahead of what is missing is shown at the end", () => {
  const thread = threadWith({}, message(1));
  thread.receive(message(4, "alice"));
  assert.deepEqual(seqs(thread), [1, 4]);
  thread.receive(message(2));
  thread.receive(message(3));
  assert.deepEqual(seqs(thread), [1, 2, 3, 4]);
});

test("whatever order messages come in, doubled and with pages between, each is shown once and none is missing", () => {
  for (let seed = 0; seed < 200; seed += 1) {
    const random = seeded(seed);
    const thread = threadWith({});
    const rest = [...Array(30).keys()].flatMap((index) => (random() < 0.3 ? [index + 1, index + 1] : [index + 1]));
    while (rest.length > 0) {
      const [seq] = rest.splice(Math.floor(random() * Math.min(rest.length, 6)), 1) as [number];
      thread.noteMessage(message(seq));
      thread.receive(message(seq));
      const shown = seqs(thread).filter((each) => each !== null);
      shown.forEach((each, index) => assert.equal(each, index + 1, `seed ${seed}`));
    }
    assert.deepEqual([thread.haveSeq, thread.timeline.toSeq, thread.timeline.early.length], [30, 30, 0], `seed ${seed}`);
  }
});

test("a window away from the end does not grow, and says how much lies beyond", () => {
  const thread = threadWith({}, ...Array.from({ length: 20 }, (_, index) => message(index + 1)));
  thread.timeline.trim(10, "older");
  thread.touch();
  thread.noteMessage(message(21));
  thread.receive(message(21));
  assert.deepEqual([thread.window.toSeq, thread.window.reachesHead, thread.newerCount, thread.haveSeq], [10, false, 11, 21]);
});

test("what is pushed before a newer page was asked for, or while it is on its way, is not passed over", () => {
  const nine = Array.from({ length: 9 }, (_, index) => message(index + 1));
  const page = (from: number, to: number) => ({
    messages: Array.from({ length: to - from + 1 }, (_, index) => message(from + index)),
    head_seq: to, next_before_seq: null, next_after_seq: null,
  });
  for (const isOnItsWay of [true, false]) {
    const thread = threadWith({}, ...nine);
    thread.timeline.trim(5, "older");
    thread.isLoading = isOnItsWay;
    thread.noteMessage(message(10));
    thread.receive(message(10));
    thread.isLoading = true;
    // The server answered before the tenth.
    thread.timeline.takeNewer(page(6, 9), Math.max(9, thread.headSeq));
    thread.isLoading = false;
    thread.settleEarly();
    thread.touch();
    assert.equal(thread.window.reachesHead, isOnItsWay, "nine is not the end");
    thread.timeline.takeNewer(page(10, 10), Math.max(10, thread.headSeq));
    thread.touch();
    assert.deepEqual([seqs(thread), thread.window.reachesHead], [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], true]);
  }
});

test("the array that is shown stays the same until something in it changed", () => {
  const thread = threadWith({}, message(1));
  const nobody = { waiting: () => [] };
  const before = thread.shown(nobody);
  assert.equal(thread.shown(nobody), before);
  thread.receive(message(2));
  assert.notEqual(thread.shown(nobody), before);
});

test("pinned first, then the latest; archived apart and not counted, nor muted", () => {
  const threads = new Threads("alice");
  const inbox = new Inbox(threads, async () => {});
  const facts: [string, number, Partial<InboxEntry>][] = [["a", 3, {}], ["b", 1, { pinned: true }], ["c", 9, { muted: true }], ["d", 20, { archived: true, pinned: true }], ["e", 30, { archived: true }], ["f", 5, { archived: true }]];
  for (const [conversation_id, last_at, set] of facts) {
    const thread = threads.get(conversation_id);
    thread.learn(line({ conversation_id, last_at, unread: 1, last_seq: 1, ...set }));
    thread.isListed = true;
  }
  const order = (archived: boolean): string => inbox.entries(archived).map(({ conversation_id }) => conversation_id).join("");
  assert.deepEqual([order(false), order(true), inbox.unreadTotal], ["bca", "edf", 2]);
});

test("of conversations nobody looks at, only so many messages of only so many are kept", () => {
  const threads = new Threads("alice");
  for (let index = 0; index < 80; index += 1) {
    const thread = threads.get(`d${index}`);
    thread.learn(line({ conversation_id: `d${index}` }));
    if (index === 0) thread.openCount = 1;
    for (let seq = 1; seq <= 300; seq += 1) {
      thread.receive(message(seq));
      threads.used(thread);
    }
  }
  const sizes = [...threads.all()].map(({ timeline }) => timeline.messages.length);
  assert.equal(sizes[0], 300, "what is looked at stays");
  assert.equal(sizes.filter((size) => size > 0).length, 50);
  assert(sizes.slice(1).every((size) => size <= 200));
});
