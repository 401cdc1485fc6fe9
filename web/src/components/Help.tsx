// The keys that do something.

import { For } from "solid-js";
import { Dialog } from "./Dialog.tsx";

const KEYS: [keys: string[], what: string][] = [
  [["Ctrl K", "/"], "Search people and chats"],
  [["↑", "↓"], "Move in the list or the results"],
  [["Enter"], "Open, or send the message"],
  [["Shift Enter"], "Start a new line"],
  [["Alt ↑", "Alt ↓"], "Previous or next chat"],
  [["→", "Shift F10"], "Options of the chat in the list"],
  [["Esc"], "Close, or go back to the list"],
  [["?"], "This help"],
];

export function Help(props: { onClose(): void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => props.onClose()}>
      <dl class="keys">
        <For each={KEYS}>
          {([keys, what]) => (
            <div>
              <dt><For each={keys}>{(key) => <kbd>{key}</kbd>}</For></dt>
              <dd>{what}</dd>
            </div>
          )}
        </For>
      </dl>
    </Dialog>
  );
}
