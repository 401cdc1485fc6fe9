// The panel beside a conversation: who is in it and what one may do about that, or who has read one message.

import { For, Show, createMemo, createSignal, onMount, type JSX } from "solid-js";
import { useChat } from "../state/chat.ts";
import { createLoad } from "../state/create-load.ts";
import { messageOf } from "../state/load.ts";
import { cut } from "../text/plain.ts";
import { memberCount, presenceText, titleOf } from "../text/words.ts";
import { Avatar } from "./Avatar.tsx";
import { Icon } from "./Icon.tsx";
import { PeoplePicker } from "./PeoplePicker.tsx";

export type DetailsSubject = { kind: "conversation" } | { kind: "message"; seq: number };

export function Details(props: { id: string; subject: DetailsSubject; onClose(): void }) {
  let closeButton!: HTMLButtonElement;
  onMount(() => closeButton.focus());
  const seq = () => (props.subject.kind === "message" ? props.subject.seq : 0);
  return (
    <aside class="details" aria-label={seq() ? "Message info" : "Chat info"}>
      <header class="bar">
        <h2>{seq() ? "Message info" : "Info"}</h2>
        <button type="button" class="icon-button" ref={closeButton} aria-label="Close panel" onClick={() => props.onClose()}><Icon name="close" /></button>
      </header>
      <div class="details-body">
        <Show when={seq()} fallback={<About id={props.id} />} keyed>
          {(shown) => <Readers id={props.id} seq={shown} />}
        </Show>
      </div>
    </aside>
  );
}

// Who has read a message

function Readers(props: { id: string; seq: number }) {
  const chat = useChat();
  const peerStatus = createMemo(() => {
    const status = chat.conversation(props.id).entry?.peer_status;
    return status ? `${status.last_delivered_seq}/${status.last_read_seq}` : "";
  });
  // Asked again whenever somebody has come further.
  const readers = createLoad(
    () => ({ peerStatus: peerStatus(), seq: props.seq }),
    ({ seq }) => chat.client.conversation(props.id).readers(seq),
  );
  const message = createMemo(() => chat.conversation(props.id).messages.find((each) => each.seq === props.seq));
  return (
    <>
      <Show when={message()}>{(shown) => <blockquote class="quoted" dir="auto">{cut(shown().content, 400)}</blockquote>}</Show>
      <p class="error" role="alert">{readers.error()}</p>
      <Show when={readers.value()} fallback={<p class="hint" role="status">{readers.error() ? "" : "Loading…"}</p>}>
        {(lists) => (
          <>
            <PeopleList title="Read by" people={lists().read} />
            <PeopleList title="Delivered to" people={lists().delivered} />
            <PeopleList title="Not delivered yet" people={lists().waiting} />
          </>
        )}
      </Show>
    </>
  );
}

/** A group may have thousands of members: a page of them at a time. */
const LIST_PAGE = 100;

function Paged<T>(props: { each: readonly T[]; label: string; children: (item: T) => JSX.Element }) {
  const [limit, setLimit] = createSignal(LIST_PAGE);
  const shown = createMemo(() => props.each.slice(0, limit()));
  return (
    <>
      <ul class="people" aria-label={props.label}><For each={shown()}>{(item) => props.children(item)}</For></ul>
      <Show when={props.each.length > limit()}>
        <button type="button" class="button wide" onClick={() => setLimit(limit() + LIST_PAGE)}>Show more ({props.each.length - limit()} left)</button>
      </Show>
    </>
  );
}

function PeopleList(props: { title: string; people: readonly string[] }) {
  const chat = useChat();
  return (
    <Show when={props.people.length > 0}>
      <section>
        <h3>{props.title} <span class="count">{props.people.length}</span></h3>
        <Paged each={props.people} label={props.title}>
          {(user) => <li><Avatar id={user} name={chat.nameOf(user)} /><span class="names"><span><bdi>{chat.nameOf(user)}</bdi></span></span></li>}
        </Paged>
      </section>
    </Show>
  );
}

// The conversation

