//! The cells of a conversation: how a message is written into its place, once, and how places are read back without a
//! gap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::inbox::preview_of;
use bluetick_core::{ContentType, ConversationId, Message, MessageId, Seq, StoreError, Timestamp, UserId};
use tokio::time::{Instant, sleep};

use crate::archive::{SegmentRef, content_hash};
use crate::engine::Engine;
use crate::hot::reader::Found;
use crate::rows::{Item, Only, Table, Written};

/// What stands in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub message: Arc<Message>,
    /// The latest moment of any message up to here; a clock that was set back does not take it back. `None` of a void.
    pub last_at: Option<Timestamp>,
    /// Who left by this message.
    pub departed: Option<UserId>,
    /// Where the content is that `message` is without: see [`Engine::fill`].
    pub cold: Option<Cold>,
}

/// What a row has in place of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cold {
    pub place: SegmentRef,
    /// Of a message that was the newest when it was moved, so that inboxes are shown without the archive.
    pub preview: Option<Arc<str>>,
    /// Tells whether something is the same without the archive: [`content_hash`].
    pub content_hash: Arc<str>,
}

impl Cell {
    pub fn seq(&self) -> Seq {
        self.message.seq
    }

    pub fn is_void(&self) -> bool {
        self.message.content_type == ContentType::Void
    }

    /// Whether this is what it says, wherever its content lies.
    pub fn says(&self, content_type: &ContentType, content: &str) -> bool {
        let is_content = match &self.cold {
            Some(cold) => *cold.content_hash == *content_hash(&self.message, content),
            None => *self.message.content == *content,
        };
        is_content && self.message.content_type == *content_type
    }

    /// Whether it is the same message, wherever the content of this one lies.
    pub fn is(&self, other: &Cell) -> bool {
        let Message { content_type, content, .. } = &*other.message;
        let with_its = Message { content: Arc::clone(content), ..(*self.message).clone() };
        with_its == *other.message && self.says(content_type, content)
    }

    /// What an inbox shows of it.
    pub fn preview(&self) -> &str {
        match &self.cold {
            Some(cold) => cold.preview.as_deref().unwrap_or_default(),
            None => preview_of(&self.message.content_type, &self.message.content),
        }
    }

    pub fn item(&self) -> Item {
        let message = &self.message;
        let mut item = Item::new()
            .text("message_id", message.message_id.to_string())
            .text("sender_id", message.sender.as_str())
            .text_if("receiver_id", message.receiver.as_ref().map(UserId::as_str))
            .text("content_type", message.content_type.as_str())
            .number("timestamp", message.timestamp.millis())
            .number("received_at", message.received_at.millis())
            .text_if("departed", self.departed.as_ref().map(UserId::as_str));
        if let Some(last_at) = self.last_at {
            item = item.number("last_at", last_at.millis());
        }
        match &self.cold {
            None => item.text("content", Arc::clone(&message.content)),
            Some(cold) => item
                .text("s3_ref", cold.place.to_string())
                .text("content_hash", Arc::clone(&cold.content_hash))
                .text_if("preview", cold.preview.clone()),
        }
    }

    pub fn decode(conversation: ConversationId, seq: Seq, item: &Item) -> Result<Cell, StoreError> {
        let user = |text: &Arc<str>| {
            UserId::from_stored(text)
                .map_err(|_| StoreError::Damaged(format!("a user id in {conversation}/{seq}").into()))
        };
        let cold = match item.find_text("s3_ref") {
            None => None,
            Some(text) => {
                let place = text.parse();
                let place = place
                    .map_err(|_| StoreError::Damaged(format!("the s3_ref of {conversation}/{seq}").into()))?;
                let content_hash = Arc::clone(item.get_text("content_hash")?);
                Some(Cold { place, preview: item.find_text("preview").cloned(), content_hash })
            }
        };
        let content = if cold.is_some() { "".into() } else { Arc::clone(item.get_text("content")?) };
        let message = Message {
            conversation,
            seq,
            message_id: MessageId::from_stored(item.get_text("message_id")?),
            sender: user(item.get_text("sender_id")?)?,
            receiver: item.find_text("receiver_id").map(user).transpose()?,
            content_type: ContentType::from_stored(item.get_text("content_type")?),
            content,
            timestamp: Timestamp::from_millis(item.get_number("timestamp")?),
            received_at: Timestamp::from_millis(item.get_number("received_at")?),
        };
        Ok(Cell {
            message: Arc::new(message),
            last_at: item.find_number("last_at").map(Timestamp::from_millis),
            departed: item.find_text("departed").map(user).transpose()?,
            cold,
        })
    }
}

/// What a write into a place came to.
pub(crate) enum Placed {
    Done,
    /// Somebody was there before.
    Taken(Cell),
}

/// So many places are read at a time.
pub(crate) const AT_ONCE: u64 = 1_000;

/// Between two looks at a gap that somebody may be about to fill.
const NEXT_LOOK: Duration = Duration::from_millis(20);

