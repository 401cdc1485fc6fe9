// The list of conversations: lines of the server's inbox, under the names the server gives their fields, and the rules
// by which frames move them on until the server is asked again. It fetches and draws nothing.

import { readNotice } from "./words.js";

const MEMBERS_CHANGE = { member_added: 1, member_removed: -1, member_left: -1 };
/** How many of the latest arrivals are remembered; a late answer of the server is older than these at most. */
const ARRIVALS = 100;
/** Of larger groups the server tells by itself how far all have come. */
export const SMALL_GROUP = 64;

/** Boundaries only move forward. */
const furthest = (one, other) => ({
  last_delivered_seq: Math.max(one.last_delivered_seq, other.last_delivered_seq),
  last_read_seq: Math.max(one.last_read_seq, other.last_read_seq),
});

export class Inbox {
  /** A line has two fields more: `have_seq`, up to which this device has everything, and `arrived`, what it counted itself. */
  rows = new Map();

  constructor(user, lines = []) {
    this.user = user;
    for (const line of lines) this.learn(line);
  }

  /** In the server's order. */
  sorted(archived) {
    const order = (one, other) =>
      (archived ? 0 : other.pinned - one.pinned) ||
      other.last_at - one.last_at ||
      (one.conversation_id < other.conversation_id ? -1 : 1);
    return [...this.rows.values()].filter((row) => row.archived === archived).sort(order);
  }

  /** The server's word about a conversation. Frames may have overtaken it. */
  learn(entry) {
    const { conversation_id, first_seq, my_status, last_seq } = entry;
    const known = this.rows.get(conversation_id);
    const before = known ? { ...known } : { ...entry, last_seq: -1, arrived: [] };
    const row = Object.assign(known ?? {}, entry);
    if (before.last_seq > last_seq) {
      const { last_seq, last_at, last_message, member_count } = before;
      Object.assign(row, { last_seq, last_at, last_message, member_count });
    }
    row.have_seq = Math.max(before.have_seq ?? my_status.last_delivered_seq, first_seq - 1);
    row.my_status = furthest(before.my_status, my_status);
    row.peer_status = furthest(before.peer_status, entry.peer_status);
    row.arrived = before.arrived.filter((seq) => seq > Math.max(last_seq, row.my_status.last_read_seq));
    // What was read here and is not with the server yet was all there was.
    const base = row.my_status.last_read_seq > my_status.last_read_seq ? 0 : entry.unread;
    row.unread = base + row.arrived.length;
    this.rows.set(conversation_id, row);
    return row;
  }

  /** Undefined when the conversation is not known here. */
  takeMessage(message) {
    const { conversation_id, seq, sender_id, received_at, content_type } = message;
    const row = this.rows.get(conversation_id);
    if (!row || seq <= row.last_seq) return row;
    const notice = readNotice(message);
    const last_message = { ...message, content: message.content.slice(0, 1_000) };
    Object.assign(row, { last_seq: seq, last_at: received_at, last_message });
    if (notice) {
      row.member_count += MEMBERS_CHANGE[notice.event] ?? 0;
    } else if (sender_id === this.user) {
      // A reply tells of having read what came before it.
      this.#read(row, seq - 1, seq);
    } else if (content_type !== "void") {
      row.unread += 1;
      row.arrived = [...row.arrived.slice(1 - ARRIVALS), seq];
    }
    return row;
  }

  /** Notes that this device has a message. False when something before it is missing. */
  have(row, seq) {
    if (seq === row.have_seq + 1) row.have_seq = seq;
    return seq <= row.have_seq;
  }

  /** The person has read everything up to `seq` here. False when that is no news. */
  readHere(row, seq) {
    if (seq <= row.my_status.last_read_seq) return false;
    this.#read(row, seq, seq);
    row.have_seq = Math.max(row.have_seq, seq);
    return true;
  }

  #read(row, seq, counted) {
    row.my_status = furthest(row.my_status, { last_delivered_seq: seq, last_read_seq: seq });
    row.arrived = row.arrived.filter((arrived) => arrived > counted);
    row.unread = row.arrived.length;
  }

  /**
   * Somebody has come further. False when the frame does not say enough and the server is to be asked. `held`: the
   * messages of the conversation that are here.
   */
  takeStatus({ conversation_id, user_id, unread, ...status }, held) {
    const row = this.rows.get(conversation_id);
    if (!row) return true;
    if (user_id === this.user) {
      const isNews = status.last_read_seq > row.my_status.last_read_seq;
      const isAll = status.last_read_seq >= row.last_seq;
      row.my_status = furthest(row.my_status, status);
      if (!isNews) return true;
      row.unread = isAll ? 0 : (unread ?? row.unread);
      row.arrived = [];
      return isAll || Number.isInteger(unread);
    }
    if (row.kind === "group") {
      // Only the server knows who is furthest behind, and it matters only where a tick can still change.
      const isWaiting = ({ sender_id, seq }) => sender_id === this.user && seq > row.peer_status.last_read_seq;
      return row.member_count > SMALL_GROUP || ![row.last_message ?? {}, ...held].some(isWaiting);
    }
    row.peer_status = furthest(row.peer_status, status);
    return true;
  }

  /** How far all others of a group have come. */
  takeReceipts({ conversation_id, ...receipts }) {
    const row = this.rows.get(conversation_id);
    if (row) row.peer_status = furthest(row.peer_status, receipts);
  }
}
