// The dialog that creates a group: its name and its members.

import { createSignal } from "solid-js";
import { t } from "../i18n/index.ts";
import { useChat } from "../state/chat.ts";
import { messageOf } from "../state/load.ts";
import { Dialog } from "./Dialog.tsx";
import { PeoplePicker } from "./PeoplePicker.tsx";

export function NewGroup(props: { onClose(): void }) {
  const chat = useChat();
  const [title, setTitle] = createSignal("");
  const [members, setMembers] = createSignal<string[]>([]);
  const [error, setError] = createSignal("");
  const [isBusy, setBusy] = createSignal(false);

  async function create(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      const { id } = await chat.client.createGroup(title().trim(), members());
      props.onClose();
      chat.go(id);
    } catch (failure) {
      setError(messageOf(failure));
    }
    setBusy(false);
  }

  return (
    <Dialog title={t("newGroup")} onClose={() => props.onClose()}>
      <form onSubmit={(event) => void create(event)}>
        <label class="field">
          <span>{t("groupName")}</span>
          <input value={title()} onInput={(event) => setTitle(event.currentTarget.value)} autocomplete="off" dir="auto" required maxlength="128" autofocus />
        </label>
        <PeoplePicker label={t("addMembers")} chosen={members()} onChange={setMembers} />
        <p class="error" role="alert">{error()}</p>
        <div class="buttons end">
          <button type="submit" class="button primary" disabled={isBusy() || title().trim() === ""}>{t("createGroup")}</button>
        </div>
      </form>
    </Dialog>
  );
}
