//! [`Client`]: the handle of a running chat client. It owns the background tasks and stops them in
//! order.

use std::collections::HashMap;
use std::sync::Arc;

use bluetick_types::time::{Clock, SystemClock};
use bluetick_types::{ConversationId, UserId};
use bluetick_types::{Random, SystemRandom};
use thiserror::Error;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::api::{Api, ApiError, TokenSource};
use crate::backoff::ReconnectSettings;
use crate::conversation::Conversation;
use crate::driver::Driver;
use crate::shared::Shared;
use crate::state::inbox::Row;
use crate::state::{ConnectionState, Event};
use crate::storage::{Storage, StorageError};
use crate::storage_writer::{self, Order};
use crate::stored_state::{OtherUser, restore};
use crate::transport::Server;
use crate::wire::bodies::{Person, Profile, ProfileChange};

/// Settings for [`Client::start`].
pub struct ClientSettings {
    /// The server to connect to.
    pub server: Server,
    /// The user who must own the tokens. If the server reports another user, the client stops with
    /// [`Phase::OtherUser`](crate::Phase::OtherUser).
    pub user: UserId,
    /// Supplies the tokens for HTTP calls and the WebSocket.
    pub tokens: Arc<dyn TokenSource>,
    /// Sent in `hello`. `None` sends no device id.
    pub device_id: Option<String>,
    /// Reconnect backoff.
    pub reconnect: ReconnectSettings,
    /// Wall clock for message timestamps and `ConnectionState::since`.
    pub clock: Arc<dyn Clock>,
    /// Randomness for message ids and backoff jitter.
    pub random: Arc<dyn Random>,
}

impl ClientSettings {
    /// Creates settings with no device id, default backoff, the system clock and system randomness.
    pub fn new(server: Server, user: UserId, tokens: impl TokenSource) -> ClientSettings {
        ClientSettings {
            server,
            user,
            tokens: Arc::new(tokens),
            device_id: None,
            reconnect: ReconnectSettings::default(),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
        }
    }
}

/// One inbox row together with its ephemeral and outbox state, as returned by
/// [`Client::inbox_summaries`].
#[derive(Clone)]
pub struct InboxSummary {
    pub row: Arc<Row>,
    /// Whether the peer of a direct conversation is online. `false` for groups and unknown
    /// presence.
    pub is_online: bool,
    /// Whether at least one other member is typing.
    pub is_typing: bool,
    /// Content of the newest queued or in-flight message of this user.
    pub waiting: Option<String>,
    /// Content of this user's newest message that the server refused permanently.
    pub failed: Option<String>,
}

/// Why [`Client::start`] failed.
#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    OtherUser(#[from] OtherUser),
    /// The storage panicked in `load`.
    #[error("the storage failed while it was read")]
    Panicked,
}

/// A running client.
///
/// Call [`Client::stop`] for a graceful shutdown. Dropping the client aborts its tasks, which has
/// the same effect as a crash of the process.
pub struct Client {
    shared: Arc<Shared>,
    user: UserId,
    tasks: Option<Tasks>,
}

struct Tasks {
    stop: oneshot::Sender<()>,
    driver: JoinHandle<()>,
    writer: JoinHandle<()>,
}

impl Client {
    /// Loads the storage and starts the client. The client connects in the background.
    ///
    /// When this returns, the inbox and the conversations show the stored state. Must be called
    /// within a Tokio runtime.
    ///
    /// # Errors
    ///
    /// Fails if the storage cannot be read, panics while loading, or belongs to another user.
    pub async fn start(settings: ClientSettings, storage: impl Storage) -> Result<Client, StartError> {
        let mut storage: Box<dyn Storage> = Box::new(storage);
        let loading = tokio::task::spawn_blocking(move || (storage.load(), storage));
        let (kept, storage) = loading.await.map_err(|_| StartError::Panicked)?;
        let (state, ledger) = restore(&settings.user, kept?)?;
        let (orders, to_keep) = mpsc::channel(storage_writer::QUEUE);
        let ClientSettings { server, user, tokens, device_id, reconnect, clock, random } = settings;
        let api = Api::new(server.clone(), tokens);
        let shared = Arc::new(Shared::new(state, api, server, device_id, clock, random, orders));
        let (stop, stopped) = oneshot::channel();
        let writer = tokio::spawn(storage_writer::keep(to_keep, Some(storage), Arc::clone(&shared)));
        let driver = tokio::spawn(Driver::new(Arc::clone(&shared), ledger, reconnect).run(stopped));
        Ok(Client { shared, user, tasks: Some(Tasks { stop, driver, writer }) })
    }

