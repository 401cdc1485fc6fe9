// The entry: log-in and log-out, which conversation the address names, and the wiring of events to the chat.

import { logIn, signUp } from "./api.js";
import { Chat } from "./chat.js";
import { onSubmit, setUpDialogs } from "./dialogs.js";
import { drawList, setUpList } from "./list.js";
import { clearSession, keyFor, loadSession, remove, saveSession } from "./storage.js";
import { byId, drawOpen, scrollToEnd } from "./view.js";

const draft = byId("draft");
/** By conversation, so that nothing half written goes to somebody else. */
const drafts = new Map();
let chat = null;
let session = null;

// Log-in

function showGate(note) {
  byId("chat").hidden = true;
  byId("gate").hidden = false;
  byId("gate-note").textContent = note;
  const { user_id, password } = byId("gate-form").elements;
  user_id.value = session?.user_id ?? "";
  (session ? password : user_id).focus();
}

function endSession(note) {
  chat.stop();
  chat = null;
  clearSession(session);
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  document.title = "Bluetick";
  showGate(note);
}

function startSession(started) {
  // Another user starts without what the one before had open and half written.
  if (session && session.user_id !== started.user_id) {
    history.replaceState(null, "", "#");
    drafts.clear();
    draft.value = "";
  }
  session = started;
  byId("gate").hidden = true;
  byId("chat").hidden = false;
  byId("my-id").textContent = session.user_id;
  const mine = new Chat(session, {
    onChange: draw,
    onTrouble: toast,
    // A late answer to an earlier log-in must not end this one.
    onExpired: () => chat === mine && endSession("Your log-in has expired. Log in again; what you wrote is kept."),
    onGone: (id) => addressed() === id && history.replaceState(null, "", "#"),
  });
  chat = mine;
  followAddress();
}

onSubmit(byId("gate-form"), async ({ user_id, password }, call) => {
  const answer = await (call === "signup" ? signUp : logIn)(user_id.trim(), password);
  saveSession(answer);
  startSession(answer);
});

byId("log-out").onclick = () => {
  endSession("");
  // Whoever comes next to this browser finds nothing to read.
  remove(keyFor("inbox", session.user_id));
};

// Which conversation is open is in the address, so that back, reload and bookmarks work.

const addressed = () => location.hash.match(/^#(\w+)$/)?.[1] ?? "";

function followAddress() {
  if (!chat) return;
  drafts.set(draft.name, draft.value);
  draft.name = addressed();
  draft.value = drafts.get(draft.name) ?? "";
  chat.openConversation(draft.name);
  // What is not shown yet has no height and takes no focus.
  drawNow();
  draft.oninput();
  if (matchMedia("(pointer: fine)").matches) draft.focus();
}

addEventListener("hashchange", followAddress);

// Many changes in one moment, such as a backlog, become one drawing. Not an animation frame: those pause in hidden
// tabs, whose title still has to tell of news.

const DRAW_AFTER_MS = 16;
let drawing = null;

function draw() {
  drawing ??= setTimeout(drawNow, DRAW_AFTER_MS);
}

function drawNow() {
  clearTimeout(drawing);
  drawing = null;
  if (!chat) return;
  if (document.visibilityState === "visible") chat.markSeen();
  drawList(chat);
  drawOpen(chat);
}

document.addEventListener("visibilitychange", draw);

let toastTimer = null;

function toast(text) {
  byId("toast").textContent = text;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => (byId("toast").textContent = ""), 6_000);
}

// Writing

/** The field grows with what is written, up to a limit set in the style sheet. */
draft.oninput = (event) => {
  draft.style.height = "auto";
  draft.style.height = `${draft.scrollHeight + 2}px`;
  if (event && draft.value.trim() !== "") chat?.composing();
};

draft.onkeydown = (event) => {
  // While an input method composes, Enter chooses a word.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("composer").requestSubmit();
};

byId("composer").onsubmit = (event) => {
  event.preventDefault();
  if (draft.value.trim() === "" || !chat?.open || !chat.send(draft.value)) return;
  draft.value = "";
  draft.oninput();
  draft.focus();
  drawNow();
  scrollToEnd();
};

byId("messages").onclick = ({ target }) => {
  const { name, value } = target.closest("button") ?? {};
  if (value === "receipts") chat.tellReceipts(name);
  else if (name) chat.resolveFailure(name, value);
};

byId("load-older").onclick = () => chat.loadOlder();
byId("try-again").onclick = () => chat.loadNewest();

setUpList(() => chat, toast);
setUpDialogs(
  () => chat,
  (id) => (location.hash = id),
);

const remembered = loadSession();
if (remembered) startSession(remembered);
else showGate("");