function About(props: { id: string }) {
  const chat = useChat();
  const conversation = () => chat.conversation(props.id);
  const entry = createMemo(() => conversation().entry);
  const title = () => titleOf(entry(), chat.me, chat.nameOf);
  const isGroup = () => props.id.startsWith("g");
  const members = createLoad(
    () => (isGroup() ? (entry()?.member_count ?? null) : null),
    () => chat.client.conversation(props.id).members(),
  );
  const [error, setError] = createSignal("");
  const [isAdding, setAdding] = createSignal(false);
  const [toAdd, setToAdd] = createSignal<string[]>([]);
  const isAdmin = () => members.value()?.some((member) => member.user_id === chat.me && member.role === "admin") ?? false;

  async function attempt(work: () => Promise<unknown>): Promise<boolean> {
    setError("");
    try {
      await work();
      return true;
    } catch (failure) {
      setError(messageOf(failure));
      return false;
    }
  }

  async function add(): Promise<void> {
    if (toAdd().length > 0 && !(await attempt(() => chat.client.conversation(props.id).addMembers(toAdd())))) return;
    setToAdd([]);
    setAdding(false);
    members.reload();
  }

  async function remove(user: string): Promise<void> {
    if (await attempt(() => chat.client.conversation(props.id).removeMember(user))) members.reload();
  }

  return (
    <>
      <div class="about">
        <Avatar id={entry()?.peer ?? props.id} name={title()} isGroup={isGroup()} />
        <strong><bdi>{title()}</bdi></strong>
        <span class="hint">
          <Show when={isGroup()} fallback={<>{entry()?.peer}<br />{presenceText(entry()?.peer ? conversation().presence(entry()?.peer ?? "") : undefined, chat.now())}</>}>
            {memberCount(entry()?.member_count ?? 0)}
          </Show>
        </span>
      </div>
      <p class="error" role="alert">{error()}</p>

      <Show when={entry()}>
        {(line) => (
          <section class="switches">
            <Switcher label="Pin chat" on={line().pinned} onChange={(pinned) => attempt(() => chat.client.conversation(props.id).settings({ pinned }))} />
            <Switcher label="Mute notifications" on={line().muted} onChange={(muted) => attempt(() => chat.client.conversation(props.id).settings({ muted }))} />
            <Switcher label="Archive chat" on={line().archived} onChange={(archived) => attempt(() => chat.client.conversation(props.id).settings({ archived }))} />
            <Switcher label="Send read receipts" on={line().read_receipts} onChange={(read_receipts) => attempt(() => chat.client.conversation(props.id).settings({ read_receipts }))} />
          </section>
        )}
      </Show>

      <Show when={isGroup()}>
        <section>
          <h3>Members <span class="count">{entry()?.member_count}</span></h3>
          <Show when={isAdding()} fallback={<button type="button" class="button wide" onClick={() => setAdding(true)}>Add members</button>}>
            <PeoplePicker label="Add members" chosen={toAdd()} onChange={setToAdd} exclude={members.value()?.map((member) => member.user_id) ?? []} />
            <div class="buttons">
              <button type="button" class="button primary" disabled={toAdd().length === 0} onClick={() => void add()}>Add</button>
              <button type="button" class="button" onClick={() => { setAdding(false); setToAdd([]); }}>Cancel</button>
            </div>
          </Show>
          <p class="error" role="alert">{members.error()}</p>
          <Paged each={members.value() ?? []} label="Members">
            {(member) => (
              <li>
                <Avatar id={member.user_id} name={chat.nameOf(member.user_id)} />
                <span class="names">
                  <span><bdi>{chat.nameOf(member.user_id)}</bdi>{member.user_id === chat.me ? " (you)" : ""}</span>
                  <span class="hint">{member.role === "admin" ? `${member.user_id} · admin` : member.user_id}</span>
                </span>
                <Show when={isAdmin() && member.user_id !== chat.me}>
                  <button type="button" class="button small" aria-label={`Remove ${chat.nameOf(member.user_id)}`} onClick={() => void remove(member.user_id)}>Remove</button>
                </Show>
              </li>
            )}
          </Paged>
        </section>
        <Leave title={title()} onLeave={() => void attempt(async () => { await chat.client.conversation(props.id).leave(); chat.go(""); })} />
      </Show>
    </>
  );
}

function Leave(props: { title: string; onLeave(): void }) {
  const [isAsking, setAsking] = createSignal(false);
  return (
    <section>
      <Show when={isAsking()} fallback={<button type="button" class="button danger wide" onClick={() => setAsking(true)}>Leave group</button>}>
        <p>Leave “{props.title}”? You will no longer receive its messages.</p>
        <div class="buttons">
          <button type="button" class="button danger" onClick={() => props.onLeave()}>Leave</button>
          <button type="button" class="button" onClick={() => setAsking(false)}>Cancel</button>
        </div>
      </Show>
    </section>
  );
}

export function Switcher(props: { label: string; on: boolean; onChange(on: boolean): Promise<unknown> }) {
  return (
    <label class="switch">
      <span>{props.label}</span>
      <input
        type="checkbox"
        role="switch"
        checked={props.on}
        onChange={async ({ currentTarget }) => {
          await props.onChange(currentTarget.checked);
          // What the server says stands, also where it refused.
          currentTarget.checked = props.on;
        }}
      />
    </label>
  );
}
