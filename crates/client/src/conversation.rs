//! The handle of one conversation.

use std::sync::Arc;

use bluetick_core::{ConversationId, MessageId, Seq, UserId};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::api::{ApiError, PAGE_LIMIT, PageFrom};
use crate::keeper::{Batch, Order};
use crate::keeping::{outbox_change, outbox_removal};
use crate::shared::Shared;
use crate::state::inbox::Row;
use crate::state::outbox::{CannotCancel, MOST_WAITING, OutboxItem, SendState};
use crate::state::timeline::{Timeline, Window};
use crate::ticks::{Tick, tick_of};
use crate::wire::bodies::{ConversationDetail, MemberStatus, Message, Presence, Receipts, SettingsChange};

/// Messages that are shown at most; what lies beyond is a page away.
const MOST_SHOWN: usize = 2_000;

#[derive(Clone)]
pub struct Conversation {
    shared: Arc<Shared>,
    id: ConversationId,
}

/// What there is to show of a conversation, at one moment.
#[derive(Clone)]
pub struct ConversationView {
    pub user: UserId,
    /// `None` while the server has not been asked, and when one is not in it any more.
    pub row: Option<Arc<Row>>,
    /// Stored messages, in order and without a hole. Places that nobody wrote to are left out.
    pub messages: Vec<Arc<Message>>,
    pub window: Window,
    /// Whether messages were looked for at all.
    pub is_loaded: bool,
    /// What is on its way, in the order of writing. It belongs behind the newest message.
    pub waiting: Vec<(OutboxItem, SendState)>,
    /// Who is typing, by name.
    pub typists: Vec<UserId>,
    /// Of the other person of a direct conversation.
    pub presence: Option<Presence>,
    /// Moves on when the messages change.
    pub revision: u64,
}

impl ConversationView {
    /// The tick of a message of one's own.
    pub fn tick(&self, message: &Message) -> Option<Tick> {
        let is_own = message.sender_id == self.user && message.is_said();
        is_own.then(|| {
            tick_of(message.seq, self.row.as_ref().map(|row| row.entry.peer_status).unwrap_or_default())
        })
    }
}

#[derive(Debug, Error)]
pub enum SendError {
    #[error("an empty message cannot be sent")]
    Empty,
    #[error("{MOST_WAITING} messages are waiting already; some of them have to go first")]
    Full,
    #[error("the client has been stopped")]
    Stopped,
}

/// While it lives, the conversation is looked at, and its messages are not let go.
pub struct Watching {
    shared: Arc<Shared>,
    id: ConversationId,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.shared.change(|state| state.unwatch(self.id));
    }
}

fn shown(timeline: &Timeline) -> Vec<Arc<Message>> {
    timeline.messages().filter(|message| !message.is_void()).cloned().collect()
}

impl Conversation {
    pub(crate) fn new(shared: Arc<Shared>, id: ConversationId) -> Conversation {
        Conversation { shared, id }
    }

    pub fn id(&self) -> ConversationId {
        self.id
    }

    /// Says that a person looks at it.
    pub fn watch(&self) -> Watching {
        self.shared.change(|state| state.watch(self.id));
        Watching { shared: Arc::clone(&self.shared), id: self.id }
    }

    pub fn view(&self) -> ConversationView {
        let now = Instant::now();
        self.shared.read(|state| {
            let row = state.inbox.get(self.id).cloned();
            let timeline = state.timelines.get(&self.id);
            let peer = row.as_ref().and_then(|row| row.entry.peer.as_ref());
            ConversationView {
                user: state.user.clone(),
                messages: timeline.map(shown).unwrap_or_default(),
                window: timeline.map(|timeline| timeline.window()).unwrap_or_default(),
                is_loaded: timeline.is_some_and(|timeline| timeline.is_loaded()),
                waiting: state.outbox.of_conversation(self.id),
                typists: state.signals.typists(self.id, now),
                presence: peer.and_then(|peer| state.signals.presence(peer)).cloned(),
                revision: timeline.map_or(0, |timeline| timeline.revision),
                row,
            }
        })
    }

    /// Sends a text. When this returns, the message is kept: it is sent now or as soon as there is a connection.
    pub async fn send(&self, text: &str) -> Result<OutboxItem, SendError> {
        self.send_as(text, None).await
    }

    /// The same for content that is no plain text.
    pub async fn send_as(&self, content: &str, content_type: Option<&str>) -> Result<OutboxItem, SendError> {
        if content.is_empty() {
            return Err(SendError::Empty);
        }
        // The place in the queue first: from then on nothing waits, so a caller that gives up loses no message.
        let place = self.shared.orders.reserve().await.map_err(|_| SendError::Stopped)?;
        let timestamp = self.shared.clock.now();
        let message_id = self.shared.new_message_id(timestamp);
        let item = self.shared.change(|state| {
            if state.outbox.is_full() {
                return None;
            }
            let item = OutboxItem {
                number: 0,
                conversation_id: self.id,
                message_id,
                content: content.to_owned(),
                content_type: content_type.map(str::to_owned),
                timestamp,
                after_seq: state.inbox.get(self.id).map_or(Seq::ZERO, |row| row.have_seq),
                attempted: false,
                failure: None,
            };
            let is_online = state.connection.caught_up;
            Some(state.outbox.add(item, is_online))
        });
        let item = item.ok_or(SendError::Full)?;
        let (done, kept) = oneshot::channel();
        let (changes, outgoing) = (vec![outbox_change(&item)], vec![item.message_id.clone()]);
        place.send(Order::Write(Batch { changes, outgoing, done: Some(done) }));
        kept.await.map_err(|_| SendError::Stopped)?;
        Ok(item)
    }

