import assert from "node:assert";
import test from "node:test";
import { Inbox } from "../../web/inbox.js";

const NOWHERE = { last_delivered_seq: 0, last_read_seq: 0 };
const LINE = { conversation_id: "d1", kind: "direct", peer: "bob", archived: false, pinned: false, member_count: 2 };
const EMPTY = { first_seq: 1, last_seq: 0, last_at: 0, last_message: null, unread: 0, my_status: NOWHERE, peer_status: NOWHERE };
const line = (facts) => ({ ...LINE, ...EMPTY, ...facts });
const MESSAGE = { conversation_id: "d1", content: "hi" };
const message = (seq, sender_id = "bob", facts = {}) => ({ ...MESSAGE, seq, sender_id, received_at: seq, ...facts });

function inboxWith(facts, ...messages) {
  const inbox = new Inbox("alice", [line(facts)]);
  for (const each of messages) inbox.takeMessage(each);
  return [inbox, inbox.rows.get("d1")];
}

test("messages by others are unread, once; notices are not", () => {
  const notice = message(3, "bob", { content_type: "system", content: '{"event":"member_added"}' });
  const [, row] = inboxWith({}, message(1), message(2), message(2), notice);
  assert.deepEqual([row.unread, row.last_seq, row.member_count], [2, 3, 3]);
});

test("a message of one's own, from whichever device, tells of having read what came before", () => {
  const [, row] = inboxWith({ unread: 4, last_seq: 4 }, message(5), message(6, "alice"), message(7));
  assert.deepEqual([row.unread, row.my_status.last_read_seq], [1, 5]);
});

test("an older answer of the server takes back neither a message nor a read", () => {
  const [inbox, row] = inboxWith({}, message(1), message(2));
  inbox.learn(line({ last_seq: 1, unread: 1 }));
  assert.deepEqual([row.unread, row.last_seq], [2, 2]);
  inbox.readHere(row, 2);
  inbox.takeMessage(message(3));
  inbox.learn(line({ last_seq: 2, unread: 2 }));
  assert.deepEqual([row.unread, row.my_status.last_read_seq], [1, 2]);
});

test("what another device read is no longer unread; where the frame does not say how much is left, the server is asked", () => {
  const [inbox, row] = inboxWith({}, message(1), message(2), message(3));
  const own = { conversation_id: "d1", user_id: "alice", last_delivered_seq: 3 };
  const status = (last_read_seq, unread) => inbox.takeStatus({ ...own, last_read_seq, unread }, []);
  assert.equal(status(1), false);
  assert.equal(status(2, 1), true);
  assert.equal(row.unread, 1);
  assert.equal(status(3), true);
  assert.equal(row.unread, 0);
});

test("the device has only what came without a gap", () => {
  const [inbox, row] = inboxWith({ first_seq: 5 });
  assert.equal(inbox.have(row, 5), true);
  assert.equal(inbox.have(row, 7), false);
  assert.equal(row.have_seq, 5);
  assert.equal(inbox.have(row, 6) && inbox.have(row, 7), true);
});

test("the others' boundaries never go back", () => {
  const [inbox, row] = inboxWith({});
  inbox.takeStatus({ conversation_id: "d1", user_id: "bob", last_delivered_seq: 9, last_read_seq: 7 }, []);
  inbox.takeStatus({ conversation_id: "d1", user_id: "bob", last_delivered_seq: 8, last_read_seq: 8 }, []);
  assert.deepEqual(row.peer_status, { last_delivered_seq: 9, last_read_seq: 8 });
});

test("pinned first, then the latest; archived apart", () => {
  const archived = true;
  const pinned = true;
  const facts = [["a", 3], ["b", 1, { pinned }], ["c", 9], ["d", 20, { archived, pinned }], ["e", 30, { archived }]];
  const lines = facts.map(([conversation_id, last_at, set]) => line({ conversation_id, last_at, ...set }));
  const inbox = new Inbox("alice", lines);
  const order = (archived) => inbox.sorted(archived).map(({ conversation_id }) => conversation_id).join("");
  assert.deepEqual([order(false), order(true)], ["bca", "ed"]);
});
