// Chooses people: a field that finds them, and the chosen ones as chips.

import { For, Show, createEffect, createSignal, createUniqueId, onCleanup } from "solid-js";
import { useChat } from "../state/chat.ts";
import { Avatar } from "./Avatar.tsx";
import { Icon } from "./Icon.tsx";
import { createPeopleSearch, type FoundPerson } from "../state/people-search.ts";

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
  /** A user who was not found, for whom Enter was pressed once. */
  const [guess, setGuess] = createSignal("");
  const [isAwaited, setAwaited] = createSignal(false);
  const options = () => found.people().filter(({ userId }) => !props.chosen.includes(userId) && !props.exclude?.includes(userId));

  function choose({ userId }: FoundPerson): void {
    setGuess("");
    props.onChange([...props.chosen, userId]);
    setText("");
    setActive(0);
    field.focus();
  }

  // Enter means what belongs to the text in the field: where that is not here yet, it waits.
  function enter(): void {
    const option = options()[active()];
    if (!found.isReady()) setAwaited(true);
    else if (option?.isGuess && guess() !== option.userId) setGuess(option.userId);
    else if (option) choose(option);
  }
  createEffect(() => {
    if (!isAwaited() || !found.isReady()) return;
    setAwaited(false);
    enter();
  });

  function onKeyDown(event: KeyboardEvent): void {
    const count = options().length;
    if (event.isComposing) return;
    if (event.key === "ArrowDown" && count > 0) setActive((active() + 1) % count);
    else if (event.key === "ArrowUp" && count > 0) setActive((active() + count - 1) % count);
    else if (event.key === "Enter") {
      if (text().trim() === "") return;
      enter();
    } else if (event.key === "Backspace" && text() === "" && props.chosen.length > 0) props.onChange(props.chosen.slice(0, -1));
    else if (event.key === "Escape" && text() !== "") setText("");
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  const hintOf = ({ userId, isGuess }: FoundPerson) => (isGuess ? `No user “${userId}” was found. Add anyway?` : userId);
  const status = () => {
    if (guess()) return `No user “${guess()}” was found. Press Enter again to add anyway.`;
    if (text().trim() === "" || !found.isReady() || options().length > 0) return "";
    return found.hasFailed() ? "Search failed. Check your connection." : "No match found.";
  };

  onCleanup(() => setText(""));

  return (
    <div class="picker">
      <Show when={props.chosen.length > 0}>
        <ul class="chips" aria-label="Chosen">
          <For each={props.chosen}>
            {(user) => (
              <li class="chip">
                <span><bdi>{chat.nameOf(user)}</bdi></span>
                <button type="button" aria-label={`Remove ${chat.nameOf(user)}`} onClick={() => props.onChange(props.chosen.filter((each) => each !== user))}><Icon name="close" /></button>
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
          onInput={(event) => { setText(event.currentTarget.value); setActive(0); setGuess(""); setAwaited(false); }}
          onKeyDown={onKeyDown}
        />
      </label>
      <p class="hint" classList={{ "visually-hidden": guess() !== "" || status() === "" }} role="status">{status()}</p>
      <ul class="options" id={listId} role="listbox" aria-label="People found">
        <For each={options()}>
          {(person, index) => (
            <li id={`${listId}-${index()}`} class="option" role="option" aria-selected={index() === active()} onPointerDown={(event) => event.preventDefault()} onClick={() => choose(person)}>
              <Avatar id={person.userId} name={person.name} />
              <span class="names"><span><bdi>{person.name}</bdi></span><span class="hint"><bdi>{hintOf(person)}</bdi></span></span>
            </li>
          )}
        </For>
      </ul>
    </div>
  );
}
