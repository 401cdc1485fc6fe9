// Selects people: a search field, and the selected people as chips.

import { For, Show, createEffect, createSignal, createUniqueId, onCleanup } from "solid-js";
import { t } from "../i18n/index.ts";
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
  /** A user ID that the search did not find, after the first Enter. */
  const [guess, setGuess] = createSignal("");
  const [isEnterPending, setEnterPending] = createSignal(false);
  const options = () => found.people().filter(({ userId }) => !props.chosen.includes(userId) && !props.exclude?.includes(userId));

  function choose({ userId }: FoundPerson): void {
    setGuess("");
    props.onChange([...props.chosen, userId]);
    setText("");
    setActive(0);
    field.focus();
  }

  // Enter chooses from the answer to the current text. Until that answer arrives, Enter waits.
  function enter(): void {
    const option = options()[active()];
    if (!found.isReady()) setEnterPending(true);
    else if (option?.isGuess && guess() !== option.userId) setGuess(option.userId);
    else if (option) choose(option);
  }
  createEffect(() => {
    if (!isEnterPending() || !found.isReady()) return;
    setEnterPending(false);
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

  const hintOf = ({ userId, isGuess }: FoundPerson) => (isGuess ? t("addAnyway", { user: userId }) : userId);
  const status = () => {
    if (guess()) return t("enterToAdd", { user: guess() });
    if (text().trim() === "" || !found.isReady() || options().length > 0) return "";
    return found.hasFailed() ? t("searchFailed") : t("noResults");
  };

  onCleanup(() => setText(""));

  return (
    <div class="picker">
      <Show when={props.chosen.length > 0}>
        <ul class="chips" aria-label={t("selected")}>
          <For each={props.chosen}>
            {(user) => (
              <li class="chip">
                <span><bdi>{chat.nameOf(user)}</bdi></span>
                <button type="button" aria-label={t("removeName", { name: chat.nameOf(user) })} onClick={() => props.onChange(props.chosen.filter((each) => each !== user))}><Icon name="close" /></button>
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
          placeholder={t("nameOrUserId")}
          aria-expanded={options().length > 0}
          aria-controls={listId}
          aria-activedescendant={options()[active()] ? `${listId}-${active()}` : undefined}
          value={text()}
          onInput={(event) => { setText(event.currentTarget.value); setActive(0); setGuess(""); setEnterPending(false); }}
          onKeyDown={onKeyDown}
        />
      </label>
      <p class="hint" classList={{ "visually-hidden": guess() !== "" || status() === "" }} role="status">{status()}</p>
      <ul class="options" id={listId} role="listbox" aria-label={t("searchResults")}>
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
