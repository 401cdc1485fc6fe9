//! Implements the `Store` and `Archive` ports, which the rest of the server uses.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bluetick_core::ports::{
    Accepted, AddMembers, Append, Archive, ArchiveCounters, ArchiveError, ArchiveRun, ArchiveStatus, Backup,
    BackupReport, Erase, EraseReport, Health, MemberStatus, Missed, NewConversation, OpenedConversation,
    Position, Progress, Receipt, RemoveMember, RestoreReport, RunReport, SetPreferences, Statuses, Store,
    UserUpdate, VerifyReport,
};
use bluetick_core::{
    Cause, ConversationId, ConversationWithMembers, Epoch, InboxEntry, InboxPage, InboxRequest, NamePrefix,
    Page, PageRequest, Person, Profile, ProfileUpdate, ReadState, ReceiptCounts, Refusal, Seq, StoreError,
    Timestamp, User, UserId,
};
use parking_lot::Mutex;

use crate::archive::{Archiver, Filled};
use crate::codec::record;
use crate::commit::{
    AppendCommand, CLOSING_PATIENCE, CommitCommand, Control, HealthState, Queue, ReceiptCommand,
    ReplyReceiver, WritableConversation, reply_pair,
};
use crate::dedupe::DedupeClock;
use crate::inbox::InboxReader;
use crate::load::ConversationLoader;
use crate::log::Spares;
use crate::memory::{PageCache, Profiles, ResidentConversation, ResidentConversations, Users};
use crate::open::{BackgroundWork, OpenError, RunningStore, StoreParts, Threads, open};
use crate::people;
use crate::read::{PagePlan, PartialPage, page_from_tables};
use crate::readers::Readers;
use crate::steps::Steps;
use crate::tables::{StoreIdentity, Tables};

/// An open data directory. Dropping it closes it too, but blocks the thread until the last
/// checkpoint is written or its time limit ends.
pub struct EmbeddedStore {
    pub(crate) tables: Arc<Tables>,
    residents: Arc<ResidentConversations>,
    users: Arc<Users>,
    profiles: Arc<Profiles>,
    pages: Arc<PageCache>,
    readers: Readers,
    queue: Arc<Queue>,
    health: Arc<HealthState>,
    loader: Arc<ConversationLoader>,
    inbox: InboxReader,
    pub(crate) identity: StoreIdentity,
    dedupe: Arc<DedupeClock>,
    pub(crate) archiver: Arc<Archiver>,
    threads: Mutex<Option<Threads>>,
    steps: Option<Box<Steps>>,
    lock: Arc<crate::lock::DataLock>,
    pub(crate) spares: Arc<Spares>,
    pub(crate) data_dir: PathBuf,
}

impl EmbeddedStore {
    /// Locks the directory, replays the log and starts the store's threads. Blocks; may take
    /// seconds after a crash.
    pub fn open(parts: StoreParts) -> Result<EmbeddedStore, OpenError> {
        let running: RunningStore = open(parts)?;
        let (threads, steps) = match running.working {
            BackgroundWork::Threads(threads) => (Some(threads), None),
            BackgroundWork::Steps(steps) => (None, Some(steps)),
        };
        Ok(EmbeddedStore {
            tables: running.tables,
            residents: running.residents,
            users: running.users,
            profiles: running.profiles,
            pages: Arc::new(PageCache::new(running.settings.page_cache_bytes)),
            readers: if steps.is_some() { Readers::on_the_spot() } else { Readers::new() },
            inbox: running.inbox,
            queue: running.queue,
            health: running.health,
            loader: running.loader,
            identity: running.identity,
            dedupe: running.dedupe,
            archiver: running.archiver,
            spares: running.spares,
            data_dir: running.settings.data_dir,
            threads: Mutex::new(threads),
            steps,
            lock: running.lock,
        })
    }

    /// Publishes this process's listening address, for other processes to read.
    pub fn announce(&self, address: &str) -> std::io::Result<()> {
        self.lock.announce(address)
    }

    async fn writable(&self, id: ConversationId) -> Result<WritableConversation, StoreError> {
        if let Some(resident) = self.loader.resident_if_writable(id) {
            return Ok(resident);
        }
        self.exists(id).await?;
        let (loader, floor) = (Arc::clone(&self.loader), self.dedupe.floor());
        self.readers.read_much(move || loader.make_writable(loader.existing(id)?, floor)).await
    }

    async fn existing(&self, id: ConversationId) -> Result<Arc<ResidentConversation>, StoreError> {
        match self.residents.get(id) {
            Some(resident) => Ok(resident),
            None => {
                self.exists(id).await?;
                let loader = Arc::clone(&self.loader);
                self.readers.read_much(move || loader.existing(id)).await
            }
        }
    }

