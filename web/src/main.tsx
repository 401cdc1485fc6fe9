// The entry point: loads the language, then shows the log-in screen or the chat.

import type { Session } from "@bluetick/client";
import { Show, createSignal } from "solid-js";
import { render } from "solid-js/web";
import { LogInScreen } from "./components/LogInScreen.tsx";
import { Shell } from "./components/Shell.tsx";
import { useLanguage } from "./i18n/index.ts";
import { applyTheme, clearDrafts, clearSession, loadEnded, loadLanguageChoice, loadSession, loadTheme, saveEnded, saveSession, type EndReason } from "./storage.ts";

applyTheme(loadTheme());

function App() {
  const [session, setSession] = createSignal<Session | null>(loadSession());
  const ended = session() ? null : loadEnded();
  const [reason, setReason] = createSignal<EndReason | null>(ended?.reason ?? null);
  let lastUser = session()?.userId ?? ended?.userId ?? "";

  function begin(started: Session): void {
    // Another user does not start in the conversation that the previous user had open.
    if (lastUser !== started.userId) history.replaceState(null, "", location.pathname);
    lastUser = started.userId;
    saveSession(started);
    saveEnded(null);
    setReason(null);
    setSession(started);
  }

  /** `why` is null when the user logs out. */
  function end(why: EndReason | null): void {
    const ended = session();
    if (!ended) return;
    clearSession(ended);
    if (why === null) {
      clearDrafts(ended.userId);
      history.replaceState(null, "", location.pathname);
    }
    saveEnded(why && { reason: why, userId: ended.userId });
    setReason(why);
    setSession(null);
  }

  return (
    <Show when={session()} keyed fallback={<LogInScreen reason={reason()} userId={reason() ? lastUser : ""} onSession={begin} />}>
      {(current) => <Shell session={current} onEnd={end} />}
    </Show>
  );
}

void useLanguage(loadLanguageChoice()).then(() => render(() => <App />, document.body));

if ("serviceWorker" in navigator && import.meta.env.PROD) {
  // A browser that refuses the service worker works with the network alone.
  addEventListener("load", () => void navigator.serviceWorker.register("/sw.js").catch(() => undefined));
}
