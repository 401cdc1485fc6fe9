// A modal dialog. The browser traps the focus in it and closes it on Escape.

import { createUniqueId, onCleanup, onMount, type JSX } from "solid-js";
import { t } from "../i18n/index.ts";
import { Icon } from "./Icon.tsx";

export function Dialog(props: { title: string; onClose(): void; children: JSX.Element }) {
  const titleId = createUniqueId();
  let dialog!: HTMLDialogElement;
  const focusedBefore = document.activeElement;
  onMount(() => dialog.showModal());
  onCleanup(() => focusedBefore instanceof HTMLElement && focusedBefore.isConnected && focusedBefore.focus());
  return (
    <dialog
      ref={dialog}
      aria-labelledby={titleId}
      onClose={() => props.onClose()}
      onKeyDown={(event) => event.stopPropagation()}
      onPointerDown={(event) => event.target === dialog && dialog.close()}
    >
      <div class="dialog-body">
        <header>
          <h2 id={titleId}>{props.title}</h2>
          <button type="button" class="icon-button" aria-label={t("close")} onClick={() => dialog.close()}><Icon name="close" /></button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}
