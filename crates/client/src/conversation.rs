//! [`Conversation`]: the handle of one conversation, and the snapshot that a screen draws.

use std::sync::Arc;

use bluetick_types::{ConversationId, MessageId, Seq, UserId};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::api::{ApiError, PAGE_LIMIT, PageFrom};
use crate::shared::Shared;
use crate::state::inbox::Row;
use crate::state::outbox::{CannotCancel, MOST_WAITING, OutboxItem, SendState};
use crate::state::timeline::{Timeline, Window};
use crate::storage_writer::{Order, StorageBatch};
use crate::stored_state::{outbox_change, outbox_removal};
use crate::ticks::{Tick, tick_of};
use crate::wire::bodies::{
    ConversationDetail, MemberStatus, Message, Presence, ReceiptCounts, SettingsChange,
};

/// Maximum number of messages held after loading an older or newer page. Paging beyond it drops
/// messages at the opposite end, which bounds memory.
const MOST_SHOWN: usize = 2_000;

/// The handle of one conversation. Cheap to clone. Reads come from memory; only `async` methods
/// make requests or write to the storage.
#[derive(Clone)]
pub struct Conversation {
    shared: Arc<Shared>,
    id: ConversationId,
}

/// A snapshot of one conversation.
#[derive(Clone)]
pub struct ConversationView {
    /// The user this client runs for.
    pub user: UserId,
    /// The inbox row. `None` if it is not loaded yet, or if the user is no longer a member.
    pub row: Option<Arc<Row>>,
    /// The loaded messages in seq order, contiguous except that voids are left out.
    pub messages: Vec<Arc<Message>>,
    /// The range of seqs that `messages` covers, voids included.
    pub window: Window,
    /// Whether any message or page was received. If `false`, an empty `messages` says nothing about
    /// the conversation.
    pub is_loaded: bool,
    /// Messages of this user that the server has not acknowledged, in the order they were written.
    /// Draw them below the newest message.
    pub waiting: Vec<(OutboxItem, SendState)>,
    /// Members who are typing, sorted by user id.
    pub typists: Vec<UserId>,
    /// Presence of the peer of a direct conversation. `None` if unknown, and in groups.
    pub presence: Option<Presence>,
    /// Increases with every change of `messages` or `window`.
    pub revision: u64,
}

impl ConversationView {
    /// The tick of a message. `None` if another user sent it, and for notices and voids.
    pub fn tick(&self, message: &Message) -> Option<Tick> {
        let is_own = message.sender_id == self.user && message.is_said();
        is_own.then(|| {
            tick_of(message.seq, self.row.as_ref().map(|row| row.entry.peer_status).unwrap_or_default())
        })
    }
}

/// Why [`Conversation::send`] did not accept a message. The message is not in the outbox, except
/// possibly after `Stopped`.
#[derive(Debug, Error)]
pub enum SendError {
    #[error("an empty message cannot be sent")]
    Empty,
    /// The outbox is full. Failed messages count too, until they are retried successfully or
    /// cancelled.
    #[error("the outbox is full: it holds {MOST_WAITING} messages")]
    OutboxFull,
    /// The client has stopped. If it stopped during the call, the message may already be in the
    /// storage.
    #[error("the client has been stopped")]
    Stopped,
}

