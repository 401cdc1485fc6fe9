// The settings: name, presence, theme, language and log-out.

import { For, createSignal } from "solid-js";
import { parts, t, useLanguage, type LanguageChoice } from "../i18n/index.ts";
import { LANGUAGES, type LanguageCode } from "../i18n/languages.ts";
import { useChat } from "../state/chat.ts";
import { messageOf } from "../state/load.ts";
import { applyTheme, loadLanguageChoice, loadTheme, saveLanguageChoice } from "../storage.ts";
import { Switcher } from "./Details.tsx";
import { Dialog } from "./Dialog.tsx";

const THEMES = [["system", "themeSystem"], ["light", "themeLight"], ["dark", "themeDark"]] as const;
const LANGUAGE_NAMES = Object.entries(LANGUAGES) as [LanguageCode, { name: string }][];

export function SettingsDialog(props: { onClose(): void; onHelp(): void; onLogOut(): void }) {
  const chat = useChat();
  const [theme, setTheme] = createSignal(loadTheme());
  const [language, setLanguage] = createSignal(loadLanguageChoice());
  const [error, setError] = createSignal("");
  const [isSaved, setSaved] = createSignal(false);
  const [isWarned, setWarned] = createSignal(false);
  const profile = () => chat.profile();

  async function change(wanted: { showPresence?: boolean; displayName?: string }): Promise<void> {
    setError("");
    setSaved(false);
    try {
      await chat.client.updateMe(wanted);
      if (wanted.displayName) setSaved(true);
    } catch (failure) {
      setError(messageOf(failure));
    }
  }

  function saveName(event: SubmitEvent): void {
    event.preventDefault();
    const name = String(new FormData(event.currentTarget as HTMLFormElement).get("display_name")).trim();
    if (name) void change({ displayName: name });
  }

  function chooseLanguage(choice: LanguageChoice): void {
    setLanguage(choice);
    saveLanguageChoice(choice);
    void useLanguage(choice);
  }

  return (
    <Dialog title={t("settings")} onClose={() => props.onClose()}>
      <form class="inline" onSubmit={saveName}>
        <label class="field">
          <span>{t("yourName")}</span>
          <input name="display_name" autocomplete="name" dir="auto" maxlength="128" value={profile()?.displayName ?? ""} placeholder={chat.me} />
        </label>
        <button type="submit" class="button">{t("save")}</button>
      </form>
      <p class="hint">{parts("yourUserId", { user: <strong><bdi>{chat.me}</bdi></strong> })} <span role="status">{isSaved() ? t("saved") : ""}</span></p>
      <p class="error" role="alert">{error()}</p>
      <Switcher label={t("showPresence")} on={profile()?.showPresence ?? true} onChange={(showPresence) => change({ showPresence })} />
      <fieldset class="segments">
        <legend>{t("theme")}</legend>
        <For each={THEMES}>
          {([value, label]) => (
            <label>
              <input type="radio" name="theme" value={value} checked={theme() === value} onChange={() => { setTheme(value); applyTheme(value); }} />
              <span>{t(label)}</span>
            </label>
          )}
        </For>
      </fieldset>
      <label class="field">
        <span>{t("language")}</span>
        <select value={language()} onChange={(event) => chooseLanguage(event.currentTarget.value as LanguageChoice)}>
          <option value="automatic">{t("languageAutomatic")}</option>
          <For each={LANGUAGE_NAMES}>{([code, { name }]) => <option value={code} lang={code}>{name}</option>}</For>
        </select>
      </label>
      <div class="buttons">
        <button type="button" class="button shortcuts" onClick={() => props.onHelp()}>{t("shortcuts")}</button>
        <a class="button" href="/docs" target="_blank" rel="noopener">{t("apiDocs")}</a>
        <button type="button" class="button danger" onClick={() => (chat.client.waitingCount > 0 && !isWarned() ? setWarned(true) : props.onLogOut())}>
          {isWarned() ? t("logOutAnyway") : t("logOut")}
        </button>
      </div>
      <p class="error" role="alert">{isWarned() ? t("logOutWarning") : ""}</p>
    </Dialog>
  );
}
