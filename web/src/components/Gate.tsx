// Log-in and sign-up.

import { logIn, serverOffer, signUp, type Session } from "@bluetick/client";
import { Show, createSignal, onMount } from "solid-js";
import { messageOf } from "../state/load.ts";

type Mode = "login" | "signup";

export function Gate(props: { note: string; userId: string; onSession(session: Session): void }) {
  const [mode, setMode] = createSignal<Mode>("login");
  const [canSignUp, setCanSignUp] = createSignal(false);
  const [canLogIn, setCanLogIn] = createSignal(true);
  const [isShown, setShown] = createSignal(false);
  const [isBusy, setBusy] = createSignal(false);
  const [error, setError] = createSignal("");
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
    try {
      const account = { userId, password };
      props.onSession(await (isSignUp() ? signUp(location.origin, displayName ? { ...account, displayName } : account) : logIn(location.origin, account)));
    } catch (failure) {
      if ((failure as { code?: string }).code === "signup_disabled") {
        setCanSignUp(false);
        setMode("login");
      }
      setError(messageOf(failure));
      form.querySelector<HTMLInputElement>("[name=password]")?.focus();
    }
    setBusy(false);
  }

  function choose(chosen: Mode): void {
    setMode(chosen);
    setError("");
    form.querySelector<HTMLInputElement>("[name=user_id]")?.focus();
  }

  async function askOffer(): Promise<void> {
    try {
      const offer = await serverOffer(location.origin);
      setCanSignUp(offer.canSignUp);
      setCanLogIn(offer.canLogIn);
    } catch {
      // Not reachable just now: what it refuses, it says then.
      setCanSignUp(true);
    }
  }
  void askOffer();

  onMount(() => form.querySelector<HTMLInputElement>(props.userId ? "[name=password]" : "[name=user_id]")?.focus());

  return (
    <main class="gate">
      <form class="card" ref={form} onSubmit={(event) => void submit(event)}>
        <header class="brand">
          <img src="/assets/icon.svg" alt="" width="56" height="56" />
          <h1>Bluetick</h1>
          <p class="hint">{isSignUp() ? "Make an account and start to chat." : "Welcome back."}</p>
        </header>
        <Show when={props.note}><p class="note" role="status">{props.note}</p></Show>
        <label class="field">
          <span>User ID</span>
          <input name="user_id" value={props.userId} autocomplete="username" autocapitalize="none" autocorrect="off" spellcheck={false} required maxlength="128" pattern="\S+" title="Without spaces" />
        </label>
        <Show when={isSignUp()}>
          <label class="field">
            <span>Your name <span class="hint">(optional)</span></span>
            <input name="display_name" autocomplete="name" dir="auto" maxlength="128" />
          </label>
        </Show>
        <div class="field">
          <label for="password">Password</label>
          <div class="with-button">
            <input id="password" name="password" type={isShown() ? "text" : "password"} autocomplete={isSignUp() ? "new-password" : "current-password"} minlength={isSignUp() ? 8 : undefined} aria-describedby={isSignUp() ? "password-hint" : undefined} required />
            <button type="button" class="button small" aria-pressed={isShown()} title={isShown() ? "Hide what is typed" : "Show what is typed"} onClick={() => setShown(!isShown())}>{isShown() ? "Hide" : "Show"}</button>
          </div>
          <Show when={isSignUp()}><span class="hint" id="password-hint">At least 8 characters.</span></Show>
        </div>
        <Show when={!canLogIn()}><p class="note" role="status">People come to this server from the operator's own product; there is no log-in here.</p></Show>
        <p class="error" role="alert">{error()}</p>
        <button type="submit" class="button primary large" disabled={isBusy() || !canLogIn()}>{isSignUp() ? "Sign up" : "Log in"}</button>
        <Show when={canSignUp()}>
          <p class="switch-mode">
            {isSignUp() ? "Have an account already?" : "New here?"}{" "}
            <button type="button" class="link" onClick={() => choose(isSignUp() ? "login" : "signup")}>{isSignUp() ? "Log in instead" : "Make an account"}</button>
          </p>
        </Show>
      </form>
      <p class="hint"><a href="/docs">The API of this server</a></p>
    </main>
  );
}
