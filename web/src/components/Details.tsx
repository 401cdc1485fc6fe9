// The details panel of a conversation: the chat info with settings and members, or the message info
// with the readers of one message.

import { For, Show, createMemo, createSignal, onMount, type JSX } from "solid-js";
import { formatNumber, t } from "../i18n/index.ts";
import { useChat } from "../state/chat.ts";
import { createLoad } from "../state/create-load.ts";
import { messageOf } from "../state/load.ts";
import { truncate } from "../text/plain.ts";
import { memberCount, presenceText, titleOf } from "../text/texts.ts";
import { Avatar } from "./Avatar.tsx";
import { Icon } from "./Icon.tsx";
import { PeoplePicker } from "./PeoplePicker.tsx";

export type DetailsSubject = { kind: "conversation" } | { kind: "message"; seq: number };

export function Details(props: { id: string; subject: DetailsSubject; onClose(): void }) {
  let closeButton!: HTMLButtonElement;
  onMount(() => closeButton.focus());
  const seq = () => (props.subject.kind === "message" ? props.subject.seq : 0);
  return (
    <aside class="details" aria-label={t(seq() ? "messageInfo" : "chatInfo")}>
      <header class="bar">
        <h2>{t(seq() ? "messageInfo" : "chatInfo")}</h2>
        <button type="button" class="icon-button" ref={closeButton} aria-label={t("close")} onClick={() => props.onClose()}><Icon name="close" /></button>
      </header>
      <div class="details-body">
        <Show when={seq()} fallback={<ChatInfo id={props.id} />} keyed>
          {(shown) => <MessageInfo id={props.id} seq={shown} />}
        </Show>
      </div>
    </aside>
  );
}

// The message info

function MessageInfo(props: { id: string; seq: number }) {
  const chat = useChat();
  const peerStatus = createMemo(() => {
    const status = chat.conversation(props.id).entry?.peer_status;
    return status ? `${status.last_delivered_seq}/${status.last_read_seq}` : "";
  });
  // Loaded again when a receipt of another member arrives.
  const readers = createLoad(
    () => ({ peerStatus: peerStatus(), seq: props.seq }),
    ({ seq }) => chat.client.conversation(props.id).readers(seq),
  );
  const message = createMemo(() => chat.conversation(props.id).messages.find((each) => each.seq === props.seq));
  return (
    <>
      <Show when={message()}>{(shown) => <blockquote class="quoted" dir="auto">{truncate(shown().content, 400)}</blockquote>}</Show>
      <p class="error" role="alert">{readers.error()}</p>
      <Show when={readers.value()} fallback={<p class="hint" role="status">{readers.error() ? "" : t("loading")}</p>}>
        {(lists) => (
          <>
            <PeopleList title={t("readBy")} people={lists().read} />
            <PeopleList title={t("deliveredTo")} people={lists().delivered} />
            <PeopleList title={t("notDelivered")} people={lists().waiting} />
          </>
        )}
      </Show>
    </>
  );
}

/** A group may have thousands of members, so the list grows by this number at a time. */
const LIST_PAGE = 100;

function Paged<T>(props: { each: readonly T[]; label: string; children: (item: T) => JSX.Element }) {
  const [limit, setLimit] = createSignal(LIST_PAGE);
  const shown = createMemo(() => props.each.slice(0, limit()));
  return (
    <>
      <ul class="people" aria-label={props.label}><For each={shown()}>{(item) => props.children(item)}</For></ul>
      <Show when={props.each.length > limit()}>
        <button type="button" class="button wide" onClick={() => setLimit(limit() + LIST_PAGE)}>{t("showMore", { count: props.each.length - limit() })}</button>
      </Show>
    </>
  );
}

function PeopleList(props: { title: string; people: readonly string[] }) {
  const chat = useChat();
  return (
    <Show when={props.people.length > 0}>
      <section>
        <h3>{props.title} <span class="count">{formatNumber(props.people.length)}</span></h3>
        <Paged each={props.people} label={props.title}>
          {(user) => <li><Avatar id={user} name={chat.nameOf(user)} /><span class="names"><span><bdi>{chat.nameOf(user)}</bdi></span></span></li>}
        </Paged>
      </section>
    </Show>
  );
}

// The chat info

function ChatInfo(props: { id: string }) {
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

  async function attempt(action: () => Promise<unknown>): Promise<boolean> {
    setError("");
    try {
      await action();
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
        {(current) => (
          <section class="switches">
            <Switcher label={t("pinChat")} on={current().pinned} onChange={(pinned) => attempt(() => chat.client.conversation(props.id).settings({ pinned }))} />
            <Switcher label={t("mute")} on={current().muted} onChange={(muted) => attempt(() => chat.client.conversation(props.id).settings({ muted }))} />
            <Switcher label={t("archiveChat")} on={current().archived} onChange={(archived) => attempt(() => chat.client.conversation(props.id).settings({ archived }))} />
            <Switcher label={t("readReceipts")} on={current().read_receipts} onChange={(read_receipts) => attempt(() => chat.client.conversation(props.id).settings({ read_receipts }))} />
          </section>
        )}
      </Show>

      <Show when={isGroup()}>
        <section>
          <h3>{t("members")} <span class="count">{formatNumber(entry()?.member_count ?? 0)}</span></h3>
          <Show when={isAdding()} fallback={<button type="button" class="button wide" onClick={() => setAdding(true)}>{t("addMembers")}</button>}>
            <PeoplePicker label={t("addMembers")} chosen={toAdd()} onChange={setToAdd} exclude={members.value()?.map((member) => member.user_id) ?? []} />
            <div class="buttons">
              <button type="button" class="button primary" disabled={toAdd().length === 0} onClick={() => void add()}>{t("add")}</button>
              <button type="button" class="button" onClick={() => { setAdding(false); setToAdd([]); }}>{t("cancel")}</button>
            </div>
          </Show>
          <p class="error" role="alert">{members.error()}</p>
          <Paged each={members.value() ?? []} label={t("members")}>
            {(member) => (
              <li>
                <Avatar id={member.user_id} name={chat.nameOf(member.user_id)} />
                <span class="names">
                  <span><bdi>{member.user_id === chat.me ? t("nameYou", { name: chat.nameOf(member.user_id) }) : chat.nameOf(member.user_id)}</bdi></span>
                  <span class="hint"><bdi>{member.user_id}</bdi>{member.role === "admin" ? ` · ${t("admin")}` : ""}</span>
                </span>
                <Show when={isAdmin() && member.user_id !== chat.me}>
                  <button type="button" class="button small" aria-label={t("removeName", { name: chat.nameOf(member.user_id) })} onClick={() => void remove(member.user_id)}>{t("remove")}</button>
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
      <Show when={isAsking()} fallback={<button type="button" class="button danger wide" onClick={() => setAsking(true)}>{t("leaveGroup")}</button>}>
        <p>{t("leaveQuestion", { title: props.title })}</p>
        <div class="buttons">
          <button type="button" class="button danger" onClick={() => props.onLeave()}>{t("leave")}</button>
          <button type="button" class="button" onClick={() => setAsking(false)}>{t("cancel")}</button>
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
          // The switch shows the value of the server, also after a refusal.
          currentTarget.checked = props.on;
        }}
      />
    </label>
  );
}
