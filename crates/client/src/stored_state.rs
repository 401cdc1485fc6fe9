//! The stored form of the state: which parts are stored, and under which keys. The keys are `user`,
//! `epoch`, `row/…`, `message/…/…`, `outbox/…`, `draft/…` and `name/…`.

use std::collections::{BTreeSet, HashMap, HashSet};

use bluetick_types::{ConversationId, Seq, UserId};
use serde::{Deserialize, Serialize};

use crate::state::inbox::Row;
use crate::state::outbox::{Outbox, OutboxItem};
use crate::state::people::People;
use crate::state::timeline::Timeline;
use crate::state::{KEPT_MESSAGES, KEPT_ROWS, KEPT_TIMELINES, State};
use crate::storage::Change;
use crate::wire::bodies::{InboxEntry, Message, Person};
use crate::wire::text;

/// Upper bound on the message content stored per conversation, in bytes. It limits the size of the
/// storage; older messages are fetched again.
const KEPT_BYTES: usize = 256 * 1024;

#[derive(Deserialize, Serialize)]
struct StoredRow {
    entry: InboxEntry,
    #[serde(with = "text::seq")]
    have_seq: Seq,
}

fn row_key(id: ConversationId) -> String {
    format!("row/{id}")
}

fn message_key(id: ConversationId, seq: Seq) -> String {
    format!("message/{id}/{:016x}", seq.get())
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("the stored state holds strings and numbers only")
}

pub fn outbox_change(item: &OutboxItem) -> Change {
    Change::put(format!("outbox/{:016x}", item.number), json(item))
}

pub fn outbox_removal(item: &OutboxItem) -> Change {
    Change::remove(format!("outbox/{:016x}", item.number))
}

pub fn name_change(person: &Person) -> Change {
    Change::put(format!("name/{}", person.user_id), json(&person.display_name))
}

/// The storage belongs to another user.
#[derive(Debug, thiserror::Error)]
#[error("the storage belongs to {0}")]
pub struct OtherUser(pub String);

/// Rebuilds the state from the stored entries. Entries must be sorted by key.
///
/// Skips entries that do not parse. Rows, messages and names are copies of server data, so the
/// client fetches them again. The same code writes and reads outbox items, so they parse.
///
/// # Errors
///
/// Fails if the entries belong to another user.
pub fn restore(user: &UserId, kept: Vec<(String, String)>) -> Result<(State, StoredState), OtherUser> {
    let mut state = State::new(user.clone());
    let mut ledger = StoredState::default();
    let mut messages: HashMap<ConversationId, Vec<Message>> = HashMap::new();
    let (mut outbox, mut names) = (Vec::new(), Vec::new());
    for (key, value) in kept {
        match key.split_once('/') {
            None if key == "user" && value != user.as_str() => return Err(OtherUser(value)),
            None if key == "user" => ledger.user_is_kept = true,
            None if key == "epoch" => {
                state.epoch = value.parse().ok();
                ledger.epoch = state.epoch;
            }
            Some(("row", id)) => {
                if let (Ok(id), Ok(StoredRow { entry, have_seq })) =
                    (id.parse(), serde_json::from_str(&value))
                {
                    ledger.rows.insert(id);
                    state.inbox.put(Row::restored(entry, have_seq));
                }
            }
            Some(("message", _)) => {
                if let Ok(message) = serde_json::from_str::<Message>(&value) {
                    let id = message.conversation_id;
                    ledger.messages.entry(id).or_default().insert(message.seq);
                    messages.entry(id).or_default().push(message);
                }
            }
            Some(("draft", id)) => {
                if let Ok(id) = id.parse() {
                    ledger.drafts.insert(id, value.clone());
                    state.drafts.insert(id, value);
                }
            }
            Some(("outbox", _)) => outbox.extend(serde_json::from_str::<OutboxItem>(&value).ok()),
            Some(("name", name)) => {
                if let (Ok(name), Ok(shown)) = (name.parse(), serde_json::from_str(&value)) {
                    names.push((name, shown));
                }
            }
            _ => {}
        }
    }
    for (id, messages) in messages {
        let Some(row) = state.inbox.get(id) else { continue };
        let timeline = Timeline::restored(messages, row.entry.first_seq);
        // Messages received next follow `have_seq`. A run that ends elsewhere would have a gap
        // before them.
        if timeline.window().to_seq == row.have_seq {
            state.timelines.insert(id, timeline);
        }
    }
    state.outbox = Outbox::restored(outbox);
    state.people = People::restored(names);
    Ok((state, ledger))
}