    /// Checks that the conversation exists, resident or evicted. A client that guesses ids is
    /// refused after one table lookup. Loading the conversation on another thread for each guess
    /// would cost ten times as much and delay other requests.
    async fn exists(&self, id: ConversationId) -> Result<(), StoreError> {
        // A new conversation is not in the tables yet.
        if self.residents.get(id).is_some() {
            return Ok(());
        }
        let tables = Arc::clone(&self.tables);
        let exists = self.readers.read(move || Ok(crate::recovery::exists(&tables, id)?)).await?;
        if exists { Ok(()) } else { Err(Refusal::NotAMember.into()) }
    }

    async fn commit<T>(&self, control: Control, answer: ReplyReceiver<T>) -> Result<T, StoreError> {
        self.queue.push(CommitCommand::Control(Box::new(control)))?;
        answer.await.unwrap_or(Err(StoreError::Closing))
    }

    /// Returns a page from memory and tables, without archived content.
    async fn draft(&self, request: PageRequest) -> Result<PageRead, StoreError> {
        let Some(resident) = self.residents.get(request.conversation) else {
            let tables = Arc::clone(&self.tables);
            return self
                .readers
                .read(move || page_from_tables(&tables, request))
                .await
                .map(PageRead::PartialPage);
        };
        let plan = PagePlan::from_resident(&resident, request)?;
        if !plan.needs_tables() {
            return plan.finish(Vec::new()).map(PageRead::Page);
        }
        if let Some(messages) = plan.read_before(&self.pages, self.tables.edition()) {
            return plan.finish(messages).map(PageRead::Page);
        }
        let (tables, pages) = (Arc::clone(&self.tables), Arc::clone(&self.pages));
        self.readers.read(move || plan.finish_from(&tables, &pages)).await.map(PageRead::PartialPage)
    }

    /// Returns the steps, if the store was opened with `WorkMode::Steps`.
    pub fn steps(&self) -> Option<&Steps> {
        self.steps.as_deref()
    }

    fn take_threads(&self) -> Option<Threads> {
        self.threads.lock().take()
    }
}

enum PageRead {
    Page(Page),
    PartialPage(PartialPage),
}

/// Upper bound on the attempts to read a page if an archive object that its rows name is missing.
/// Between attempts the object may be rewritten, or its content restored. The last attempt returns
/// a page or an error.
pub(crate) const ARCHIVE_READ_ATTEMPTS: u32 = 3;

/// Waits until the threads have finished the accepted work and the last checkpoint.
fn join(threads: Option<Threads>) {
    let Some(threads) = threads else { return };
    let join = |thread: std::thread::JoinHandle<()>| {
        if thread.join().is_err() {
            tracing::error!("a store thread panicked; the log has every acknowledged write");
        }
    };
    join(threads.committer);
    threads.handover.close(CLOSING_PATIENCE);
    join(threads.checkpoint);
    threads.spares.close();
    join(threads.provisioner);
}