/// Marks a conversation as watched until it is dropped. See [`Conversation::watch`].
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

    /// The id of the conversation.
    pub fn id(&self) -> ConversationId {
        self.id
    }

    /// Marks the conversation as watched while the returned guard lives. The client holds more
    /// messages of a watched conversation and does not evict it from memory.
    pub fn watch(&self) -> Watching {
        self.shared.change(|state| state.watch(self.id));
        Watching { shared: Arc::clone(&self.shared), id: self.id }
    }

    /// A snapshot of the conversation. Makes no request.
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

    /// Queues a text message and returns when it is in the storage. The client sends it as soon as
    /// it is connected, and resends it until the server answers.
    ///
    /// If the storage has failed, the message is held in memory only; see
    /// [`Event::Trouble`](crate::Event::Trouble). Dropping the future before it completes either
    /// queues the message or does nothing.
    ///
    /// # Errors
    ///
    /// Fails if `text` is empty, the outbox is full, or the client has stopped.
    pub async fn send(&self, text: &str) -> Result<OutboxItem, SendError> {
        self.send_as(text, None).await
    }

    /// Like [`Conversation::send`], with a content type. `None` means text.
    pub async fn send_as(&self, content: &str, content_type: Option<&str>) -> Result<OutboxItem, SendError> {
        if content.is_empty() {
            return Err(SendError::Empty);
        }
        // Reserve the queue slot before adding the item. No await follows until the item is queued,
        // so a cancelled caller cannot leave an item that is never stored.
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
        let item = item.ok_or(SendError::OutboxFull)?;
        let (done, kept) = oneshot::channel();
        let (changes, outgoing) = (vec![outbox_change(&item)], vec![item.message_id.clone()]);
        place.send(Order::Write(StorageBatch { changes, outgoing, done: Some(done) }));
        kept.await.map_err(|_| SendError::Stopped)?;
        Ok(item)
    }

    /// The send state of a message written on this device. `None` if the client does not know it,
    /// for example because it was sent long ago.
    pub fn send_state(&self, id: &MessageId) -> Option<SendState> {
        self.shared.read(|state| state.outbox.state(id))
    }

    /// Queues a permanently refused message again. Returns `false` if the message is not in that
    /// state.
    pub async fn retry(&self, id: &MessageId) -> bool {
        let Some(item) = self.shared.change(|state| state.outbox.retry(id)) else { return false };
        self.keep(vec![outbox_change(&item)]).await;
        true
    }

    /// Removes a message from the outbox. Fails with `OnItsWay` if the server may already have it.
    pub async fn cancel(&self, id: &MessageId) -> Result<OutboxItem, CannotCancel> {
        let item = self.shared.change(|state| state.outbox.cancel(id))?;
        self.keep(vec![outbox_removal(&item)]).await;
        Ok(item)
    }

    /// The draft: text that was written and not sent. Empty if there is none.
    pub fn draft(&self) -> String {
        self.shared.read(|state| state.drafts.get(&self.id).cloned().unwrap_or_default())
    }

    /// Replaces the draft; an empty text removes it. The client writes drafts to the storage within
    /// about a second.
    ///
    /// Discards the text if the conversation has no inbox row.
    pub fn set_draft(&self, text: &str) {
        self.shared.change(|state| state.set_draft(self.id, text));
    }

    async fn keep(&self, changes: Vec<crate::storage::Change>) {
        let (done, kept) = oneshot::channel();
        let batch = StorageBatch { changes, outgoing: Vec::new(), done: Some(done) };
        if self.shared.orders.send(Order::Write(batch)).await.is_ok() {
            // An error means that the storage writer has ended and writes nothing more.
            let _kept = kept.await;
        }
    }

    /// Marks everything up to `seq` as read, or everything on this device if `seq` is `None`. The
    /// client limits `seq` to the contiguous messages it has, and sends the receipt to the server.
    pub fn mark_read(&self, seq: Option<Seq>) {
        self.shared.change(|state| state.mark_read(self.id, seq));
    }

    /// Reports that the user is typing. Call it on every key press; the client sends at most one
    /// frame every 3 seconds, and none while catching up or offline.
    pub fn typing(&self) {
        let now = Instant::now();
        let is_news = self
            .shared
            .arrange(|state| state.connection.caught_up && state.signals.typing_here(self.id, now));
        if is_news {
            self.shared.wake.notify_one();
        }
    }

    /// Fetches the newest page and merges it into the loaded messages. If the page does not connect
    /// to them, it replaces them.
    pub async fn load_newest(&self) -> Result<(), ApiError> {
        let page = self.shared.api.page(self.id, PageFrom::Newest, PAGE_LIMIT / 2).await?;
        self.shared.change(|state| {
            state.touch(self.id).add_newest(page);
            state.changed(self.id);
        });
        Ok(())
    }

    /// Fetches the page below the oldest loaded message. Does nothing at the start of the
    /// conversation or if nothing is loaded. Drops the newest messages if too many are loaded.
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

    /// Fetches the page above the newest loaded message. Does nothing if that is the head or if
    /// nothing is loaded. Drops the oldest messages if too many are loaded.
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

    /// Fetches the conversation with its members.
    pub async fn detail(&self) -> Result<ConversationDetail, ApiError> {
        self.shared.api.conversation(self.id).await
    }

    /// Fetches the read state of every member.
    pub async fn statuses(&self) -> Result<Vec<MemberStatus>, ApiError> {
        self.shared.api.statuses(self.id).await
    }

    /// Fetches how many receivers have received and read the message at `seq`.
    pub async fn receipts(&self, seq: Seq) -> Result<ReceiptCounts, ApiError> {
        self.shared.api.receipts(self.id, seq).await
    }

    /// Fetches the presence of the members and remembers it for [`Conversation::view`].
    pub async fn presence(&self) -> Result<Vec<Presence>, ApiError> {
        let presences = self.shared.api.presence(self.id).await?;
        self.shared
            .change(|state| presences.iter().cloned().for_each(|one| state.signals.learn_presence(one)));
        Ok(presences)
    }

    /// Adds members to a group.
    pub async fn add_members(&self, members: &[UserId]) -> Result<(), ApiError> {
        self.shared.api.add_members(self.id, members).await.map(|_| ())
    }

    /// Removes a member from a group.
    pub async fn remove_member(&self, member: &UserId) -> Result<(), ApiError> {
        self.shared.api.remove_member(self.id, member).await
    }

    /// Leaves a group. Removes it from the inbox and gives up its unsent messages.
    pub async fn leave(&self) -> Result<(), ApiError> {
        let user = self.shared.read(|state| state.user.clone());
        self.shared.api.remove_member(self.id, &user).await?;
        self.shared.change(|state| state.gone(self.id));
        Ok(())
    }

    /// Changes this user's settings of the conversation: pin, mute, archive, read receipts.
    pub async fn change_settings(&self, change: SettingsChange) -> Result<(), ApiError> {
        let entry = self.shared.api.change_settings(self.id, change).await?;
        self.shared.change(|state| state.learn(entry));
        Ok(())
    }
}
