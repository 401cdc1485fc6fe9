// Draws the state. Everything that people wrote goes through textContent, so a message can never become markup.

import { clockTime, dayName, hueOf, noticeText, people, readNotice } from "./words.js";

export const byId = (id) => document.getElementById(id);

// Only on a change: a screen reader speaks what is set again.
function setText(id, text) {
  if (byId(id).textContent !== text) byId(id).textContent = text;
}

/** An element with properties and children, of which strings become text. */
export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const span = (className, ...children) => element("span", { className }, ...children);
const hiddenText = (text) => span("visually-hidden", text);

/** Makes `parent` show `items` in order, keeping the elements of those that look as they did. */
function reconcile(parent, items) {
  const looks = new Map(items.map(({ key, look }) => [key, look]));
  const kept = new Map();
  for (const child of [...parent.children]) {
    if (looks.get(child.dataset.key) === child.dataset.look) kept.set(child.dataset.key, child);
    else child.remove();
  }
  let place = parent.firstElementChild;
  for (const { key, look, make } of items) {
    const shown = kept.get(key) ?? make();
    Object.assign(shown.dataset, { key, look });
    if (shown === place) place = place.nextElementSibling;
    else parent.insertBefore(shown, place);
  }
}

// The list of conversations

const CONNECTION_WORDS = { online: "Online", connecting: "Connecting…", offline: "Offline, coming back…" };

export function drawList(chat) {
  const rows = chat.sortedRows();
  const unread = rows.filter((row) => row.headSeq > row.seenSeq);
  reconcile(byId("conversations"), rows.map((row) => {
    const isOpen = row.id === chat.open?.id;
    const isUnread = unread.includes(row);
    const when = dayName(row.lastAt) === "Today" ? clockTime(row.lastAt) : dayName(row.lastAt);
    const look = [row.title, row.preview, when, isOpen, isUnread].join("\n");
    return { key: row.id, look, make: () => drawRow(row, when, isOpen, isUnread) };
  }));
  byId("list-empty").hidden = rows.length > 0;
  setText("connection", CONNECTION_WORDS[chat.connectionState]);
  byId("connection").className = chat.connectionState;
  document.title = unread.length > 0 ? `(${unread.length}) Bluetick` : "Bluetick";
}

function drawRow({ id, title, preview }, when, isOpen, isUnread) {
  const picture = tinted(span("avatar", Array.from(title)[0].toUpperCase()), title);
  picture.ariaHidden = "true";
  const link = element("a", { href: `#${id}` }, picture, span("title", title), element("time", {}, when), span("preview", preview));
  if (isUnread) link.append(span("unread", hiddenText("New messages")));
  if (isOpen) link.setAttribute("aria-current", "true");
  return element("li", {}, link);
}

function tinted(made, name) {
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
  const row = chat.rows.get(open.id);
  setText("open-title", row?.title ?? "…");
  setText("open-subtitle", row?.kind === "group" ? people(row.memberCount) : "Direct chat");
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
  reconcile(byId("messages"), entries(chat, row?.kind === "group"));
  if (atEnd) scrollToEnd();
  // Older messages came in above: what one reads stays where it is.
  else if (last?.isConnected) scroller.scrollTop += last.offsetTop - lastTop;
  drawnTimeline = timeline;
}

export function scrollToEnd() {
  byId("scroller").scrollTop = byId("scroller").scrollHeight;
}

/** Messages with a line for each new day, then what waits in the outbox. */
function entries(chat, isGroup) {
  const list = [];
  let day = null;
  let speaker = null;
  const add = (message, sender, key, look, make) => {
    const name = dayName(message.received_at ?? message.timestamp);
    if (name !== day) {
      list.push({ key: `day of ${key}`, look: "", make: () => element("li", { className: "day" }, name) });
      speaker = null;
    }
    const isFirst = sender !== speaker;
    list.push({ key, look: `${look} ${isFirst}`, make: () => make(isFirst) });
    day = name;
    speaker = sender;
  };
  for (const message of chat.open.timeline.messages) {
    const { content_type, sender_id, message_id, seq } = message;
    const own = sender_id === chat.user;
    if (content_type === "system") {
      const text = noticeText(readNotice(message), chat.user);
      add(message, null, `seq ${seq}`, "", () => element("li", { className: "notice" }, text));
    } else {
      add(message, sender_id, own ? message_id : `seq ${seq}`, `sent ${isGroup}`, (isFirst) => drawMessage(message, own, isFirst, isGroup));
    }
  }
  for (const item of chat.outbox.items.values()) {
    if (item.conversation_id !== chat.open.id) continue;
    add(item, chat.user, item.message_id, `waiting ${item.failure}`, (isFirst) => drawMessage(item, true, isFirst, isGroup));
  }
  return list;
}

function drawMessage(message, own, isFirst, isGroup) {
  const { sender_id, content, timestamp, seq, failure } = message;
  const made = element("li", { className: `message ${own ? "own" : "other"} ${isFirst ? "first" : ""}` });
  if (isFirst && isGroup && !own) made.append(tinted(span("sender", sender_id), sender_id));
  else made.append(hiddenText(own ? "You: " : `${sender_id}: `));
  const meta = span("meta", clockTime(timestamp));
  if (own && !failure) meta.append(seq ? drawTick("sent", "Sent") : drawTick("waiting", "Waiting to be sent"));
  made.append(element("span", { className: "content", dir: "auto" }, content), meta);
  if (failure) made.append(drawFailure(message));
  return made;
}

function drawFailure({ failure, message_id }) {
  const button = (value, label) => element("button", { type: "button", name: message_id, value }, label);
  return span("failure", `Not sent: ${failure} `, button("retry", "Try again"), " ", button("discard", "Discard"));
}

function drawTick(name, label) {
  const [picture, use] = ["svg", "use"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
  use.setAttribute("href", `#icon-${name}`);
  picture.setAttribute("class", `tick ${name}`);
  picture.role = "img";
  picture.ariaLabel = label;
  picture.append(use);
  return picture;
}