/// Runs a disk read on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(StoreError::Failed(Cause::of(error))),
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn create_user(&self, user: User) -> Result<(), StoreError> {
        self.health.check()?;
        let (reply, answer) = reply_pair();
        self.commit(Control::CreateUser { user, reply }, answer).await
    }

    async fn reserve_name(&self, id: UserId, at: Timestamp) -> Result<(), StoreError> {
        // The user exists in nearly all cases.
        if self.user(&id).await?.is_some() {
            return Ok(());
        }
        self.health.check()?;
        let (reply, answer) = reply_pair();
        self.commit(Control::ReserveName { user: User::named(id, at), reply }, answer).await
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
        self.readers.read(move || Ok(tables.current()?.snapshot()?.user(&id)?)).await
    }

    async fn people(&self, ids: Vec<UserId>) -> Result<Vec<Person>, StoreError> {
        let (users, tables) = (Arc::clone(&self.users), Arc::clone(&self.tables));
        self.readers.read_much(move || Ok(people::by_id(&users, &*tables.current()?, &ids)?)).await
    }

    async fn find_people(&self, prefix: &NamePrefix, limit: usize) -> Result<Vec<Person>, StoreError> {
        let (users, tables, prefix) = (Arc::clone(&self.users), Arc::clone(&self.tables), prefix.clone());
        self.readers
            .read_much(move || Ok(people::by_name(&users, &*tables.current()?, &prefix, limit)?))
            .await
    }

    async fn open_conversation(&self, new: NewConversation) -> Result<OpenedConversation, StoreError> {
        self.health.check()?;
        let resident = match self.residents.get(new.id) {
            Some(resident) => resident,
            None => {
                let (loader, id) = (Arc::clone(&self.loader), new.id);
                self.readers.read_much(move || loader.existing_or_absent(id)).await?
            }
        };
        let (reply, answer) = reply_pair();
        self.commit(Control::Open { resident, new, reply }, answer).await
    }

    async fn conversation(
        &self,
        id: ConversationId,
        reader: &UserId,
    ) -> Result<ConversationWithMembers, StoreError> {
        let view = match self.residents.get(id) {
            Some(resident) => resident.state().view(),
            None => {
                self.exists(id).await?;
                let tables = Arc::clone(&self.tables);
                self.readers
                    .read_much(move || Ok(crate::recovery::load(&tables, id)?.and_then(|state| state.view())))
                    .await?
            }
        };
        view.filter(|view| view.members.contains(reader)).ok_or(Refusal::NotAMember.into())
    }

    async fn add_members(&self, add: AddMembers) -> Result<ConversationWithMembers, StoreError> {
        self.health.check()?;
        let resident = self.existing(add.conversation).await?;
        let (reply, answer) = reply_pair();
        self.commit(Control::Add { resident, add, reply }, answer).await
    }

    async fn remove_member(&self, remove: RemoveMember) -> Result<ConversationWithMembers, StoreError> {
        self.health.check()?;
        let resident = self.existing(remove.conversation).await?;
        let (reply, answer) = reply_pair();
        self.commit(Control::Remove { resident, remove, reply }, answer).await
    }

    async fn append(&self, append: Append) -> Result<Accepted, StoreError> {
        self.health.check()?;
        let resident = self.writable(append.conversation).await?;
        let fingerprint = self.identity.fingerprinter.of(append.sender.as_str(), &append.message_id);
        let searched = match append.retry_after {
            Some(after) => {
                let (loader, resident) = (Arc::clone(&self.loader), resident.clone());
                let search = move || loader.search(&resident, fingerprint, after);
                Some(Box::new(self.readers.read_much(search).await?))
            }
            None => None,
        };
        let (reply, answer) = reply_pair();
        self.queue.push(CommitCommand::Append(AppendCommand {
            resident,
            append,
            fingerprint,
            searched,
            reply,
        }))?;
        Ok(Box::pin(async { answer.await.unwrap_or(Err(StoreError::Closing)) }))
    }

    async fn page(&self, request: PageRequest) -> Result<Page, StoreError> {
        for attempt in 1.. {
            let draft = match self.draft(request.clone()).await? {
                PageRead::Page(page) => return Ok(page),
                PageRead::PartialPage(draft) if draft.cold.is_empty() => return draft.finish(),
                PageRead::PartialPage(draft) => draft,
            };
            match self.archiver.fill(draft, attempt == ARCHIVE_READ_ATTEMPTS).await? {
                Filled::Page(page) => return Ok(page),
                Filled::LookAgain => {}
            }
        }
        unreachable!("the last attempt returns a page or an error")
    }

    async fn apply_receipt(&self, receipt: Receipt) -> Result<ReadState, StoreError> {
        self.health.check()?;
        let resident = self.existing(receipt.conversation).await?;
        let (reply, answer) = reply_pair();
        self.queue.push(CommitCommand::Receipt(Box::new(ReceiptCommand { resident, receipt, reply })))?;
        answer.await.unwrap_or(Err(StoreError::Closing))
    }

    async fn statuses(&self, id: ConversationId, reader: &UserId) -> Result<Statuses, StoreError> {
        let resident = self.existing(id).await?;
        let state = resident.state();
        if !state.members.contains(reader) {
            return Err(Refusal::NotAMember.into());
        }
        let members = state.members.iter().zip(state.member_states.iter());
        let status = members.map(|(member, member_state)| MemberStatus {
            user: member.user.clone(),
            read_state: if member.user == *reader { member_state.own() } else { member_state.shown() },
            joined: member.joined_seq,
        });
        Ok(Statuses { head: state.head(), members: status.collect() })
    }

    async fn receipt_counts(
        &self,
        id: ConversationId,
        reader: &UserId,
        seq: Seq,
    ) -> Result<ReceiptCounts, StoreError> {
        let resident = self.existing(id).await?;
        let in_memory = {
            let state = resident.state();
            let (member, _) = state.member(reader).ok_or(Refusal::NotAMember)?;
            if seq < member.joined_seq || seq > state.head() || seq == Seq::ZERO {
                return Err(Refusal::NoSuchMessage.into());
            }
            state.tail_record(seq).map(|record| record.to_vec())
        };
        let record = match in_memory {
            Some(record) => record,
            None => {
                let tables = Arc::clone(&self.tables);
                let found = self
                    .readers
                    .read_much(move || Ok(tables.current()?.snapshot()?.record(id, seq)?))
                    .await?;
                found.ok_or_else(|| StoreError::Damaged(format!("{id}: seq {seq} is missing").into()))?
            }
        };
        let record =
            record::Record::decode(&record).map_err(|error| StoreError::Damaged(Cause::of(error)))?;
        let mut state = resident.state();
        let members = Arc::clone(&state.members);
        Ok(state.member_states.receipt_counts(&members, seq, record.sender))
    }

    async fn set_preferences(&self, prefer: SetPreferences) -> Result<InboxEntry, StoreError> {
        self.health.check()?;
        let resident = self.existing(prefer.conversation).await?;
        let (id, user) = (prefer.conversation, prefer.user.clone());
        let (reply, answer) = reply_pair();
        self.commit(Control::SetPreferences { resident, prefer, reply }, answer).await?;
        self.inbox_entry(id, &user).await
    }

    async fn inbox(&self, request: InboxRequest) -> Result<InboxPage, StoreError> {
        let inbox = self.inbox.clone();
        self.readers.read_much(move || inbox.page(&request)).await
    }

    async fn is_member(&self, user: &UserId) -> Result<bool, StoreError> {
        let (inbox, user) = (self.inbox.clone(), user.clone());
        self.readers.read_much(move || inbox.is_member(&user)).await
    }

    async fn inbox_entry(&self, id: ConversationId, reader: &UserId) -> Result<InboxEntry, StoreError> {
        let (inbox, reader) = (self.inbox.clone(), reader.clone());
        self.readers.read_much(move || inbox.entry(id, &reader)).await
    }

    async fn behind(&self, user: &UserId, positions: Vec<Position>) -> Result<Missed, StoreError> {
        let (inbox, user) = (self.inbox.clone(), user.clone());
        if positions.is_empty() {
            let (inbox, user) = (inbox.clone(), user.clone());
            let missed = move || match inbox.has_few_pending(&user)? {
                true => inbox.behind(&user, &[]).map(Some),
                false => Ok(None),
            };
            if let Some(missed) = self.readers.read(missed).await? {
                return Ok(missed);
            }
        }
        self.readers.read_much(move || inbox.behind(&user, &positions)).await
    }

    async fn profile(&self, user: &UserId) -> Result<Profile, StoreError> {
        if let Some(profile) = self.profiles.get(user) {
            return Ok(profile);
        }
        let (tables, user) = (Arc::clone(&self.tables), user.clone());
        self.readers.read(move || Ok(tables.current()?.snapshot()?.profile(&user)?.unwrap_or_default())).await
    }

    async fn update_profile(&self, update: ProfileUpdate) -> Result<Profile, StoreError> {
        self.health.check()?;
        let (reply, answer) = reply_pair();
        self.commit(Control::Profile { update, reply }, answer).await
    }

    fn epoch(&self) -> Epoch {
        self.identity.epoch
    }

    fn health(&self) -> Health {
        self.health.health()
    }

    async fn close(&self) {
        self.archiver.stop().await;
        self.queue.close();
        if let Some(steps) = &self.steps {
            return steps.finish();
        }
        let threads = self.take_threads();
        if tokio::task::spawn_blocking(move || join(threads)).await.is_err() {
            tracing::error!("closing the store was interrupted; the log has every acknowledged write");
        }
    }
}