/// The content of the storage as last written, so that only differences are written.
#[derive(Default)]
pub struct StoredState {
    user_is_kept: bool,
    epoch: Option<u64>,
    rows: HashSet<ConversationId>,
    messages: HashMap<ConversationId, BTreeSet<Seq>>,
    drafts: HashMap<ConversationId, String>,
}

impl StoredState {
    /// Returns the changes that bring the storage up to date. Records them as written, so the
    /// caller must pass them to the storage writer.
    pub fn changes(&mut self, state: &mut State) -> Vec<Change> {
        let mut changes = Vec::new();
        if !self.user_is_kept {
            changes.push(Change::put("user", state.user.as_str()));
            self.user_is_kept = true;
        }
        if self.epoch != state.epoch
            && let Some(epoch) = state.epoch
        {
            changes.push(Change::put("epoch", epoch.to_string()));
            self.epoch = state.epoch;
        }
        if state.dirty.is_empty() {
            return changes;
        }
        let latest = state.inbox.latest(KEPT_ROWS);
        let kept: HashMap<ConversationId, usize> =
            latest.iter().enumerate().map(|(rank, row)| (row.entry.conversation_id, rank)).collect();
        let fallen: Vec<ConversationId> =
            self.rows.iter().filter(|id| !kept.contains_key(id)).copied().collect();
        for id in std::mem::take(&mut state.dirty).into_iter().chain(fallen) {
            let rank = kept.get(&id).copied();
            match rank.and_then(|_| state.inbox.get(id)) {
                Some(row) => {
                    let row = StoredRow { entry: row.entry.clone(), have_seq: row.have_seq };
                    changes.push(Change::put(row_key(id), json(&row)));
                    self.rows.insert(id);
                }
                None if self.rows.remove(&id) => changes.push(Change::remove(row_key(id))),
                None => {}
            }
            let timeline = rank.filter(|rank| *rank < KEPT_TIMELINES).and_then(|_| state.timelines.get(&id));
            self.messages_of(id, timeline, &mut changes);
            self.draft_of(id, state.drafts.get(&id), &mut changes);
        }
        changes
    }

    fn draft_of(&mut self, id: ConversationId, draft: Option<&String>, changes: &mut Vec<Change>) {
        if self.drafts.get(&id) == draft {
            return;
        }
        let key = format!("draft/{id}");
        match draft {
            Some(text) => {
                self.drafts.insert(id, text.clone());
                changes.push(Change::put(key, text.as_str()));
            }
            None => {
                self.drafts.remove(&id);
                changes.push(Change::remove(key));
            }
        }
    }

    fn messages_of(&mut self, id: ConversationId, timeline: Option<&Timeline>, changes: &mut Vec<Change>) {
        let kept = self.messages.entry(id).or_default();
        let mut wanted = BTreeSet::new();
        let mut bytes = 0;
        // Store only runs that reach the head: after a restart the client first shows the newest
        // messages.
        let shown = timeline.filter(|timeline| timeline.window().reaches_head);
        for message in shown.into_iter().flat_map(|timeline| timeline.messages().rev()) {
            bytes += message.content.len();
            // Content type `lost` means that the server could not read the content. Do not store
            // it, so that the next start fetches it again.
            let is_lost = message.content_type == "lost";
            if wanted.len() >= KEPT_MESSAGES || bytes > KEPT_BYTES || is_lost {
                break;
            }
            wanted.insert(message.seq);
            if !kept.contains(&message.seq) {
                changes.push(Change::put(message_key(id, message.seq), json(message.as_ref())));
            }
        }
        changes.extend(kept.difference(&wanted).map(|seq| Change::remove(message_key(id, *seq))));
        if wanted.is_empty() {
            self.messages.remove(&id);
        } else {
            *kept = wanted;
        }
    }

    /// Returns the removal of all stored messages. Used when the server's epoch changes, because a
    /// seq may then hold another message.
    pub fn forget_messages(&mut self) -> Vec<Change> {
        let kept = std::mem::take(&mut self.messages);
        kept.into_iter()
            .flat_map(|(id, seqs)| seqs.into_iter().map(move |seq| Change::remove(message_key(id, seq))))
            .collect()
    }
}