    /// Where a message that was written here is on its way; `None` for one of long ago.
    pub fn send_state(&self, id: &MessageId) -> Option<SendState> {
        self.shared.read(|state| state.outbox.state(id))
    }

    /// Tries again what was refused for good. False when it was not.
    pub async fn retry(&self, id: &MessageId) -> bool {
        let Some(item) = self.shared.change(|state| state.outbox.retry(id)) else { return false };
        self.keep(vec![outbox_change(&item)]).await;
        true
    }

    /// Gives up a message, where it is certain that the server does not have it.
    pub async fn cancel(&self, id: &MessageId) -> Result<OutboxItem, CannotCancel> {
        let item = self.shared.change(|state| state.outbox.cancel(id))?;
        self.keep(vec![outbox_removal(&item)]).await;
        Ok(item)
    }

    /// What was being written and is not sent.
    pub fn draft(&self) -> String {
        self.shared.read(|state| state.drafts.get(&self.id).cloned().unwrap_or_default())
    }

    /// Keeps what is being written, also for the next life; nothing where it is empty.
    pub fn set_draft(&self, text: &str) {
        self.shared.change(|state| state.set_draft(self.id, text));
    }

    async fn keep(&self, changes: Vec<crate::storage::Change>) {
        let (done, kept) = oneshot::channel();
        let batch = Batch { changes, outgoing: Vec::new(), done: Some(done) };
        if self.shared.orders.send(Order::Write(batch)).await.is_ok() {
            // A keeper that has ended keeps nothing more.
            let _kept = kept.await;
        }
    }

    /// Everything up to `seq` was read; everything that is here where it is not given.
    pub fn mark_read(&self, seq: Option<Seq>) {
        self.shared.change(|state| state.mark_read(self.id, seq));
    }

    /// The person is typing. Say it with every key; the others are told every few seconds.
    pub fn typing(&self) {
        let now = Instant::now();
        let is_news = self
            .shared
            .arrange(|state| state.connection.caught_up && state.signals.typing_here(self.id, now));
        if is_news {
            self.shared.wake.notify_one();
        }
    }

    /// Makes sure that the newest messages are here.
    pub async fn load_newest(&self) -> Result<(), ApiError> {
        let page = self.shared.api.page(self.id, PageFrom::Newest, PAGE_LIMIT / 2).await?;
        self.shared.change(|state| {
            state.touch(self.id).add_newest(page);
            state.changed(self.id);
        });
        Ok(())
    }

    /// The page before the first message that is here. The far end is let go where there are too many.
    pub async fn load_older(&self) -> Result<(), ApiError> {
        let window = self.view().window;
        if window.reaches_start || window.from_seq == Seq::ZERO {
            return Ok(());
        }
        let page = self.shared.api.page(self.id, PageFrom::Before(window.from_seq), PAGE_LIMIT).await?;
        self.shared.change(|state| {
            let timeline = state.touch(self.id);
            timeline.add_older(page);
            timeline.drop_newest(MOST_SHOWN);
            state.changed(self.id);
        });
        Ok(())
    }

    /// The page behind the last message that is here, where that is not the newest.
    pub async fn load_newer(&self) -> Result<(), ApiError> {
        let window = self.view().window;
        if window.reaches_head || window.to_seq == Seq::ZERO {
            return Ok(());
        }
        let page = self.shared.api.page(self.id, PageFrom::After(window.to_seq), PAGE_LIMIT).await?;
        self.shared.change(|state| {
            let timeline = state.touch(self.id);
            timeline.add_newer(page);
            timeline.drop_oldest(MOST_SHOWN);
            state.changed(self.id);
        });
        Ok(())
    }

    /// The conversation and who is in it.
    pub async fn detail(&self) -> Result<ConversationDetail, ApiError> {
        self.shared.api.conversation(self.id).await
    }

    /// How far everybody has come.
    pub async fn statuses(&self) -> Result<Vec<MemberStatus>, ApiError> {
        self.shared.api.statuses(self.id).await
    }

    /// How many have one message.
    pub async fn receipts(&self, seq: Seq) -> Result<Receipts, ApiError> {
        self.shared.api.receipts(self.id, seq).await
    }

    /// Who is there.
    pub async fn presence(&self) -> Result<Vec<Presence>, ApiError> {
        let presences = self.shared.api.presence(self.id).await?;
        self.shared
            .change(|state| presences.iter().cloned().for_each(|one| state.signals.learn_presence(one)));
        Ok(presences)
    }

    pub async fn add_members(&self, members: &[UserId]) -> Result<(), ApiError> {
        self.shared.api.add_members(self.id, members).await.map(|_| ())
    }

    pub async fn remove_member(&self, member: &UserId) -> Result<(), ApiError> {
        self.shared.api.remove_member(self.id, member).await
    }

    pub async fn leave(&self) -> Result<(), ApiError> {
        let user = self.shared.read(|state| state.user.clone());
        self.shared.api.remove_member(self.id, &user).await?;
        self.shared.change(|state| state.gone(self.id));
        Ok(())
    }

    /// Pins, mutes, archives; shows or hides what was read.
    pub async fn change_settings(&self, change: SettingsChange) -> Result<(), ApiError> {
        let entry = self.shared.api.change_settings(self.id, change).await?;
        self.shared.change(|state| state.learn(entry));
        Ok(())
    }
}