    /// Shuts down gracefully. Sends pending receipts, closes the connection, writes the stored
    /// state and waits for the tasks to end.
    ///
    /// Unsent messages stay in the storage. Sending the receipts and closing the connection may
    /// take up to one second each.
    ///
    /// # Panics
    ///
    /// Resumes the panic of a background task that panicked.
    pub async fn stop(mut self) {
        if let Some(tasks) = self.tasks.take() {
            tasks.finish(&self.shared).await;
        }
    }

    /// Shuts down like [`Client::stop`], then removes every entry from the storage, including
    /// unsent messages.
    ///
    /// # Panics
    ///
    /// Resumes the panic of a background task that panicked.
    pub async fn forget(mut self) {
        let Some(Tasks { stop, driver, writer }) = self.tasks.take() else { return };
        drop(stop);
        settle(driver.await);
        // The driver has ended, so no write follows the wipe. If the storage writer has ended,
        // nothing is left to wipe.
        let _ordered = self.shared.orders.send(Order::Wipe).await;
        settle(writer.await);
    }

    /// The user this client runs for.
    pub fn user(&self) -> &UserId {
        &self.user
    }

    /// A snapshot of the connection state.
    pub fn connection(&self) -> ConnectionState {
        self.shared.read(|state| state.connection)
    }

    /// Ends the current reconnect pause, for example when the network is back. Has no effect in any
    /// other phase.
    pub fn connect_now(&self) {
        self.shared.connect_now.notify_one();
    }

