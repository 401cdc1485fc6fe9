// One's own name, what others may see, how the page looks, and the way out.

import { For, createSignal } from "solid-js";
import { useChat } from "../state/chat.ts";
import { messageOf } from "../state/load.ts";
import { applyTheme, loadTheme, type Theme } from "../storage.ts";
import { Switcher } from "./Details.tsx";
import { Dialog } from "./Dialog.tsx";

const THEMES: [Theme, string][] = [["system", "System"], ["light", "Light"], ["dark", "Dark"]];

export function SettingsDialog(props: { onClose(): void; onHelp(): void; onLogOut(): void }) {
  const chat = useChat();
  const [theme, setTheme] = createSignal(loadTheme());
  const [error, setError] = createSignal("");
  const [note, setNote] = createSignal("");
  const [isWarned, setWarned] = createSignal(false);
  const profile = () => chat.profile();

  async function change(wanted: { showPresence?: boolean; displayName?: string }): Promise<void> {
    setError("");
    try {
      await chat.client.updateMe(wanted);
      if (wanted.displayName) setNote("Saved.");
    } catch (failure) {
      setError(messageOf(failure));
    }
  }

  function saveName(event: SubmitEvent): void {
    event.preventDefault();
    const name = String(new FormData(event.currentTarget as HTMLFormElement).get("display_name")).trim();
    if (name) void change({ displayName: name });
  }

  return (
    <Dialog title="Settings" onClose={() => props.onClose()}>
      <form class="inline" onSubmit={saveName}>
        <label class="field">
          <span>Your name</span>
          <input name="display_name" autocomplete="name" dir="auto" maxlength="128" value={profile()?.displayName ?? ""} placeholder={chat.me} />
        </label>
        <button type="submit" class="button">Save</button>
      </form>
      <p class="hint">Your user ID is <strong>{chat.me}</strong>. <span role="status">{note()}</span></p>
      <p class="error" role="alert">{error()}</p>
      <Switcher label="Show last seen and online" on={profile()?.showPresence ?? true} onChange={(showPresence) => change({ showPresence })} />
      <fieldset class="segments">
        <legend>Appearance</legend>
        <For each={THEMES}>
          {([value, label]) => (
            <label>
              <input type="radio" name="theme" value={value} checked={theme() === value} onChange={() => { setTheme(value); applyTheme(value); }} />
              <span>{label}</span>
            </label>
          )}
        </For>
      </fieldset>
      <div class="buttons">
        <button type="button" class="button" onClick={() => props.onHelp()}>Keyboard</button>
        <a class="button" href="/docs" target="_blank" rel="noopener">API</a>
        <button type="button" class="button danger" onClick={() => (chat.client.waitingCount > 0 && !isWarned() ? setWarned(true) : props.onLogOut())}>
          {isWarned() ? "Log out anyway" : "Log out"}
        </button>
      </div>
      <p class="error" role="alert">{isWarned() ? "Some messages have not been sent yet. Logging out deletes them." : ""}</p>
    </Dialog>
  );
}
