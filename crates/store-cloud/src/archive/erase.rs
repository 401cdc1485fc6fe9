//! Permanent deletion of content. The steps survive a crash at any point. First the request becomes
//! durable, before it is acknowledged. A search then writes one note per conversation with the
//! content to erase. The content is removed from the rows, whether hot or archived, so that no call
//! returns it. It is then removed from the inbox entries and from the objects. After a last check
//! of the inboxes, the note is deleted.
//!
//! A segment is rewritten under its next revision, since others' messages lie in it too; one of which nothing is left
//! is deleted. ([ADR 12](../../../../docs/adr/0012-erasure.md))

use std::sync::Arc;

use bluetick_archive::is_damage;
use bluetick_archive::jobs::{ErasureScope, Search};
use bluetick_core::ports::{ArchiveError, ColdCount};
use bluetick_core::{ContentType, ConversationId, Message, Seq, StoreError, Timestamp, UserId};

use super::job::{Job, Stored};
use crate::cells::Cell;
use crate::engine::Engine;
use crate::memberships::RoomRow;
use crate::rows::{Item, Key, Only, Query, Sort, SortRange, Table, Value, Written};

/// Something that is being erased: written before anything is, and taken away after everything was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Erasure {
    pub conversation: ConversationId,
    /// Only what this user wrote.
    pub sender: Option<UserId>,
    pub through: Seq,
    /// When all of it was done, but for a last look at the inboxes.
    done_at: Option<Timestamp>,
}

/// Where the notes are: a user that cannot be, as for [`shared_key`](crate::people::shared_key).
const NOTES: &str = "\u{1}erasures";

/// Other nodes may be about to write a line of an inbox, with a preview of what they know. After so long they have.
const LAST_LOOK_MILLIS: i64 = 3_600 * 1_000;

/// Places that are closed at a time where nobody wrote.
pub(super) const MOST_HOLES: u64 = 1_000;

/// How often rows may be changed by somebody else while they are erased.
const ATTEMPTS: u32 = 5;

impl Erasure {
    pub fn new(conversation: ConversationId, sender: Option<UserId>, through: Seq) -> Erasure {
        Erasure { conversation, sender, through, done_at: None }
    }

    pub fn is_done(&self) -> bool {
        self.done_at.is_some()
    }

    fn key(&self) -> Key {
        let sender = self.sender.as_ref().map_or("", UserId::as_str);
        Key::text(NOTES, format!("{}\u{1}{sender}", self.conversation))
    }

    fn decode(sort: &Sort, item: &Item) -> Option<Erasure> {
        let Sort::Text(text) = sort else { return None };
        let (conversation, sender) = text.split_once('\u{1}')?;
        let sender = if sender.is_empty() { None } else { Some(UserId::from_stored(sender).ok()?) };
        let through = Seq::new(item.find_count("through"));
        let done_at = item.find_number("done_at").map(Timestamp::from_millis);
        Some(Erasure { conversation: conversation.parse().ok()?, sender, through, done_at })
    }

    fn is_about(&self, seq: Seq, sender: &str) -> bool {
        seq <= self.through && self.sender.as_ref().is_none_or(|only| only.as_str() == sender)
    }

    /// Whether the content of this message goes. What the server itself said stays: it tells who came and went.
    fn takes(&self, seq: Seq, sender: &str, content_type: &ContentType) -> bool {
        let stays = matches!(content_type, ContentType::System | ContentType::Erased | ContentType::Void);
        !stays && self.is_about(seq, sender)
    }

    /// Whether it is one of those that went.
    pub fn took(&self, message: &Message) -> bool {
        message.content_type == ContentType::Erased && self.is_about(message.seq, message.sender.as_str())
    }
}

/// An erasure as an operator asked for it: replaced by one [`Erasure`] for each conversation that
/// has something to erase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub conversation: Option<ConversationId>,
    pub sender: Option<UserId>,
    /// `None`: up to the head that the search finds.
    pub through: Option<Seq>,
}

/// In front of the sort key of a request. No conversation has such an id, so nodes of an earlier
/// version skip it.
const REQUEST: &str = "request";

impl Request {
    /// Identical requests share one key.
    fn key(&self) -> Key {
        let conversation = self.conversation.map(|id| id.to_string()).unwrap_or_default();
        let sender = self.sender.as_ref().map_or("", UserId::as_str);
        let through = self.through.map(|seq| seq.get().to_string()).unwrap_or_default();
        Key::text(NOTES, format!("{REQUEST}\u{1}{conversation}\u{1}{sender}\u{1}{through}"))
    }

