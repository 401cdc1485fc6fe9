// The forms: logging in, starting a conversation, the details of one with its members, and the user's own settings.

import { byId, element } from "./view.js";
import { people, titleOf } from "./words.js";

/** Runs `work` on submit, with the form's buttons off meanwhile, and shows beside it why it failed. */
export function onSubmit(form, work) {
  const errorLine = form.parentElement.querySelector(".error");
  form.onsubmit = async (event) => {
    event.preventDefault();
    const enable = (enabled) => {
      for (const button of form.querySelectorAll("button")) button.disabled = !enabled;
    };
    errorLine.textContent = "";
    enable(false);
    try {
      await work(Object.fromEntries(new FormData(form)), event.submitter?.value);
      form.reset();
    } catch (error) {
      errorLine.textContent = error.message;
    }
    enable(true);
  };
}

/** `currentChat()` is the chat of whoever is logged in; `show(id)` opens a conversation. */
export function setUpDialogs(currentChat, show) {
  const newChat = byId("new-chat-dialog");
  const details = byId("details-dialog");
  const settings = byId("settings-dialog");
  const started = ({ conversation_id }) => {
    newChat.close();
    show(conversation_id);
  };
  const drawDetails = async () => {
    const chat = currentChat();
    const conversation = await chat.api.conversation(chat.open.id);
    byId("details-title").textContent = titleOf(conversation, chat.user);
    byId("details-facts").textContent = `${people(conversation.member_count)} · conversation ${conversation.conversation_id}`;
    byId("read-receipts").checked = conversation.read_receipts;
    const line = ({ user_id, role }) => element("li", {}, user_id, role === "admin" ? " (admin)" : "");
    byId("members").replaceChildren(...conversation.members.map(line));
    byId("group-actions").hidden = conversation.kind !== "group";
  };

  byId("new-chat").onclick = () => newChat.showModal();
  onSubmit(byId("direct-form"), async ({ peer }) => started(await currentChat().api.startDirect(peer.trim())));
  onSubmit(byId("group-form"), async ({ title, members }) => {
    const others = members.split(/[\s,;]+/).filter(Boolean);
    started(await currentChat().api.startGroup(title, others));
  });

  const attempt = async (work) => {
    try {
      await work();
      return true;
    } catch (error) {
      currentChat()?.handlers.onTrouble(error.message);
      return false;
    }
  };
  const onSwitch = (box, change) => {
    // What could not be set is not shown as set.
    box.onchange = async () => {
      if (!(await attempt(() => change(box.checked)))) box.checked = !box.checked;
    };
  };

  byId("show-details").onclick = async () => {
    if (await attempt(drawDetails)) details.showModal();
  };
  onSwitch(byId("read-receipts"), (read_receipts) => currentChat().set(currentChat().open.id, { read_receipts }));

  byId("show-settings").onclick = () =>
    attempt(async () => {
      byId("show-presence").checked = (await currentChat().api.profile()).show_presence;
      settings.showModal();
    });
  onSwitch(byId("show-presence"), (show_presence) => currentChat().api.setProfile({ show_presence }));

  onSubmit(byId("add-member-form"), async ({ user_id }) => {
    const { api, open } = currentChat();
    await api.addMember(open.id, user_id.trim());
    await drawDetails();
  });
  onSubmit(byId("leave-form"), async () => {
    const chat = currentChat();
    const { id } = chat.open;
    if (!confirm("Leave this group? You will no longer see its messages.")) return;
    await chat.api.removeMember(id, chat.user);
    details.close();
    chat.forget(id, "You left the group.");
  });
}
