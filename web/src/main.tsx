// The entry: who is logged in decides what is shown.

import type { Session } from "@bluetick/client";
import { Show, createSignal } from "solid-js";
import { render } from "solid-js/web";
import { Gate } from "./components/Gate.tsx";
import { Shell } from "./components/Shell.tsx";
import { applyTheme, clearDrafts, clearSession, loadEnded, loadSession, loadTheme, saveEnded, saveSession } from "./storage.ts";

applyTheme(loadTheme());

function App() {
  const [session, setSession] = createSignal<Session | null>(loadSession());
  const ended = session() ? null : loadEnded();
  const [note, setNote] = createSignal(ended?.note ?? "");
  let lastUser = session()?.userId ?? ended?.userId ?? "";

  function begin(started: Session): void {
    // Another user starts without what the one before had open.
    if (lastUser !== started.userId) history.replaceState(null, "", location.pathname);
    lastUser = started.userId;
    saveSession(started);
    saveEnded(null);
    setNote("");
    setSession(started);
  }

  function end(why: string): void {
    const ended = session();
    if (!ended) return;
    clearSession(ended);
    if (why === "") {
      clearDrafts(ended.userId);
      history.replaceState(null, "", location.pathname);
    }
    saveEnded(why === "" ? null : { note: why, userId: ended.userId });
    setNote(why);
    setSession(null);
  }

  return (
    <Show when={session()} keyed fallback={<Gate note={note()} userId={note() ? lastUser : ""} onSession={begin} />}>
      {(current) => <Shell session={current} onEnd={end} />}
    </Show>
  );
}

render(() => <App />, document.body);

if ("serviceWorker" in navigator && import.meta.env.PROD) {
  // A browser that refuses one works with the network alone.
  addEventListener("load", () => void navigator.serviceWorker.register("/sw.js").catch(() => undefined));
}