    fn decode(sort: &Sort) -> Option<Request> {
        let Sort::Text(text) = sort else { return None };
        let mut parts = text.split('\u{1}');
        if parts.next() != Some(REQUEST) {
            return None;
        }
        let (conversation, sender, through) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Request {
            conversation: if conversation.is_empty() { None } else { Some(conversation.parse().ok()?) },
            sender: if sender.is_empty() { None } else { Some(UserId::from_stored(sender).ok()?) },
            through: if through.is_empty() { None } else { Some(Seq::new(through.parse().ok()?)) },
        })
    }
}

/// Durable requests and notes that are not finished.
#[derive(Default)]
pub(super) struct Noted {
    pub requests: Vec<Request>,
    /// Also those of which only the last look is left.
    pub erasures: Vec<Erasure>,
}

impl Noted {
    pub fn unfinished(&self) -> u64 {
        (self.requests.len() + self.erasures.iter().filter(|erasure| !erasure.is_done()).count()) as u64
    }
}

impl Engine {
    pub(super) async fn noted_erasures(&self) -> Result<Noted, StoreError> {
        let (mut found, mut range) = (Noted::default(), SortRange::All);
        loop {
            let query = Query {
                table: Table::Conversations,
                partition: NOTES.to_owned(),
                range,
                descending: false,
                limit: 1_000,
                fields: &[],
            };
            let slice = self.rows.query(query).await?;
            for (sort, item) in &slice.rows {
                found.requests.extend(Request::decode(sort));
                found.erasures.extend(Erasure::decode(sort, item));
            }
            match slice.rows.last() {
                Some((Sort::Text(last), _)) if slice.more => range = SortRange::After(last.clone()),
                _ => return Ok(found),
            }
        }
    }
}