impl Engine {
    pub(crate) async fn place(&self, cell: &Cell) -> Result<Placed, StoreError> {
        let (conversation, seq) = (cell.message.conversation, cell.seq());
        let key = self.key_for(conversation, seq).await?;
        match self.rows.put(Table::Messages, &key, &cell.item(), Only::IfAbsent).await? {
            Written::Done => Ok(Placed::Done),
            Written::Refused(Some(item)) => Ok(Placed::Taken(Cell::decode(conversation, seq, &item)?)),
            Written::Refused(None) => {
                let item = self.rows.get(Table::Messages, &key).await?;
                let item =
                    item.ok_or_else(|| StoreError::NoAnswer("a place that is taken was empty".into()))?;
                Ok(Placed::Taken(Cell::decode(conversation, seq, &item)?))
            }
        }
    }

    pub(crate) async fn cell(
        &self,
        conversation: ConversationId,
        seq: Seq,
    ) -> Result<Option<Cell>, StoreError> {
        let found = self.reader.points(&[(conversation, seq)]).await?;
        let item = found.into_iter().next().flatten();
        item.map(|item| Cell::decode(conversation, seq, &item)).transpose()
    }

    /// Closes a place that nobody wrote to, and returns what stands there then.
    pub(crate) async fn close_hole(
        &self,
        conversation: ConversationId,
        seq: Seq,
    ) -> Result<Cell, StoreError> {
        let message = Arc::new(Message::void(conversation, seq, self.clock.now()));
        let void = Cell { message, last_at: None, departed: None, cold: None };
        match self.place(&void).await? {
            Placed::Done => {
                self.counters.voids.add(1);
                tracing::info!(%conversation, %seq, "nobody wrote to a place that was handed out; it is void now");
                Ok(void)
            }
            Placed::Taken(cell) => Ok(cell),
        }
    }

    /// The newest cell, void or not.
    pub(crate) async fn newest(&self, conversation: ConversationId) -> Result<Option<Cell>, StoreError> {
        let found = self.reader.shared_newest(conversation, 1).await?;
        let newest = found.last_key_value();
        newest.map(|(seq, item)| Cell::decode(conversation, *seq, item)).transpose()
    }

    /// The newest message that somebody wrote at or below `seq`, which is not above the head.
    pub(crate) async fn newest_message(
        &self,
        conversation: ConversationId,
        seq: Seq,
    ) -> Result<Option<Cell>, StoreError> {
        let (mut last, mut places) = (seq, 20);
        while last > Seq::ZERO {
            let first = last.minus(places - 1).max(Seq::FIRST);
            for (seq, item) in self.reader.range(conversation, (first, last), &[]).await?.iter().rev() {
                let cell = Cell::decode(conversation, *seq, item)?;
                if !cell.is_void() {
                    return Ok(Some(cell));
                }
            }
            last = first.previous();
            places = (places * 2).min(AT_ONCE);
        }
        Ok(None)
    }

