// The log-in screen: a form to log in, and one to create an account where the server allows that.

import { logIn, serverOffer, signUp, type Session } from "@bluetick/client";
import { Show, createSignal, onMount } from "solid-js";
import { t } from "../i18n/index.ts";
import { fieldProblemOf, messageOf, type FieldProblem } from "../state/load.ts";
import type { EndReason } from "../storage.ts";

type Mode = "login" | "signup";

/** The texts for the reasons why a session ended. */
const REASONS = { expired: "sessionExpired", revoked: "sessionRevoked", wrong_user: "sessionOfOtherUser" } as const;

interface LogInScreenProps {
  /** Why the last session ended; null after a log-out and on a first visit. */
  reason: EndReason | null;
  userId: string;
  onSession(session: Session): void;
}

export function LogInScreen(props: LogInScreenProps) {
  const [mode, setMode] = createSignal<Mode>("login");
  const [canSignUp, setCanSignUp] = createSignal(false);
  const [canLogIn, setCanLogIn] = createSignal(true);
  const [minLength, setMinLength] = createSignal(8);
  const [isShown, setShown] = createSignal(false);
  const [isBusy, setBusy] = createSignal(false);
  const [failure, setFailure] = createSignal<unknown>(null);
  /** The texts of the fields that the page itself refuses. */
  const [refused, setRefused] = createSignal<Readonly<Record<string, (() => string) | undefined>>>({});
  let form!: HTMLFormElement;
  const isSignUp = () => mode() === "signup";
  const focus = (field: string) => form.querySelector<HTMLInputElement>(`[name=${field}]`)?.focus();
  /** The server's refusal of one field. Its text is below the field. */
  const problem = (): FieldProblem | null => (failure() === null ? null : fieldProblemOf(failure()));
  const error = () => (failure() === null || problem() ? "" : messageOf(failure()));

  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const fields = new FormData(form);
    const text = (name: string) => String(fields.get(name) ?? "");
    const userId = text("user_id").trim();
    const password = text("password");
    const displayName = text("display_name").trim();
    setFailure(null);
    setRefused(check(userId, password));
    const [wrong] = Object.keys(refused());
    if (wrong) return focus(wrong);
    setBusy(true);
    try {
      const account = { userId, password };
      props.onSession(await (isSignUp() ? signUp(location.origin, displayName ? { ...account, displayName } : account) : logIn(location.origin, account)));
    } catch (error) {
      if ((error as { code?: string }).code === "signup_disabled") {
        setCanSignUp(false);
        setMode("login");
      }
      setFailure(error);
      focus(problem()?.field ?? "password");
    }
    setBusy(false);
  }

  /** The page checks the fields itself, because the browser has its own texts and language. */
  function check(userId: string, password: string): Record<string, () => string> {
    const found: Record<string, () => string> = {};
    if (!userId) found.user_id = () => t("userIdMissing");
    else if (/\s/u.test(userId)) found.user_id = () => t("noSpaces");
    if (!password) found.password = () => t("passwordMissing");
    else if (isSignUp() && password.length < minLength()) found.password = () => t("passwordHint", { count: minLength() });
    return found;
  }

  /** Removes the error of a field that the user corrects. */
  function onInput(event: InputEvent): void {
    const { name } = event.target as HTMLInputElement;
    setRefused({ ...refused(), [name]: undefined });
    if (problem()?.field === name) setFailure(null);
  }

  function switchTo(chosen: Mode): void {
    setMode(chosen);
    setFailure(null);
    setRefused({});
    focus("user_id");
  }

  async function loadOffer(): Promise<void> {
    try {
      const offer = await serverOffer(location.origin);
      setCanSignUp(offer.canSignUp);
      setCanLogIn(offer.canLogIn);
      setMinLength(offer.passwordMinLength);
    } catch {
      // The server is unreachable. It refuses a sign-up itself when sign-up is closed.
      setCanSignUp(true);
    }
  }
  void loadOffer();

  const problemOf = (field: string) => refused()[field]?.() ?? (problem()?.field === field ? problem()?.text : undefined);
  const Problem = (of: { field: string }) => <Show when={problemOf(of.field)}>{(text) => <span class="field-error" id={`${of.field}-error`} role="alert">{text()}</span>}</Show>;
  // Screen readers read the problem with its field. Attributes are set one by one, because
  // spreading them on an element adds 2 kB to the first load.
  const isInvalid = (field: string) => (problemOf(field) ? true : undefined);
  const describedBy = (field: string, hint?: string) => (problemOf(field) ? `${field}-error` : hint);

  onMount(() => focus(props.userId ? "password" : "user_id"));

  return (
    <main class="log-in">
      <div class="card">
        <header class="brand">
          <img src="/assets/icon.svg" alt="" width="56" height="56" />
          <h1>Bluetick</h1>
          <p class="hint">{isSignUp() ? t("signUpHint") : t("logInHint")}</p>
        </header>
        <form ref={form} novalidate onInput={onInput} onSubmit={(event) => void submit(event)}>
          <Show when={!isSignUp() && props.reason}>{(reason) => <p class="note" role="status">{t(REASONS[reason()])}</p>}</Show>
          <div class="field">
            <label for="user_id">{t("userId")}</label>
            <input id="user_id" name="user_id" value={props.userId} autocomplete="username" autocapitalize="none" autocorrect="off" spellcheck={false} required maxlength="128" aria-invalid={isInvalid("user_id")} aria-describedby={describedBy("user_id")} />
            <Problem field="user_id" />
          </div>
          <Show when={isSignUp()}>
            <div class="field">
              <label for="display_name">{t("yourName")} <span class="hint">{t("optional")}</span></label>
              <input id="display_name" name="display_name" autocomplete="name" dir="auto" maxlength="128" aria-invalid={isInvalid("display_name")} aria-describedby={describedBy("display_name")} />
              <Problem field="display_name" />
            </div>
          </Show>
          <div class="field">
            <label for="password">{t("password")}</label>
            <div class="with-button">
              <input id="password" name="password" type={isShown() ? "text" : "password"} autocomplete={isSignUp() ? "new-password" : "current-password"} required aria-invalid={isInvalid("password")} aria-describedby={describedBy("password", isSignUp() ? "password-hint" : undefined)} />
              <button type="button" class="button small" aria-pressed={isShown()} title={isShown() ? t("hidePassword") : t("showPassword")} onClick={() => setShown(!isShown())}>{isShown() ? t("hide") : t("show")}</button>
            </div>
            <Problem field="password" />
            <Show when={isSignUp() && !problemOf("password")}><span class="hint" id="password-hint">{t("passwordHint", { count: minLength() })}</span></Show>
          </div>
          <Show when={!canLogIn()}><p class="note" role="status">{t("logInUnavailable")}</p></Show>
          <p class="error" role="alert">{error()}</p>
          <button type="submit" class="button primary large" disabled={isBusy() || !canLogIn()}>{isSignUp() ? t("createAccount") : t("logIn")}</button>
        </form>
        <Show when={canSignUp()}>
          <div class="other-form">
            <p class="hint">{isSignUp() ? t("haveAccount") : t("newHere")}</p>
            <button type="button" class="button large wide" onClick={() => switchTo(isSignUp() ? "login" : "signup")}>{isSignUp() ? t("logIn") : t("createAccount")}</button>
          </div>
        </Show>
      </div>
      <p class="hint"><a href="/docs">{t("apiDocs")}</a></p>
    </main>
  );
}
