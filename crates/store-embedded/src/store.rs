//! The port: what the rest of the server sees.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bluetick_core::ports::{
    Accepted, AddMembers, Append, Health, NewConversation, Opened, RemoveMember, Store, UserUpdate,
};
use bluetick_core::{
    ConversationId, ConversationView, Epoch, Page, PageRequest, Refusal, StoreError, Timestamp, User, UserId,
};

use crate::codec::record;
use crate::commit::{
    Answer, AppendCommand, CLOSING_PATIENCE, Command, Control, HealthState, Queue, WritableRoom, reply_pair,
};
use crate::memory::{Room, Rooms, Users};
use crate::open::{OpenError, Running, StoreParts, Threads, open};
use crate::read::{Plan, page_from_tables};
use crate::tables::{Identity, Tables};
use crate::wake::Waker;

/// An open data directory. Dropping it closes it too, but holds the thread up until the last checkpoint is written.
pub struct EmbeddedStore {
    tables: Arc<Tables>,
    rooms: Arc<Rooms>,
    users: Arc<Users>,
    queue: Arc<Queue>,
    health: Arc<HealthState>,
    waker: Arc<Waker>,
    identity: Identity,
    clock: Arc<dyn bluetick_core::time::Clock>,
    dedupe_window_ms: i64,
    threads: Mutex<Option<Threads>>,
    lock: crate::lock::DataLock,
}

impl EmbeddedStore {
    /// Locks the directory, replays the log and starts the store's threads. Blocks; may take seconds after a crash.
    pub fn open(parts: StoreParts) -> Result<EmbeddedStore, OpenError> {
        let running: Running = open(parts)?;
        Ok(EmbeddedStore {
            tables: running.tables,
            rooms: running.rooms,
            users: running.users,
            queue: running.queue,
            health: running.health,
            waker: running.waker,
            identity: running.identity,
            clock: running.clock,
            dedupe_window_ms: running.settings.dedupe_window_ms(),
            threads: Mutex::new(Some(running.threads)),
            lock: running.lock,
        })
    }

    /// Tells other processes where this one listens.
    pub fn announce(&self, address: &str) -> std::io::Result<()> {
        self.lock.announce(address)
    }

    fn window_start(&self) -> Timestamp {
        self.clock.now().plus_millis(-self.dedupe_window_ms)
    }

    async fn writable(&self, id: ConversationId) -> Result<WritableRoom, StoreError> {
        if let Some(room) = self.waker.awake(id) {
            return Ok(room);
        }
        let (waker, window_start) = (Arc::clone(&self.waker), self.window_start());
        blocking(move || waker.make_writable(waker.existing(id)?, window_start)).await
    }

    async fn existing(&self, id: ConversationId) -> Result<Arc<Room>, StoreError> {
        match self.rooms.get(id) {
            Some(room) => Ok(room),
            None => {
                let waker = Arc::clone(&self.waker);
                blocking(move || waker.existing(id)).await
            }
        }
    }

    async fn commit<T>(&self, control: Control, answer: Answer<T>) -> Result<T, StoreError> {
        self.queue.push(Command::Control(Box::new(control)))?;
        answer.await.unwrap_or(Err(StoreError::Closing))
    }

    fn take_threads(&self) -> Option<Threads> {
        self.threads.lock().expect("nobody panics while holding the threads").take()
    }
}

/// Waits for the threads to finish what was accepted, and for the last checkpoint.
fn join(threads: Option<Threads>) {
    let Some(threads) = threads else { return };
    let join = |thread: std::thread::JoinHandle<()>| {
        if thread.join().is_err() {
            tracing::error!("a thread of the store panicked; the log has everything that was acknowledged");
        }
    };
    join(threads.committer);
    threads.handover.close(CLOSING_PATIENCE);
    join(threads.checkpoint);
    threads.spares.close();
    join(threads.provisioner);
}

