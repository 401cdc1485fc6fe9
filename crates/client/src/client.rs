//! The handle of a whole chat. It owns the tasks behind it and ends them in order.

use std::collections::HashMap;
use std::sync::Arc;

use bluetick_core::ports::{Random, SystemRandom};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_core::{ConversationId, UserId};
use thiserror::Error;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::api::{Api, ApiError, TokenSource};
use crate::backoff::ReconnectSettings;
use crate::conversation::Conversation;
use crate::driver::Driver;
use crate::keeper::{self, Order};
use crate::keeping::{OtherUser, restore};
use crate::shared::Shared;
use crate::state::inbox::Row;
use crate::state::{ConnectionState, Event};
use crate::storage::{Storage, StorageError};
use crate::transport::Server;
use crate::wire::bodies::{Person, Profile, ProfileChange};

/// Who talks with which server, and how.
pub struct ClientSettings {
    pub server: Server,
    pub user: UserId,
    pub tokens: Arc<dyn TokenSource>,
    pub device_id: Option<String>,
    pub reconnect: ReconnectSettings,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}

impl ClientSettings {
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

/// One line of an inbox, as it is to be shown.
#[derive(Clone)]
pub struct Glance {
    pub row: Arc<Row>,
    pub is_online: bool,
    pub is_typing: bool,
    /// The last of one's own messages that wait to be sent.
    pub waiting: Option<String>,
    /// The last of those that the server does not take.
    pub failed: Option<String>,
}

#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    OtherUser(#[from] OtherUser),
    #[error("the storage failed while it was read")]
    Panicked,
}

/// A running client. [`Client::stop`] ends it in order; dropped without it, it ends as if the program had died.
pub struct Client {
    shared: Arc<Shared>,
    user: UserId,
    tasks: Option<Tasks>,
}

struct Tasks {
    stop: oneshot::Sender<()>,
    driver: JoinHandle<()>,
    keeper: JoinHandle<()>,
}

impl Client {
    /// Reads what an earlier life left; when it returns, the inbox and the conversations show that. The connection
    /// opens by itself.
    pub async fn start(settings: ClientSettings, storage: impl Storage) -> Result<Client, StartError> {
        let mut storage: Box<dyn Storage> = Box::new(storage);
        let loading = tokio::task::spawn_blocking(move || (storage.load(), storage));
        let (kept, storage) = loading.await.map_err(|_| StartError::Panicked)?;
        let (state, ledger) = restore(&settings.user, kept?)?;
        let (orders, to_keep) = mpsc::channel(keeper::QUEUE);
        let ClientSettings { server, user, tokens, device_id, reconnect, clock, random } = settings;
        let api = Api::new(server.clone(), tokens);
        let shared = Arc::new(Shared::new(state, api, server, device_id, clock, random, orders));
        let (stop, stopped) = oneshot::channel();
        let keeper = tokio::spawn(keeper::keep(to_keep, Some(storage), Arc::clone(&shared)));
        let driver = tokio::spawn(Driver::new(Arc::clone(&shared), ledger, reconnect).run(stopped));
        Ok(Client { shared, user, tasks: Some(Tasks { stop, driver, keeper }) })
    }

    /// Says good-bye, writes what is to be kept, and ends. What is not sent yet waits in the storage.
    pub async fn stop(mut self) {
        if let Some(tasks) = self.tasks.take() {
            tasks.finish(&self.shared).await;
        }
    }

    /// The same, and removes everything this user has in the storage, unsent messages too.
    pub async fn forget(mut self) {
        let Some(Tasks { stop, driver, keeper }) = self.tasks.take() else { return };
        drop(stop);
        settle(driver.await);
        // The driver has written its last, so that nothing comes behind this. A keeper that is gone keeps nothing.
        let _ordered = self.shared.orders.send(Order::Wipe).await;
        settle(keeper.await);
    }

    pub fn user(&self) -> &UserId {
        &self.user
    }

    pub fn connection(&self) -> ConnectionState {
        self.shared.read(|state| state.connection)
    }

    /// The network may be back: tries at once.
    pub fn connect_now(&self) {
        self.shared.connect_now.notify_one();
    }

    /// Moves on whenever something that can be shown has changed; many changes may be one step.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.revisions()
    }

    /// What happened, for sounds and notifications. Whoever listens too slowly misses the oldest.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.shared.events()
    }

    /// The conversations that are known here, pinned first, then the latest.
    pub fn inbox(&self, archived: bool) -> Vec<Arc<Row>> {
        self.shared.read(|state| state.inbox.sorted(archived))
    }

    /// The same with what passes: who is there, who is typing, what waits to be sent.
    pub fn glances(&self, archived: bool) -> Vec<Glance> {
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
                Glance {
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

    pub fn unread_total(&self) -> u64 {
        self.shared.read(|state| state.inbox.unread_total())
    }

    pub fn has_more(&self, archived: bool) -> bool {
        self.shared.read(|state| {
            let cursors = &state.cursors;
            if archived { cursors.archive.is_some() } else { cursors.inbox.is_some() }
        })
    }

    /// The next page of the list, if there is one.
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

    pub fn conversation(&self, id: ConversationId) -> Conversation {
        Conversation::new(Arc::clone(&self.shared), id)
    }

    /// The one conversation with this person, new or not.
    pub async fn open_direct(&self, peer: &UserId) -> Result<Conversation, ApiError> {
        let opened = self.shared.api.open_direct(peer).await?;
        crate::driver::background::refresh(&self.shared, opened.conversation_id).await?;
        Ok(self.conversation(opened.conversation_id))
    }

    pub async fn create_group(&self, title: &str, members: &[UserId]) -> Result<Conversation, ApiError> {
        let created = self.shared.api.create_group(title, members).await?;
        crate::driver::background::refresh(&self.shared, created.conversation_id).await?;
        Ok(self.conversation(created.conversation_id))
    }

    /// What to call somebody: the name it gave itself, or else its user_id.
    pub fn name(&self, user: &UserId) -> String {
        self.shared.read(|state| state.people.name(user).to_owned())
    }

    /// People whose user_id or name begins with this.
    pub async fn search_people(&self, text: &str) -> Result<Vec<Person>, ApiError> {
        let people = self.shared.api.search_people(text).await?;
        self.shared.change(|state| {
            for person in &people {
                state.people.learn(person);
            }
        });
        Ok(people)
    }

    pub async fn me(&self) -> Result<Profile, ApiError> {
        self.shared.api.me().await
    }

    pub async fn change_me(&self, change: ProfileChange) -> Result<Profile, ApiError> {
        self.shared.api.change_me(change).await
    }

    /// How many messages wait to be sent, over all conversations.
    pub fn waiting(&self) -> usize {
        self.shared.read(|state| state.outbox.items().filter(|item| item.failure.is_none()).count())
    }

    /// How many the server does not take; each of them waits for a person, who retries or cancels it.
    pub fn failed(&self) -> usize {
        self.shared.read(|state| state.outbox.items().filter(|item| item.failure.is_some()).count())
    }
}

impl Tasks {
    /// The driver first: what it has to keep goes to the keeper.
    async fn finish(self, shared: &Shared) {
        drop(self.stop);
        settle(self.driver.await);
        // A keeper that is gone has nothing left to close.
        let _closed = shared.orders.send(Order::Close).await;
        settle(self.keeper.await);
    }
}

/// A panic of a task is a bug and is not passed over in silence.
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
            tasks.keeper.abort();
        }
    }
}
