// The list of keyboard shortcuts.

import { For } from "solid-js";
import { t } from "../i18n/index.ts";
import { Dialog } from "./Dialog.tsx";

function shortcuts(): [keys: string[], action: string][] {
  const [ctrl, shift] = [t("keyCtrl"), t("keyShift")];
  return [
    [[`${ctrl} K`, "/"], t("search")],
    [["↑", "↓"], t("shortcutMove")],
    [["Enter"], t("shortcutOpen")],
    [[`${shift} Enter`], t("shortcutNewLine")],
    [["Alt ↑", "Alt ↓"], t("shortcutNextChat")],
    [["→", `${shift} F10`], t("shortcutOptions")],
    [["Esc"], t("shortcutClose")],
    [["?"], t("shortcuts")],
  ];
}

export function Help(props: { onClose(): void }) {
  return (
    <Dialog title={t("shortcuts")} onClose={() => props.onClose()}>
      <dl class="keys">
        <For each={shortcuts()}>
          {([keys, action]) => (
            <div>
              <dt><For each={keys}>{(key) => <kbd dir="ltr">{key}</kbd>}</For></dt>
              <dd>{action}</dd>
            </div>
          )}
        </For>
      </dl>
    </Dialog>
  );
}
