//! Copies or compares the whole store, several conversations concurrently.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bluetick_core::{ContentType, Conversation, ConversationId, Message, Seq};
use bluetick_store_cloud::import::{Comparison, ImportedPerson, ImportedRoom, Importer, Marker};
use bluetick_store_embedded::EmbeddedStore;
use bluetick_store_embedded::export::ExportedUser;
use futures_util::stream::{self, StreamExt};

use super::meter::MigrationTally;
use super::{in_source, in_target};
use crate::failure::Failure;

pub struct StoreCopy<'a> {
    pub store: &'a Arc<EmbeddedStore>,
    pub importer: &'a Importer,
    pub tally: &'a MigrationTally,
    pub may_replace: bool,
}

/// Number of people read per request to the source. It bounds memory.
const PEOPLE: usize = 100;
/// Number of conversation ids read per request to the source. It bounds memory.
const IDS: usize = 512;
/// Number of conversations copied or compared concurrently. Bounds memory and requests in flight.
const CONVERSATIONS: usize = 16;
/// Minimum number of messages per write, if the conversation has as many: 8 batches of 25 rows,
/// which is what the tables write concurrently.
const MESSAGES: usize = 200;
/// Minimum time between two saves of the marker. A resumed run repeats the work since the last save
/// and finds those rows present.
const SAVE_EVERY: Duration = Duration::from_secs(2);

/// The messages copied from one conversation.
#[derive(Clone, Copy, Default)]
struct Count {
    messages: u64,
    lost: u64,
    erased: u64,
}

impl Count {
    fn add(&mut self, messages: &[Message]) {
        let of = |kind: &ContentType| messages.iter().filter(|message| message.content_type == *kind).count();
        self.messages += messages.len() as u64;
        self.lost += of(&ContentType::Lost) as u64;
        self.erased += of(&ContentType::Erased) as u64;
    }
}

impl StoreCopy<'_> {
    /// Copies everything after the position in the marker, and updates the marker.
    pub async fn copy(&self, marker: &mut Marker) -> Result<(), Failure> {
        let mut saved = Instant::now();
        while !marker.are_people_copied {
            let people = self.people(marker.people_after.clone()).await?;
            match people.last() {
                Some(last) => marker.people_after = Some(last.id.clone()),
                None => marker.are_people_copied = true,
            }
            marker.people += people.len() as u64;
            let copied = self.importer.people(&people, self.may_replace).await.map_err(in_target)?;
            self.tally.copied(copied);
            self.save(marker, &mut saved, false).await?;
        }
        while !marker.is_copied {
            let ids = self.store.export_ids(marker.rooms_after, IDS).await.map_err(in_source)?;
            marker.is_copied = ids.is_empty();
            let mut copying = stream::iter(&ids)
                .map(|id| async { (*id, self.copy_room(*id).await) })
                .buffered(CONVERSATIONS);
            // Take results in order, so that everything before the marker is copied.
            while let Some((id, count)) = copying.next().await {
                let count = count?;
                marker.rooms_after = Some(id);
                marker.conversations += 1;
                marker.messages += count.messages;
                marker.lost += count.lost;
                marker.erased += count.erased;
                self.save(marker, &mut saved, false).await?;
            }
        }
        self.save(marker, &mut saved, true).await
    }

    async fn save(&self, marker: &mut Marker, saved: &mut Instant, at_once: bool) -> Result<(), Failure> {
        if !at_once && saved.elapsed() < SAVE_EVERY {
            return Ok(());
        }
        *saved = Instant::now();
        self.importer.save(marker).await.map_err(in_target)
    }

    async fn people(&self, after: Option<bluetick_core::UserId>) -> Result<Vec<ImportedPerson>, Failure> {
        let people = self.store.export_people(after, PEOPLE).await.map_err(in_source)?;
        let imported = |ExportedUser { id, account, profile }| ImportedPerson { id, account, profile };
        Ok(people.into_iter().map(imported).collect())
    }

    async fn room(&self, id: ConversationId) -> Result<ImportedRoom, Failure> {
        let room = self.store.export_conversation(id).await.map_err(in_source)?;
        Ok(ImportedRoom { conversation: room.conversation, members: room.members })
    }

    /// The next messages, in seq order. Empty at the end.
    async fn messages(&self, conversation: &Conversation, after: Seq) -> Result<Vec<Message>, Failure> {
        let mut messages: Vec<Message> = Vec::new();
        while messages.len() < MESSAGES {
            let after = messages.last().map_or(after, |message| message.seq);
            let page = self.store.export_messages(conversation, after).await.map_err(in_source)?;
            if page.is_empty() {
                break;
            }
            messages.extend(page);
        }
        Ok(messages)
    }

    async fn copy_room(&self, id: ConversationId) -> Result<Count, Failure> {
        let room = self.room(id).await?;
        let conversation = room.conversation.clone();
        let mut copy = self.importer.room(room).await.map_err(in_target)?;
        let (mut count, mut after) = (Count::default(), Seq::ZERO);
        while after < conversation.head {
            let messages = self.messages(&conversation, after).await?;
            after = messages.last().map_or(conversation.head, |message| message.seq);
            count.add(&messages);
            let number = messages.len() as u64;
            copy.messages(messages).await.map_err(in_target)?;
            self.tally.passed_messages(number);
        }
        self.tally.copied(copy.finish().await.map_err(in_target)?);
        self.tally.passed_conversation();
        Ok(count)
    }

    /// Reads everything back from the tables and compares it with the source.
    pub async fn compare(&self) -> Result<Comparison, Failure> {
        let mut found = Comparison::default();
        let mut after = None;
        loop {
            let people = self.people(after).await?;
            let Some(last) = people.last() else { break };
            after = Some(last.id.clone());
            found.add(self.importer.compare_people(&people).await.map_err(in_target)?);
        }
        let mut after = None;
        loop {
            let ids = self.store.export_ids(after, IDS).await.map_err(in_source)?;
            let Some(last) = ids.last() else { return Ok(found) };
            after = Some(*last);
            let mut comparing = stream::iter(&ids).map(|id| self.compare_room(*id)).buffered(CONVERSATIONS);
            while let Some(compared) = comparing.next().await {
                found.add(compared?);
            }
        }
    }

    async fn compare_room(&self, id: ConversationId) -> Result<Comparison, Failure> {
        let room = self.room(id).await?;
        let conversation = room.conversation.clone();
        let mut comparing = self.importer.compare_room(room);
        let mut after = Seq::ZERO;
        while after < conversation.head {
            let messages = self.messages(&conversation, after).await?;
            after = messages.last().map_or(conversation.head, |message| message.seq);
            let number = messages.len() as u64;
            comparing.messages(messages).await.map_err(in_target)?;
            self.tally.passed_messages(number);
        }
        let found = comparing.finish().await.map_err(in_target)?;
        self.tally.passed_conversation();
        Ok(found)
    }
}