/// Runs what reads the disk where it holds nobody up.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(StoreError::Failed(error.to_string())),
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn create_user(&self, user: User) -> Result<(), StoreError> {
        self.health.check()?;
        let (reply, answer) = reply_pair();
        self.commit(Control::CreateUser { user, reply }, answer).await
    }

    async fn update_user(&self, update: UserUpdate) -> Result<(), StoreError> {
        self.health.check()?;
        let (reply, answer) = reply_pair();
        self.commit(Control::UpdateUser { update, reply }, answer).await
    }

    async fn user(&self, id: &UserId) -> Result<Option<User>, StoreError> {
        if let Some(user) = self.users.get(id) {
            return Ok(Some(user));
        }
        let (tables, id) = (Arc::clone(&self.tables), id.clone());
        blocking(move || Ok(tables.current()?.snapshot()?.user(&id)?)).await
    }

    async fn open_conversation(&self, new: NewConversation) -> Result<Opened, StoreError> {
        self.health.check()?;
        let room = match self.rooms.get(new.id) {
            Some(room) => room,
            None => {
                let (waker, id) = (Arc::clone(&self.waker), new.id);
                blocking(move || waker.existing_or_absent(id)).await?
            }
        };
        let (reply, answer) = reply_pair();
        self.commit(Control::Open { room, new, reply }, answer).await
    }

    async fn conversation(
        &self,
        id: ConversationId,
        reader: &UserId,
    ) -> Result<ConversationView, StoreError> {
        let view = match self.rooms.get(id) {
            Some(room) => room.state().view(),
            None => {
                let tables = Arc::clone(&self.tables);
                blocking(move || Ok(crate::recovery::load(&tables, id)?.and_then(|state| state.view())))
                    .await?
            }
        };
        view.filter(|view| view.members.contains(reader)).ok_or(Refusal::NotAMember.into())
    }

    async fn add_members(&self, add: AddMembers) -> Result<ConversationView, StoreError> {
        self.health.check()?;
        let room = self.existing(add.conversation).await?;
        let (reply, answer) = reply_pair();
        self.commit(Control::Add { room, add, reply }, answer).await
    }

    async fn remove_member(&self, remove: RemoveMember) -> Result<ConversationView, StoreError> {
        self.health.check()?;
        let room = self.existing(remove.conversation).await?;
        let (reply, answer) = reply_pair();
        self.commit(Control::Remove { room, remove, reply }, answer).await
    }

    async fn append(&self, append: Append) -> Result<Accepted, StoreError> {
        self.health.check()?;
        let room = self.writable(append.conversation).await?;
        let fingerprint = self.identity.fingerprinter.of(append.sender.as_str(), &append.message_id);
        if let Some(after) = append.retry_after {
            let (waker, room) = (Arc::clone(&self.waker), room.clone());
            blocking(move || waker.remember_older(&room, fingerprint, after)).await?;
        }
        let mut bytes = Vec::with_capacity(64 + append.sender.as_str().len() + append.content.len());
        record::encode(
            &mut bytes,
            append.received_at,
            append.timestamp,
            append.sender.as_str(),
            &append.message_id,
            &append.content_type,
            &append.content,
        );
        let (reply, answer) = reply_pair();
        let command = AppendCommand { room, append, record: bytes, fingerprint, reply };
        self.queue.push(Command::Append(Box::new(command)))?;
        Ok(Box::pin(async { answer.await.unwrap_or(Err(StoreError::Closing)) }))
    }

    async fn page(&self, request: PageRequest) -> Result<Page, StoreError> {
        let Some(room) = self.rooms.get(request.conversation) else {
            let tables = Arc::clone(&self.tables);
            return blocking(move || page_from_tables(&tables, request)).await;
        };
        let plan = Plan::from_room(&room, request)?;
        if !plan.needs_tables() {
            return plan.finish();
        }
        let tables = Arc::clone(&self.tables);
        blocking(move || plan.finish_from(&tables)).await
    }

    fn epoch(&self) -> Epoch {
        self.identity.epoch
    }

    fn health(&self) -> Health {
        self.health.health()
    }

    async fn close(&self) {
        self.queue.close();
        let threads = self.take_threads();
        if tokio::task::spawn_blocking(move || join(threads)).await.is_err() {
            tracing::error!(
                "closing the store was interrupted; the log has everything that was acknowledged"
            );
        }
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.queue.close();
        join(self.take_threads());
    }
}
