// Log-in and sign-up.

import { logIn, serverOffer, signUp, type Session } from "@bluetick/client";
import { Show, createSignal, onMount } from "solid-js";
import { fieldProblemOf, messageOf, type FieldProblem } from "../state/load.ts";

type Mode = "login" | "signup";

export function Gate(props: { note: string; userId: string; onSession(session: Session): void }) {
  const [mode, setMode] = createSignal<Mode>("login");
  const [canSignUp, setCanSignUp] = createSignal(false);
  const [canLogIn, setCanLogIn] = createSignal(true);
  const [minLength, setMinLength] = createSignal(8);
  const [isShown, setShown] = createSignal(false);
  const [isBusy, setBusy] = createSignal(false);
  const [error, setError] = createSignal("");
  const [problem, setProblem] = createSignal<FieldProblem | null>(null);
  let form!: HTMLFormElement;
  const isSignUp = () => mode() === "signup";

  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const fields = new FormData(form);
    const text = (name: string) => String(fields.get(name) ?? "");
    const userId = text("user_id").trim();
    const password = text("password");
    const displayName = text("display_name").trim();
    setBusy(true);
    setError("");
    setProblem(null);
    try {
      const account = { userId, password };
      props.onSession(await (isSignUp() ? signUp(location.origin, displayName ? { ...account, displayName } : account) : logIn(location.origin, account)));
    } catch (failure) {
      if ((failure as { code?: string }).code === "signup_disabled") {
        setCanSignUp(false);
        setMode("login");
      }
      setProblem(fieldProblemOf(failure));
      if (!problem()) setError(messageOf(failure));
      form.querySelector<HTMLInputElement>(`[name=${problem()?.field ?? "password"}]`)?.focus();
    }
    setBusy(false);
  }

  function choose(chosen: Mode): void {
    setMode(chosen);
    setError("");
    setProblem(null);
    form.querySelector<HTMLInputElement>("[name=user_id]")?.focus();
  }

  async function askOffer(): Promise<void> {
    try {
      const offer = await serverOffer(location.origin);
      setCanSignUp(offer.canSignUp);
      setCanLogIn(offer.canLogIn);
      setMinLength(offer.passwordMinLength);
    } catch {
      // Not reachable just now: what it refuses, it says then.
      setCanSignUp(true);
    }
  }
  void askOffer();

  /** What the server says about one field stands below it, and is read out with it. */
  const problemOf = (field: string) => (problem()?.field === field ? problem()?.text : undefined);
  const Problem = (of: { field: string }) => <Show when={problemOf(of.field)}>{(text) => <span class="field-error" id={`${of.field}-error`} role="alert">{text()}</span>}</Show>;
  const told = (field: string, hint?: string) => ({ "aria-invalid": problemOf(field) ? true : undefined, "aria-describedby": problemOf(field) ? `${field}-error` : hint });

  onMount(() => form.querySelector<HTMLInputElement>(props.userId ? "[name=password]" : "[name=user_id]")?.focus());

  return (
    <main class="gate">
      <form class="card" ref={form} onSubmit={(event) => void submit(event)}>
        <header class="brand">
          <img src="/assets/icon.svg" alt="" width="56" height="56" />
          <h1>Bluetick</h1>
          <p class="hint">{isSignUp() ? "Create an account to start chatting." : "Welcome back."}</p>
        </header>
        <Show when={props.note && !isSignUp()}><p class="note" role="status">{props.note}</p></Show>
        <div class="field">
          <label for="user_id">User ID</label>
          <input id="user_id" name="user_id" value={props.userId} autocomplete="username" autocapitalize="none" autocorrect="off" spellcheck={false} required maxlength="128" pattern="\S+" title="No spaces" {...told("user_id")} />
          <Problem field="user_id" />
        </div>
        <Show when={isSignUp()}>
          <div class="field">
            <label for="display_name">Your name <span class="hint">(optional)</span></label>
            <input id="display_name" name="display_name" autocomplete="name" dir="auto" maxlength="128" {...told("display_name")} />
            <Problem field="display_name" />
          </div>
        </Show>
        <div class="field">
          <label for="password">Password</label>
          <div class="with-button">
            <input id="password" name="password" type={isShown() ? "text" : "password"} autocomplete={isSignUp() ? "new-password" : "current-password"} minlength={isSignUp() ? minLength() : undefined} required {...told("password", isSignUp() ? "password-hint" : undefined)} />
            <button type="button" class="button small" aria-pressed={isShown()} title={isShown() ? "Hide password" : "Show password"} onClick={() => setShown(!isShown())}>{isShown() ? "Hide" : "Show"}</button>
          </div>
          <Problem field="password" />
          <Show when={isSignUp() && !problemOf("password")}><span class="hint" id="password-hint">Use at least {minLength()} characters.</span></Show>
        </div>
        <Show when={!canLogIn()}><p class="note" role="status">This server has no log-in of its own. Open it from your operator's app.</p></Show>
        <p class="error" role="alert">{error()}</p>
        <button type="submit" class="button primary large" disabled={isBusy() || !canLogIn()}>{isSignUp() ? "Create account" : "Log in"}</button>
        <Show when={canSignUp()}>
          <p class="switch-mode">
            {isSignUp() ? "Already have an account?" : "New here?"}{" "}
            <button type="button" class="link" onClick={() => choose(isSignUp() ? "login" : "signup")}>{isSignUp() ? "Log in instead" : "Create account"}</button>
          </p>
        </Show>
      </form>
      <p class="hint"><a href="/docs">API documentation</a></p>
    </main>
  );
}
