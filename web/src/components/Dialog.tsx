// A dialog over the page. The browser traps the focus and closes it on Escape.

import { createUniqueId, onCleanup, onMount, type JSX } from "solid-js";
import { Icon } from "./Icon.tsx";

export function Dialog(props: { title: string; onClose(): void; children: JSX.Element }) {
  const titleId = createUniqueId();
  let dialog!: HTMLDialogElement;
  const before = document.activeElement;
  onMount(() => dialog.showModal());
  onCleanup(() => before instanceof HTMLElement && before.isConnected && before.focus());
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
          <button type="button" class="icon-button" aria-label="Close" onClick={() => dialog.close()}><Icon name="close" /></button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}