impl Job<'_> {
    /// Makes the request durable.
    pub(super) async fn accept_request(&mut self, scope: ErasureScope) -> Result<Request, ArchiveError> {
        let ErasureScope { conversation, sender, through } = scope;
        let request = Request { conversation, sender, through };
        let (key, item) = (request.key(), Item::new().versioned(1));
        let put = self.engine.rows.put(Table::Conversations, &key, &item, Only::Always).await;
        put.map_err(StoreError::from)?;
        Ok(request)
    }

    /// Writes the records one by one, then deletes the request.
    pub(super) async fn note_all(
        &mut self,
        request: &Request,
        found: &[Erasure],
    ) -> Result<(), ArchiveError> {
        for erasure in found {
            self.go_on().await?;
            let key = erasure.key();
            let there = self.engine.rows.get(Table::Conversations, &key).await.map_err(StoreError::from)?;
            let before = there.map_or(0, |item| item.find_count("through"));
            let item = Item::new().count("through", before.max(erasure.through.get())).versioned(1);
            let put = self.engine.rows.put(Table::Conversations, &key, &item, Only::Always).await;
            put.map_err(StoreError::from)?;
        }
        let rows = &self.engine.rows;
        rows.delete(Table::Conversations, &request.key(), Only::Always).await.map_err(StoreError::from)?;
        Ok(())
    }

    /// Keeps the conversations of which the user was ever a member. A member that left keeps a row.
    pub(super) async fn retain_conversations_of(
        &self,
        user: &UserId,
        rooms: &mut Vec<RoomRow>,
    ) -> Result<(), ArchiveError> {
        let keys = rooms.iter().map(|room| (Table::Members, Key::text(room.facts.id, user)));
        let members = self.engine.rows.get_many(keys.collect()).await.map_err(StoreError::from)?;
        let mut members = members.into_iter();
        rooms.retain(|_| members.next().is_some_and(|member| member.is_some()));
        Ok(())
    }

    /// Returns the erasure of one conversation, if it has content to erase. A conversation that
    /// cannot be searched counts as one with content, so that its record keeps the erasure pending.
    pub(super) async fn find_in(
        &self,
        id: ConversationId,
        scope: &ErasureScope,
    ) -> Result<Search<Erasure>, ArchiveError> {
        let head = self.engine.head(id).await?;
        let through = scope.through.map_or(head, |through| through.min(head));
        let erasure = Erasure::new(id, scope.sender.clone(), through);
        let mut is_needed = false;
        let visit = |seq, sender: &str, kind: ContentType| is_needed |= erasure.takes(seq, sender, &kind);
        match self.engine.each_writer(id, Seq::FIRST, through, visit).await.map_err(ArchiveError::from) {
            Err(error) if is_damage(&error) => Ok(Search { erasure: Some(erasure), damage: Some(error) }),
            searched => {
                searched?;
                Ok(Search { erasure: is_needed.then_some(erasure), damage: None })
            }
        }
    }

    /// Marks the record as done. It stays until the inboxes are checked once more.
    pub(super) async fn mark_done(&mut self, erasure: &Erasure) -> Result<(), ArchiveError> {
        let (through, now) = (erasure.through.get(), self.engine.clock.now());
        let item = Item::new().count("through", through).number("done_at", now.millis()).versioned(2);
        let put = self.engine.rows.put(Table::Conversations, &erasure.key(), &item, Only::Always).await;
        put.map_err(StoreError::from)?;
        Ok(())
    }

    /// Checks the inboxes once more, after other nodes have written all pending entries, and deletes
    /// the record.
    pub(super) async fn check_inboxes(&mut self, erasure: &Erasure) -> Result<(), ArchiveError> {
        let Some(done_at) = erasure.done_at else { return Ok(()) };
        if self.engine.clock.now().millis().saturating_sub(done_at.millis()) > LAST_LOOK_MILLIS {
            self.erase_previews(erasure).await?;
            let (rows, key) = (&self.engine.rows, erasure.key());
            rows.delete(Table::Conversations, &key, Only::Always).await.map_err(StoreError::from)?;
        }
        Ok(())
    }

    /// Erases in the rows, without the object archive. Returns the number of erased messages.
    pub(super) async fn erase_rows(&mut self, erasure: &Erasure) -> Result<u64, ArchiveError> {
        let id = erasure.conversation;
        let (mut erased, mut cold, mut next, mut attempts) = (0, 0, Seq::FIRST, 0);
        while next <= erasure.through {
            let (cells, more) = self.stored(id, next, erasure.through, 1_000).await?;
            let Some(last) = cells.last().map(Stored::seq) else { break };
            if let Some((first, last)) = first_gap(&cells, next) {
                // Whoever is late and writes there would be too late to be erased; it takes another place, above.
                self.engine.dense(id, first, last).await?;
                continue;
            }
            let taken: Vec<Stored> =
                cells.into_iter().filter(|stored| erasure.takes_cell(&stored.cell)).collect();
            let without: Vec<Stored> = taken.iter().map(without_content).collect();
            let done = self.change(&without).await?;
            erased += done.iter().filter(|done| **done).count() as u64;
            cold +=
                taken.iter().zip(&done).filter(|(taken, done)| **done && taken.cell.cold.is_some()).count();
            if done.contains(&false) {
                attempts += 1;
                if attempts == ATTEMPTS {
                    return Err(changed_meanwhile(id));
                }
                continue;
            }
            if !more {
                break;
            }
            next = last.next();
        }
        self.erase_previews(erasure).await?;
        self.shared.subtract(&ColdCount { messages: cold as u64, ..ColdCount::default() });
        Ok(erased)
    }

    async fn erase_previews(&mut self, erasure: &Erasure) -> Result<(), ArchiveError> {
        let id = erasure.conversation;
        let engine = self.engine;
        let (members, _) = engine.read_members_now(id).await?;
        let keys: Vec<_> = members.iter().map(|member| Key::text(&member.user, id)).collect();
        let wanted = keys.iter().map(|key| (Table::Conversations, key.clone())).collect();
        let rows = engine.rows.get_many(wanted).await.map_err(StoreError::from)?;
        for (key, row) in keys.iter().zip(rows) {
            self.go_on().await?;
            let mut row = row;
            while let Some(mut there) = row.take() {
                let last = Seq::new(there.find_count("last_seq"));
                if last > erasure.through || there.find_text("preview").is_none_or(|text| text.is_empty()) {
                    break;
                }
                let shown = engine.cell(id, last).await?;
                if shown.is_none_or(|cell| !erasure.took(&cell.message)) {
                    break;
                }
                let version = there.version();
                there.set("preview", Value::Text("".into()));
                let (there, only) = (there.versioned(version + 1), Only::IfVersion(version));
                let put = engine.rows.put(Table::Conversations, key, &there, only).await;
                match put.map_err(StoreError::from)? {
                    Written::Done => {}
                    Written::Refused(newer) => row = newer,
                }
            }
        }
        Ok(())
    }
}

impl Erasure {
    fn takes_cell(&self, cell: &Cell) -> bool {
        let message = &cell.message;
        self.takes(message.seq, message.sender.as_str(), &message.content_type)
    }
}

/// Places from `next` on that nobody has written to, below one that somebody has.
fn first_gap(cells: &[Stored], mut next: Seq) -> Option<(Seq, Seq)> {
    for stored in cells {
        if stored.seq() > next {
            return Some((next, stored.seq().previous().min(next.plus(MOST_HOLES - 1))));
        }
        next = stored.seq().next();
    }
    None
}

fn without_content(Stored { version, cell }: &Stored) -> Stored {
    let erased =
        Message { content_type: ContentType::Erased, content: "".into(), ..Message::clone(&cell.message) };
    Stored { version: *version, cell: Cell { message: Arc::new(erased), cold: None, ..cell.clone() } }
}

pub(super) fn changed_meanwhile(id: ConversationId) -> ArchiveError {
    StoreError::Failed(format!("{id} was changed by somebody else").into()).into()
}
