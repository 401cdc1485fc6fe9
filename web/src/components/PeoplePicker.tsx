// Chooses people: a field that finds them, and the chosen ones as chips.

import { For, Show, createSignal, createUniqueId, onCleanup } from "solid-js";
import { useChat } from "../state/chat.ts";
import { Avatar } from "./Avatar.tsx";
import { Icon } from "./Icon.tsx";
import { createPeopleSearch } from "../state/people-search.ts";

interface PeoplePickerProps {
  label: string;
  chosen: readonly string[];
  onChange(chosen: string[]): void;
  exclude?: readonly string[];
}

export function PeoplePicker(props: PeoplePickerProps) {
  const chat = useChat();
  const listId = createUniqueId();
  let field!: HTMLInputElement;
  const [text, setText] = createSignal("");
  const [active, setActive] = createSignal(0);
  const found = createPeopleSearch(text);
  const options = () => found().filter(({ userId }) => !props.chosen.includes(userId) && !props.exclude?.includes(userId));

  function choose(userId: string): void {
    props.onChange([...props.chosen, userId]);
    setText("");
    setActive(0);
    field.focus();
  }

  function onKeyDown(event: KeyboardEvent): void {
    const count = options().length;
    if (event.isComposing) return;
    if (event.key === "ArrowDown" && count > 0) setActive((active() + 1) % count);
    else if (event.key === "ArrowUp" && count > 0) setActive((active() + count - 1) % count);
    else if (event.key === "Enter") {
      const option = options()[active()];
      if (!option) return;
      choose(option.userId);
    } else if (event.key === "Backspace" && text() === "" && props.chosen.length > 0) props.onChange(props.chosen.slice(0, -1));
    else if (event.key === "Escape" && text() !== "") setText("");
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  onCleanup(() => setText(""));

  return (
    <div class="picker">
      <Show when={props.chosen.length > 0}>
        <ul class="chips" aria-label="Chosen">
          <For each={props.chosen}>
            {(user) => (
              <li class="chip">
                <span dir="auto">{chat.nameOf(user)}</span>
                <button type="button" aria-label={`Take out ${chat.nameOf(user)}`} onClick={() => props.onChange(props.chosen.filter((each) => each !== user))}><Icon name="close" /></button>
              </li>
            )}
          </For>
        </ul>
      </Show>
      <label class="field">
        <span>{props.label}</span>
        <input
          ref={field}
          role="combobox"
          autocomplete="off"
          autocapitalize="none"
          spellcheck={false}
          placeholder="Name or user ID"
          aria-expanded={options().length > 0}
          aria-controls={listId}
          aria-activedescendant={options()[active()] ? `${listId}-${active()}` : undefined}
          value={text()}
          onInput={(event) => { setText(event.currentTarget.value); setActive(0); }}
          onKeyDown={onKeyDown}
        />
      </label>
      <ul class="options" id={listId} role="listbox" aria-label="People found">
        <For each={options()}>
          {({ userId, name, isGuess }, index) => (
            <li id={`${listId}-${index()}`} class="option" role="option" aria-selected={index() === active()} onPointerDown={(event) => event.preventDefault()} onClick={() => choose(userId)}>
              <Avatar id={userId} name={name} />
              <span class="names"><span dir="auto">{name}</span><span class="hint">{isGuess ? "exact user ID" : userId}</span></span>
            </li>
          )}
        </For>
      </ul>
    </div>
  );
}
