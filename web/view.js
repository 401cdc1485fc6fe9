// Draws the state. Everything that people wrote goes through textContent, so a message can never become markup.

import { tickState } from "./ticks.js";
import { clockTime, dayName, hueOf, noticeText, people, presenceText, readNotice, titleOf, typingText } from "./words.js";

export const byId = (id) => document.getElementById(id);

// Only on a change: a screen reader speaks what is set again.
export function setText(id, text) {
  if (byId(id).textContent !== text) byId(id).textContent = text;
}

/** An element with properties and children, of which strings become text. */
export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export const span = (className, ...children) => element("span", { className }, ...children);
export const hiddenText = (text) => span("visually-hidden", text);

/**
 * Makes `parent` show `items` in order, keeping the elements of those that look as they did. `update` brings the small
 * things up to date without making an element anew. The keyboard's place is kept.
 */
export function reconcile(parent, items) {
  const looks = new Map(items.map(({ key, look }) => [key, look]));
  const kept = new Map();
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const focusedKey = focused?.closest("li")?.dataset.key;
  for (const child of [...parent.children]) {
    if (looks.get(child.dataset.key) === child.dataset.look) kept.set(child.dataset.key, child);
    else child.remove();
  }
  let place = parent.firstElementChild;
  for (const { key, look, make, update } of items) {
    const shown = kept.get(key) ?? make();
    Object.assign(shown.dataset, { key, look });
    if (shown === place) place = place.nextElementSibling;
    else parent.insertBefore(shown, place);
    update?.(shown);
    if (key === focusedKey && !shown.contains(document.activeElement)) {
      shown.querySelector(focused.localName)?.focus({ preventScroll: true });
    }
  }
}

export function tinted(made, name) {
  made.style.setProperty("--hue", hueOf(name));
  return made;
}

// The open conversation

let drawnTimeline = null;

export function drawOpen(chat) {
  const { open } = chat;
  byId("nothing-open").hidden = open !== null;
  byId("open-chat").hidden = open === null;
  document.body.classList.toggle("chat-open", open !== null);
  if (!open) return;
  const { timeline, error } = open;
  const row = chat.openRow;
  setText("open-title", row ? titleOf(row, chat.user) : "…");
  setText("open-subtitle", row ? subtitle(chat, row) : "");
  byId("load-older").hidden = timeline.olderCursor === null;
  byId("load-older").disabled = open.busy;
  byId("open-error").hidden = error === null;
  setText("open-error-text", error ?? "");

  const scroller = byId("scroller");
  const fromEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
  const atEnd = drawnTimeline !== timeline || fromEnd < 60;
  if (atEnd) timeline.trim();
  const last = byId("messages").lastElementChild;
  const lastTop = last?.offsetTop;
  reconcile(byId("messages"), entries(chat, row));
  if (atEnd) scrollToEnd();
  // Older messages came in above: what one reads stays where it is.
  else if (last?.isConnected) scroller.scrollTop += last.offsetTop - lastTop;
  drawnTimeline = timeline;
}

function subtitle(chat, { conversation_id, kind, member_count, peer }) {
  const typists = chat.signals.typists(conversation_id);
  if (typists.length > 0) return typingText(typists);
  return kind === "group" ? people(member_count) : presenceText(chat.signals.presenceOf(peer)) || "Direct chat";
}

export function scrollToEnd() {
  byId("scroller").scrollTop = byId("scroller").scrollHeight;
}

/** Messages with a line for each new day, then what waits in the outbox. */
function entries(chat, row) {
  const isGroup = row?.kind === "group";
  const list = [];
  let day = null;
  let speaker = null;
  const add = (message, sender, key, look, make, update) => {
    const name = dayName(message.received_at ?? message.timestamp);
    if (name !== day) {
      list.push({ key: `day of ${key}`, look: "", make: () => element("li", { className: "day" }, name) });
      speaker = null;
    }
    const isFirst = sender !== speaker;
    list.push({ key, look: `${look} ${isFirst}`, make: () => make(isFirst), update });
    day = name;
    speaker = sender;
  };
  const addOwn = (key, message, tick) => {
    const make = (isFirst) => drawMessage(message, true, isFirst, isGroup);
    add(message, chat.user, key, `${message.failure ?? ""} ${isGroup}`, make, (made) => updateTick(made, tick, message.seq));
  };
  for (const message of chat.open.timeline.messages) {
    const { content_type, sender_id, message_id, seq } = message;
    if (content_type === "void") continue;
    if (content_type === "system") {
      const text = noticeText(readNotice(message), chat.user);
      add(message, null, `seq ${seq}`, "", () => element("li", { className: "notice" }, text));
    } else if (sender_id === chat.user) {
      addOwn(message_id, message, tickOf(row, seq));
    } else {
      add(message, sender_id, `seq ${seq}`, isGroup, (isFirst) => drawMessage(message, false, isFirst, isGroup));
    }
  }
  for (const item of chat.outbox.items.values()) {
    if (item.conversation_id === chat.open.id) addOwn(item.message_id, item, "waiting");
  }
  return list;
}

export function tickOf(row, seq) {
  const { last_delivered_seq, last_read_seq } = row?.peer_status ?? {};
  return tickState(seq, last_delivered_seq ?? 0, last_read_seq ?? 0);
}

function drawMessage(message, own, isFirst, isGroup) {
  const { sender_id, content, timestamp, failure } = message;
  const made = element("li", { className: `message ${own ? "own" : "other"} ${isFirst ? "first" : ""}` });
  if (isFirst && isGroup && !own) made.append(tinted(span("sender", sender_id), sender_id));
  else made.append(hiddenText(own ? "You: " : `${sender_id}: `));
  const meta = span("meta", clockTime(timestamp));
  const tick = drawTick("waiting");
  if (own && !failure) meta.append(isGroup ? element("button", { type: "button", value: "receipts", disabled: true }, tick) : tick);
  made.append(element("span", { className: "content", dir: "auto" }, content), meta);
  if (failure) made.append(drawFailure(message));
  return made;
}

function drawFailure({ failure, message_id }) {
  const button = (value, label) => element("button", { type: "button", name: message_id, value }, label);
  return span("failure", `Not sent: ${failure} `, button("retry", "Try again"), " ", button("discard", "Discard"));
}

const TICK_WORDS = { waiting: "Waiting to be sent", sent: "Sent", delivered: "Delivered", read: "Read" };

export function drawIcon(name, label) {
  const [picture, use] = ["svg", "use"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
  picture.role = "img";
  picture.append(use);
  setIcon(picture, name, label);
  return picture;
}

function setIcon(picture, name, label) {
  picture.ariaLabel = label;
  picture.setAttribute("class", `icon ${name}`);
  picture.firstChild.setAttribute("href", `#icon-${name === "read" ? "delivered" : name}`);
}

export const drawTick = (tick) => drawIcon(tick, TICK_WORDS[tick]);

/** In place: a message made anew would be spoken again. */
function updateTick(parent, tick, seq) {
  const picture = parent.querySelector(".icon");
  if (!picture || picture.ariaLabel === TICK_WORDS[tick]) return;
  setIcon(picture, tick, TICK_WORDS[tick]);
  const button = picture.closest("button");
  if (button) Object.assign(button, { name: seq, disabled: false, title: "Who has read it?" });
}