    /// What is written in these places now, which lie at or below a head; holes are left out.
    pub(crate) async fn written(
        &self,
        conversation: ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<BTreeMap<Seq, Cell>, StoreError> {
        let mut found = BTreeMap::new();
        for window in windows(first, last) {
            for (seq, item) in self.reader.range(conversation, window, &[]).await? {
                found.insert(seq, Cell::decode(conversation, seq, &item)?);
            }
        }
        Ok(found)
    }

    /// Everything that is written from `first` on.
    pub(crate) async fn written_since(
        &self,
        conversation: ConversationId,
        first: Seq,
    ) -> Result<BTreeMap<Seq, Cell>, StoreError> {
        let newest = self.reader.newest(conversation, first, AT_ONCE as usize, &[]).await?;
        let mut found = BTreeMap::new();
        if let Some((lowest, _)) = newest.first_key_value()
            && newest.len() as u64 >= AT_ONCE
        {
            found = self.written(conversation, first, lowest.previous()).await?;
        }
        for (seq, item) in newest {
            found.insert(seq, Cell::decode(conversation, seq, &item)?);
        }
        Ok(found)
    }

    /// All of these places, which lie at or below a head. A hole is waited for and then closed.
    pub(crate) async fn dense(
        &self,
        conversation: ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<BTreeMap<Seq, Cell>, StoreError> {
        let wanted = last.next().distance_from(first);
        let noticed = Instant::now();
        let mut found = BTreeMap::new();
        for window in windows(first, last) {
            for (seq, item) in &*self.reader.shared_range(conversation, window).await? {
                found.insert(*seq, Cell::decode(conversation, *seq, item)?);
            }
        }
        while (found.len() as u64) < wanted {
            if noticed.elapsed() >= self.settings.void_after() {
                let holes = (first.get()..=last.get()).map(Seq::new).filter(|seq| !found.contains_key(seq));
                for seq in holes.collect::<Vec<_>>() {
                    found.insert(seq, self.close_hole(conversation, seq).await?);
                }
            } else {
                sleep(NEXT_LOOK.min(self.settings.void_after())).await;
                found = self.written(conversation, first, last).await?;
            }
        }
        Ok(found)
    }

    /// A moment for whoever is writing into these places, of which some are written; after a while they are closed.
    pub(crate) async fn wait_for_holes(
        &self,
        conversation: ConversationId,
        (first, last): (Seq, Seq),
        written: &BTreeSet<Seq>,
        noticed: Instant,
    ) -> Result<(), StoreError> {
        if noticed.elapsed() < self.settings.void_after() {
            sleep(NEXT_LOOK.min(self.settings.void_after())).await;
            return Ok(());
        }
        for seq in (first.get()..=last.get()).map(Seq::new).filter(|seq| !written.contains(seq)) {
            self.close_hole(conversation, seq).await?;
        }
        Ok(())
    }

    /// Walks upward over who wrote what, without the contents.
    pub(crate) async fn each_writer(
        &self,
        conversation: ConversationId,
        first: Seq,
        last: Seq,
        mut visit: impl FnMut(Seq, &str, ContentType) + Send,
    ) -> Result<(), StoreError> {
        for window in windows(first, last) {
            let fields = &["sender_id", "content_type"];
            for (seq, item) in &self.reader.range(conversation, window, fields).await? {
                let kind = ContentType::from_stored(item.get_text("content_type")?);
                visit(*seq, item.get_text("sender_id")?, kind);
            }
        }
        Ok(())
    }

    /// Ids from the newest cell downward, as far as `wanted` says so of a cell's [`Cell::last_at`] and seq.
    pub(crate) async fn each_id_downward(
        &self,
        conversation: ConversationId,
        mut visit: impl FnMut(IdRow) -> bool + Send,
    ) -> Result<(), StoreError> {
        let fields = &["message_id", "sender_id", "content_type", "received_at", "last_at"];
        // One query for all of a short conversation; of one that lies in many partitions each would give so many.
        let limit = if self.keeper.at_hand(conversation).was_ever_salted() { 1 } else { AT_ONCE };
        let mut found = self.reader.newest(conversation, Seq::FIRST, limit as usize, fields).await?;
        let mut may_be_more = found.len() as u64 >= limit;
        let mut last = Seq::ZERO;
        if let Some((lowest, _)) = found.first_key_value() {
            last = lowest.previous();
        }
        loop {
            for (seq, item) in found.iter().rev() {
                if !visit(IdRow::decode(*seq, item)?) {
                    return Ok(());
                }
            }
            if !may_be_more || last == Seq::ZERO {
                return Ok(());
            }
            let first = last.minus(AT_ONCE - 1).max(Seq::FIRST);
            found = self.reader.range(conversation, (first, last), fields).await?;
            last = first.previous();
            may_be_more = true;
        }
    }

    /// Looks for a message that was sent before, however long ago.
    pub(crate) async fn find_id(
        &self,
        conversation: ConversationId,
        after: Seq,
        sender: &UserId,
        id: &MessageId,
    ) -> Result<Option<Seq>, StoreError> {
        let (wanted, fields) = (id.to_string(), &["message_id", "sender_id"]);
        let search = |found: &Found| {
            for (seq, item) in found {
                if **item.get_text("message_id")? == *wanted
                    && **item.get_text("sender_id")? == *sender.as_str()
                {
                    return Ok(Some(*seq));
                }
            }
            Ok::<_, StoreError>(None)
        };
        let newest = self.reader.newest(conversation, after.next(), AT_ONCE as usize, fields).await?;
        if let Some(seq) = search(&newest)? {
            return Ok(Some(seq));
        }
        let Some((lowest, _)) = newest.first_key_value().filter(|_| newest.len() as u64 >= AT_ONCE) else {
            return Ok(None);
        };
        for window in windows(after.next(), lowest.previous()) {
            if let Some(seq) = search(&self.reader.range(conversation, window, fields).await?)? {
                return Ok(Some(seq));
            }
        }
        Ok(None)
    }
}

/// These places, as many at a time as one partition gives.
pub(crate) fn windows(first: Seq, last: Seq) -> impl Iterator<Item = (Seq, Seq)> {
    debug_assert!(last < Seq::MAX, "up to a head");
    let begins = std::iter::successors(Some(first), |begin| Some(begin.plus(AT_ONCE)));
    begins
        .take_while(move |begin| *begin <= last)
        .map(move |begin| (begin, last.min(begin.plus(AT_ONCE - 1))))
}

/// A cell without its content.
pub(crate) struct IdRow {
    pub seq: Seq,
    pub message_id: MessageId,
    pub sender: UserId,
    pub is_void: bool,
    pub received_at: Timestamp,
    pub last_at: Option<Timestamp>,
}

impl IdRow {
    pub fn decode(seq: Seq, item: &Item) -> Result<IdRow, StoreError> {
        let sender = UserId::from_stored(item.get_text("sender_id")?);
        Ok(IdRow {
            seq,
            message_id: MessageId::from_stored(item.get_text("message_id")?),
            sender: sender.map_err(|_| StoreError::Damaged(format!("the sender of seq {seq}").into()))?,
            is_void: ContentType::from_stored(item.get_text("content_type")?) == ContentType::Void,
            received_at: Timestamp::from_millis(item.get_number("received_at")?),
            last_at: item.find_number("last_at").map(Timestamp::from_millis),
        })
    }
}