    /// A counter that increases after every change of visible state. A receiver may see several
    /// changes as one step.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.revisions()
    }

    /// One-time events, for sounds and notifications.
    ///
    /// The channel holds 1,024 events. A slower receiver loses the oldest ones and gets a `Lagged`
    /// error.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.shared.events()
    }

    /// The known conversations, newest activity first. The inbox lists pinned conversations first;
    /// the archive ignores pins. Makes no request.
    pub fn inbox(&self, archived: bool) -> Vec<Arc<Row>> {
        self.shared.read(|state| state.inbox.sorted(archived))
    }

    /// The rows of [`Client::inbox`] with presence, typing and unsent messages. Makes no request.
    pub fn inbox_summaries(&self, archived: bool) -> Vec<InboxSummary> {
        let now = Instant::now();
        self.shared.read(|state| {
            let last = |has_failed: bool| -> HashMap<ConversationId, &str> {
                let items = state.outbox.items().filter(|item| item.failure.is_some() == has_failed);
                items.map(|item| (item.conversation_id, item.content.as_str())).collect()
            };
            let (waiting, failed) = (last(false), last(true));
            let glance = |row: Arc<Row>| {
                let id = row.entry.conversation_id;
                let presence = row.entry.peer.as_ref().and_then(|peer| state.signals.presence(peer));
                InboxSummary {
                    is_online: presence.is_some_and(|presence| presence.online),
                    is_typing: !state.signals.typists(id, now).is_empty(),
                    waiting: waiting.get(&id).map(|text| (*text).to_owned()),
                    failed: failed.get(&id).map(|text| (*text).to_owned()),
                    row,
                }
            };
            state.inbox.sorted(archived).into_iter().map(glance).collect()
        })
    }

    /// Sum of the unread counts of all known conversations that are neither muted nor archived.
    pub fn unread_total(&self) -> u64 {
        self.shared.read(|state| state.inbox.unread_total())
    }

    /// Whether the server has another page for [`Client::load_more`].
    pub fn has_more(&self, archived: bool) -> bool {
        self.shared.read(|state| {
            let cursors = &state.cursors;
            if archived { cursors.archive.is_some() } else { cursors.inbox.is_some() }
        })
    }

    /// Fetches the next page of the inbox or the archive. Does nothing if there is no further page.
    pub async fn load_more(&self, archived: bool) -> Result<(), ApiError> {
        let cursor = self.shared.read(|state| {
            let cursors = &state.cursors;
            if archived { cursors.archive.clone() } else { cursors.inbox.clone() }
        });
        let Some(cursor) = cursor else { return Ok(()) };
        let page = self.shared.api.inbox(archived, Some(&cursor)).await?;
        self.shared.change(|state| {
            let place = if archived { &mut state.cursors.archive } else { &mut state.cursors.inbox };
            *place = page.next_cursor;
            page.conversations.into_iter().for_each(|entry| state.learn(entry));
        });
        Ok(())
    }

    /// The handle of one conversation. Does not check that the conversation exists and makes no
    /// request.
    pub fn conversation(&self, id: ConversationId) -> Conversation {
        Conversation::new(Arc::clone(&self.shared), id)
    }

    /// Opens the direct conversation with `peer`. The server creates it if it does not exist.
    pub async fn open_direct(&self, peer: &UserId) -> Result<Conversation, ApiError> {
        let opened = self.shared.api.open_direct(peer).await?;
        crate::driver::background::refresh(&self.shared, opened.conversation_id).await?;
        Ok(self.conversation(opened.conversation_id))
    }

    /// Creates a group with this user and `members`.
    pub async fn create_group(&self, title: &str, members: &[UserId]) -> Result<Conversation, ApiError> {
        let created = self.shared.api.create_group(title, members).await?;
        crate::driver::background::refresh(&self.shared, created.conversation_id).await?;
        Ok(self.conversation(created.conversation_id))
    }

    /// The display name of `user` if it is known here, else the user id. Makes no request.
    pub fn name(&self, user: &UserId) -> String {
        self.shared.read(|state| state.people.name(user).to_owned())
    }

    /// Asks the server for up to 10 people whose user id or display name starts with `text`.
    pub async fn search_people(&self, text: &str) -> Result<Vec<Person>, ApiError> {
        let people = self.shared.api.search_people(text).await?;
        self.shared.change(|state| {
            for person in &people {
                state.people.learn(person);
            }
        });
        Ok(people)
    }

    /// Fetches the profile of this user.
    pub async fn me(&self) -> Result<Profile, ApiError> {
        self.shared.api.me().await
    }

    /// Changes the profile of this user and returns the new profile.
    pub async fn change_me(&self, change: ProfileChange) -> Result<Profile, ApiError> {
        self.shared.api.change_me(change).await
    }

    /// Number of queued and in-flight messages in all conversations.
    pub fn waiting(&self) -> usize {
        self.shared.read(|state| state.outbox.items().filter(|item| item.failure.is_none()).count())
    }

    /// Number of messages that the server refused permanently. Each stays until
    /// [`Conversation::retry`] or [`Conversation::cancel`].
    pub fn failed(&self) -> usize {
        self.shared.read(|state| state.outbox.items().filter(|item| item.failure.is_some()).count())
    }
}

impl Tasks {
    /// Stops the driver, then the storage writer. The driver must end first, because its last write
    /// goes through the storage writer.
    async fn finish(self, shared: &Shared) {
        drop(self.stop);
        settle(self.driver.await);
        // If the storage writer has ended, nothing is left to close.
        let _closed = shared.orders.send(Order::Close).await;
        settle(self.writer.await);
    }
}

/// Resumes the panic of a task. Ignores cancellation.
fn settle(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(tasks) = self.tasks.take() {
            tasks.driver.abort();
            tasks.writer.abort();
        }
    }
}
