// Draws the list of conversations, with the archived ones folded away, and the small menu of each.

import { byId, drawIcon, drawTick, element, hiddenText, reconcile, setText, span, tickOf, tinted } from "./view.js";
import { moment, previewOf, titleOf, typingText } from "./words.js";

const CONNECTION_WORDS = { online: "Online", connecting: "Connecting…", offline: "Offline, coming back…" };
/** So close to the end of the list, the next page is fetched. */
const NEAR_END_PX = 400;

const list = byId("list");
const menu = byId("row-menu");

export function drawList(chat) {
  const shown = chat.inbox.sorted(false);
  const archived = chat.inbox.sorted(true);
  reconcile(byId("conversations"), shown.map((row) => line(chat, row)));
  reconcile(byId("archived-list"), archived.map((row) => line(chat, row)));
  byId("archived").hidden = archived.length === 0;
  setText("archived-count", `Archived (${archived.length}${chat.sync.hasMore(true) ? "+" : ""})`);
  byId("list-empty").hidden = shown.length + archived.length > 0;
  setText("connection", CONNECTION_WORDS[chat.connectionState]);
  byId("connection").className = chat.connectionState;
  const unread = shown.filter((row) => row.unread > 0 && !row.muted).length;
  document.title = unread > 0 ? `(${unread}) Bluetick` : "Bluetick";
  loadNear(chat);
}

/** Pages follow as the person comes near the end of what is shown. */
export function loadNear(chat) {
  if (list.scrollHeight - list.scrollTop - list.clientHeight > NEAR_END_PX) return;
  if (chat.sync.hasMore(false)) chat.sync.loadMore(false);
  else if (byId("archived").open) chat.sync.loadMore(true);
}

function line(chat, row) {
  const { conversation_id: key, unread, pinned, muted, last_message } = row;
  const isOpen = key === chat.open?.id;
  const title = titleOf(row, chat.user);
  const typists = chat.signals.typists(key);
  const preview = typists.length > 0 ? typingText(typists) : previewOf(row, chat.user);
  const when = moment(row.last_at);
  const isOwn = last_message?.sender_id === chat.user && last_message.content_type !== "system" && typists.length === 0;
  const tick = isOwn && tickOf(row, last_message.seq);
  const facts = { key, title, preview, when, isOpen, unread, pinned, muted, tick };
  return { key, look: Object.values(facts).join("\n"), make: () => drawRow(facts) };
}

function drawRow({ key, title, preview, when, isOpen, unread, pinned, muted, tick }) {
  const picture = tinted(span("avatar", Array.from(title)[0].toUpperCase()), title);
  picture.ariaHidden = "true";
  const marks = span("marks");
  if (muted) marks.append(drawIcon("muted", "Muted"));
  if (pinned) marks.append(drawIcon("pinned", "Pinned"));
  if (unread > 0) marks.append(span("unread", unread > 99 ? "99+" : `${unread}`, hiddenText(" unread")));
  const words = span("preview", ...(tick ? [drawTick(tick), " "] : []), preview);
  const link = element("a", { href: `#${key}` }, picture, span("title", title), element("time", {}, when), words, marks);
  if (isOpen) link.setAttribute("aria-current", "true");
  const button = element("button", { type: "button", className: "more", value: key, ariaLabel: `Options for ${title}` }, "⋮");
  button.ariaHasPopup = "dialog";
  return element("li", { className: muted ? "muted" : "" }, link, button);
}

/** `currentChat()` is the chat of whoever is logged in; `onTrouble(text)` hears what did not work. */
export function setUpList(currentChat, onTrouble) {
  const loadMore = () => currentChat() && loadNear(currentChat());
  list.onscroll = loadMore;
  byId("archived").ontoggle = loadMore;
  list.onclick = ({ target }) => {
    const row = currentChat()?.inbox.rows.get(target.value);
    if (target.className !== "more" || !row) return;
    menu.dataset.of = target.value;
    for (const button of menu.children) {
      const { on, off } = button.dataset;
      button.textContent = row[button.value] ? off : on;
    }
    const { bottom, right } = target.getBoundingClientRect();
    menu.showPopover();
    menu.style.left = `${Math.max(8, right - menu.offsetWidth)}px`;
    menu.style.top = `${Math.min(bottom, innerHeight - menu.offsetHeight - 8)}px`;
    menu.firstElementChild.focus();
  };
  menu.onclick = async ({ target }) => {
    const { of: id } = menu.dataset;
    if (!target.value) return;
    menu.hidePopover();
    const chat = currentChat();
    try {
      await chat.set(id, { [target.value]: !chat.inbox.rows.get(id)?.[target.value] });
    } catch (error) {
      onTrouble(error.message);
    }
  };
}