#[async_trait]
impl Archive for EmbeddedStore {
    async fn status(&self) -> Result<ArchiveStatus, ArchiveError> {
        self.archiver.status().await
    }

    async fn run(&self, request: ArchiveRun, progress: Arc<dyn Progress>) -> Result<RunReport, ArchiveError> {
        let run = self.archiver.run(request, progress).await;
        // The run may have removed messages whose retention ended.
        self.pages.clear();
        run
    }

    async fn verify(&self, progress: Arc<dyn Progress>) -> Result<VerifyReport, ArchiveError> {
        self.archiver.verify(progress).await
    }

    async fn restore(
        &self,
        conversation: Option<ConversationId>,
        progress: Arc<dyn Progress>,
    ) -> Result<RestoreReport, ArchiveError> {
        self.archiver.restore(conversation, progress).await
    }

    async fn erase(&self, erase: Erase, progress: Arc<dyn Progress>) -> Result<EraseReport, ArchiveError> {
        let erased = self.archiver.erase(erase, progress).await;
        self.pages.clear();
        erased
    }

    async fn backup(
        &self,
        backup: Backup,
        progress: Arc<dyn Progress>,
    ) -> Result<BackupReport, ArchiveError> {
        self.make_backup(backup, progress).await
    }

    fn counters(&self) -> ArchiveCounters {
        self.archiver.counters()
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.queue.close();
        join(self.take_threads());
    }
}
