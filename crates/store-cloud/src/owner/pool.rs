//! The conversations that this node owns: a queue of calls for each, and their logs while they are
//! loaded.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::ports::{AddMembers, Random, Receipt, RemoveMember};
use bluetick_core::time::Clock;
use bluetick_core::{ConversationId, MemberState, Members, Refusal, Seq, StoreError};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{DedupeFloor, MemberRows, OwnedMembers, ReadStates, SpreadMeter};
use crate::log::{
    Appended, ConversationLog, FingerprintKey, Incarnation, LogEntry, LogParts, MAX_GRANT, MembershipRow,
    PlantedBug,
};
use crate::rows::Rows;

/// The bounds of a pool.
#[derive(Clone, Debug)]
pub struct OwnerSettings {
    /// Upper bound on the logs that stay loaded without a call. A smaller number saves memory and
    /// costs reads.
    pub resident_conversations: usize,
    /// Upper bound on the calls that wait for one conversation. Further ones fail with
    /// [`StoreError::Overloaded`].
    pub queued_calls: usize,
    /// How long a message id is remembered.
    pub dedupe_window: Duration,
    /// The rate, in rows a second, above which a conversation gets another partition.
    pub writes_per_partition: u64,
    pub most_partitions: u16,
    /// The number of consecutive seqs in one partition of a spread conversation.
    pub partition_block: u64,
}

impl Default for OwnerSettings {
    fn default() -> OwnerSettings {
        OwnerSettings {
            resident_conversations: 50_000,
            queued_calls: 10_000,
            dedupe_window: Duration::from_secs(7 * 24 * 3_600),
            writes_per_partition: super::WRITES_PER_PARTITION,
            most_partitions: 64,
            partition_block: 64,
        }
    }
}

/// Receives the messages that this node stores.
pub trait StoredListener: Send + Sync + 'static {
    /// A message is stored, and all rows below it. Called in order of seq within a conversation and
    /// before its sender gets the answer. Seqs of rows that other writers stored are missing: the
    /// listener reads them.
    fn stored(&self, conversation: ConversationId, appended: &Appended);
}

/// The ports of a pool.
#[derive(Clone)]
pub struct OwnerParts {
    pub rows: Arc<dyn Rows>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub fingerprint_key: FingerprintKey,
    pub listener: Arc<dyn StoredListener>,
    pub settings: OwnerSettings,
    /// A rule that the owners break. Only the model of the protocol sets it.
    pub planted: Option<PlantedBug>,
}

/// A wanted change of members.
#[derive(Clone, Debug)]
pub enum MembershipPlan {
    Add(AddMembers),
    Remove(RemoveMember),
}

impl MembershipPlan {
    fn conversation(&self) -> ConversationId {
        match self {
            MembershipPlan::Add(add) => add.conversation,
            MembershipPlan::Remove(remove) => remove.conversation,
        }
    }

    /// Decides what changes, given the members as of the head. `None`: nothing.
    fn decide(&self, members: &Members) -> Result<Option<MembershipRow>, Refusal> {
        let kind = self.conversation().kind();
        match self {
            MembershipPlan::Add(AddMembers { actor, users, member_limit, at, .. }) => {
                let joining = members.plan_addition(kind, actor, users, *member_limit)?;
                Ok((!joining.is_empty()).then(|| MembershipRow::joining(actor, &joining, *at)))
            }
            MembershipPlan::Remove(RemoveMember { actor, user, at, .. }) => {
                let new_admin = members.plan_removal(kind, actor, user)?;
                Ok(Some(MembershipRow::leaving(actor, user, new_admin.as_ref(), *at)))
            }
        }
    }
}

/// The outcome of an append.
type AppendAnswer = Result<Appended, StoreError>;
/// The outcome of a change of members: the members after it, and the head.
type MembersAnswer = Result<(Arc<Members>, Seq), StoreError>;

/// The outcome of a receipt: the member's state before and after it.
type ReceiptAnswer = Result<(MemberState, MemberState), StoreError>;

enum WaitingCall {
    Append(LogEntry, oneshot::Sender<AppendAnswer>),
    Receipt(Receipt, oneshot::Sender<ReceiptAnswer>),
    ChangeMembers(MembershipPlan, oneshot::Sender<MembersAnswer>),
}

impl WaitingCall {
    fn is_append(&self) -> bool {
        matches!(self, WaitingCall::Append(..))
    }

    /// Returns whether the caller no longer waits.
    fn is_abandoned(&self) -> bool {
        match self {
            WaitingCall::Append(_, answer) => answer.is_closed(),
            WaitingCall::Receipt(_, answer) => answer.is_closed(),
            WaitingCall::ChangeMembers(_, answer) => answer.is_closed(),
        }
    }

    fn refuse(self, error: StoreError) {
        let _caller_left = match self {
            WaitingCall::Append(_, answer) => answer.send(Err(error)).is_err(),
            WaitingCall::Receipt(_, answer) => answer.send(Err(error)).is_err(),
            WaitingCall::ChangeMembers(_, answer) => answer.send(Err(error)).is_err(),
        };
    }
}

/// A loaded conversation.
struct Resident {
    log: ConversationLog,
    members: OwnedMembers,
    read_states: ReadStates,
    floor: DedupeFloor,
    meter: SpreadMeter,
}

/// One conversation of the pool.
#[derive(Default)]
struct OwnedConversation {
    waiting: VecDeque<WaitingCall>,
    /// Whether a task works off the queue. That task has the log.
    is_running: bool,
    parked: Option<Box<Resident>>,
    /// The key of this conversation in [`PoolState::parked`].
    parked_at: u64,
}

#[derive(Default)]
struct PoolState {
    conversations: HashMap<ConversationId, OwnedConversation>,
    /// Parked logs, the least recently used one first.
    parked: BTreeMap<u64, ConversationId>,
    last_parked_at: u64,
    tasks: JoinSet<()>,
    is_closed: bool,
}

/// The owners of one node.
pub struct OwnerPool {
    parts: OwnerParts,
    state: Mutex<PoolState>,
}

impl OwnerPool {
    pub fn new(parts: OwnerParts) -> Arc<OwnerPool> {
        Arc::new(OwnerPool { parts, state: Mutex::default() })
    }

    /// Queues a message of a member. The order of calls for one conversation is the order of their
    /// seqs. The receiver gets the outcome when the message is stored; a call whose receiver is
    /// dropped before its turn is not stored.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::Overloaded`] if the queue is full, and with [`StoreError::Closing`]
    /// after [`OwnerPool::close`]. Nothing is stored then.
    pub fn append(
        self: &Arc<Self>,
        conversation: ConversationId,
        entry: LogEntry,
    ) -> Result<oneshot::Receiver<AppendAnswer>, StoreError> {
        let (answer, outcome) = oneshot::channel();
        self.queue(conversation, WaitingCall::Append(entry, answer))?;
        Ok(outcome)
    }

    /// Queues a change of members. The notices of one change are stored together or not at all.
    ///
    /// # Errors
    ///
    /// Like [`OwnerPool::append`].
    pub fn change_members(
        self: &Arc<Self>,
        plan: MembershipPlan,
    ) -> Result<oneshot::Receiver<MembersAnswer>, StoreError> {
        let (answer, outcome) = oneshot::channel();
        self.queue(plan.conversation(), WaitingCall::ChangeMembers(plan, answer))?;
        Ok(outcome)
    }

    /// Queues a receipt of a member.
    ///
    /// # Errors
    ///
    /// Like [`OwnerPool::append`].
    pub fn apply_receipt(
        self: &Arc<Self>,
        receipt: Receipt,
    ) -> Result<oneshot::Receiver<ReceiptAnswer>, StoreError> {
        let (answer, outcome) = oneshot::channel();
        self.queue(receipt.conversation, WaitingCall::Receipt(receipt, answer))?;
        Ok(outcome)
    }

    fn queue(self: &Arc<Self>, conversation: ConversationId, call: WaitingCall) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(StoreError::Closing);
        }
        let owned = state.conversations.entry(conversation).or_default();
        if owned.waiting.len() >= self.parts.settings.queued_calls {
            return Err(StoreError::Overloaded);
        }
        owned.waiting.push_back(call);
        if !owned.is_running {
            owned.is_running = true;
            let (resident, parked_at) = (owned.parked.take(), owned.parked_at);
            if resident.is_some() {
                state.parked.remove(&parked_at);
            }
            // Tasks that ended are taken out, so that the set does not grow.
            while state.tasks.try_join_next().is_some() {}
            state.tasks.spawn(Arc::clone(self).work_off(conversation, resident));
        }
        Ok(())
    }

    /// The number of loaded logs that no call uses.
    pub fn parked(&self) -> usize {
        self.state.lock().parked.len()
    }

    /// Stops at once, as a crash does: calls without an answer may be stored or not.
    pub fn abort(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.tasks.abort_all();
        state.conversations.clear();
    }

    /// Stores what was accepted, and refuses new calls.
    pub async fn close(&self) {
        let mut tasks = {
            let mut state = self.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.tasks)
        };
        while let Some(done) = tasks.join_next().await {
            if let Err(error) = done {
                tracing::error!(%error, "an owner task failed");
            }
        }
    }

    async fn work_off(self: Arc<Self>, conversation: ConversationId, parked: Option<Box<Resident>>) {
        let mut resident = parked;
        while let Some(calls) = self.next_calls(conversation, &mut resident) {
            if calls.is_empty() {
                continue;
            }
            if resident.is_none() {
                match self.load(conversation).await {
                    Ok(loaded) => resident = Some(Box::new(loaded)),
                    Err(error) => {
                        refuse(calls, &error);
                        continue;
                    }
                }
            }
            if let Some(loaded) = &mut resident
                && let Err(error) = self.serve(conversation, loaded, calls).await
            {
                // The log may lack a row that was stored; the next call loads it again.
                tracing::warn!(%conversation, %error, "a log could not be written; it is loaded again");
                resident = None;
            }
        }
    }

    /// Takes the next calls, as many as one grant covers. Parks the log and returns `None` if there
    /// are none; from then on the next call starts a new task.
    fn next_calls(
        &self,
        conversation: ConversationId,
        resident: &mut Option<Box<Resident>>,
    ) -> Option<Vec<WaitingCall>> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let owned = state.conversations.get_mut(&conversation).expect("its task is running");
        if !owned.waiting.is_empty() {
            // Messages up to the next change of members, or that change.
            let appends = owned.waiting.iter().take(MAX_GRANT as usize).take_while(|call| call.is_append());
            let count = appends.count().max(1);
            return Some(owned.waiting.drain(..count).filter(|call| !call.is_abandoned()).collect());
        }
        owned.is_running = false;
        let Some(parked) = resident.take() else {
            state.conversations.remove(&conversation);
            return None;
        };
        state.last_parked_at += 1;
        owned.parked = Some(parked);
        owned.parked_at = state.last_parked_at;
        state.parked.insert(state.last_parked_at, conversation);
        while state.parked.len() > self.parts.settings.resident_conversations {
            let Some((_, evicted)) = state.parked.pop_first() else { break };
            state.conversations.remove(&evicted);
        }
        None
    }

    async fn load(&self, conversation: ConversationId) -> Result<Resident, StoreError> {
        let OwnerParts { rows, clock, random, fingerprint_key, settings, .. } = &self.parts;
        let mut log = ConversationLog::load(LogParts {
            rows: Arc::clone(rows),
            conversation,
            incarnation: Incarnation::draw(&**random),
            fingerprint_key: fingerprint_key.clone(),
            clock: Arc::clone(clock),
            planted: self.parts.planted,
        })
        .await?;
        let members = OwnedMembers::load(MemberRows::new(Arc::clone(rows), conversation), &mut log).await?;
        let meter = SpreadMeter::new(settings.writes_per_partition, log.head(), Instant::now());
        let mut read_states = ReadStates::new(Arc::clone(rows), conversation);
        read_states.sent(log.take_senders());
        Ok(Resident { log, members, read_states, floor: DedupeFloor::new(settings.dedupe_window), meter })
    }

    /// Serves the calls of one turn: messages, or one change of members. After an error, calls
    /// without an answer have an unknown outcome.
    async fn serve(
        &self,
        conversation: ConversationId,
        resident: &mut Resident,
        calls: Vec<WaitingCall>,
    ) -> Result<(), StoreError> {
        let (mut entries, mut answers) = (Vec::new(), Vec::new());
        for call in calls {
            match call {
                WaitingCall::Append(entry, answer) => {
                    entries.push(entry);
                    answers.push(Some(answer));
                }
                WaitingCall::Receipt(receipt, answer) => {
                    let outcome = apply_receipt(resident, &receipt).await;
                    let failed = outcome.as_ref().err().filter(|error| !is_refusal(error)).cloned();
                    let _caller_left = answer.send(outcome);
                    failed.map_or(Ok(()), Err)?;
                }
                WaitingCall::ChangeMembers(plan, answer) => {
                    let outcome = change_members(resident, &plan).await;
                    let failed = outcome.as_ref().err().filter(|error| !is_refusal(error)).cloned();
                    let _caller_left = answer.send(outcome);
                    failed.map_or(Ok(()), Err)?;
                }
            }
        }
        if let Err(error) = self.store(conversation, resident, &entries, &mut answers).await {
            for answer in answers.into_iter().flatten() {
                let _caller_left = answer.send(Err(error.clone()));
            }
            return Err(error);
        }
        self.maintain(resident).await
    }

    async fn store(
        &self,
        conversation: ConversationId,
        resident: &mut Resident,
        entries: &[LogEntry],
        answers: &mut [Option<oneshot::Sender<AppendAnswer>>],
    ) -> Result<(), StoreError> {
        let Resident { log, members, .. } = resident;
        let mut waiting: Vec<usize> = (0..entries.len()).collect();
        while !waiting.is_empty() {
            // Rights are decided as of the head, directly above which the messages are stored.
            if !log.has(PlantedBug::KeepsRights) {
                members.follow(log).await?;
            }
            let is_stranger = |index: &usize| !members.members().contains(&entries[*index].sender);
            if waiting.iter().any(is_stranger) && !log.has(PlantedBug::RefusesOnLoadedState) {
                // A refusal stores no row that fences it, so loaded state must be confirmed (R5).
                log.confirm().await?;
                members.follow(log).await?;
            }
            waiting.retain(|index| {
                let is_member = members.members().contains(&entries[*index].sender);
                if !is_member && let Some(answer) = answers[*index].take() {
                    let _caller_left = answer.send(Err(Refusal::NotAMember.into()));
                }
                is_member
            });
            waiting = log
                .append_round(entries, waiting, &mut |index, appended| {
                    if !appended.duplicate {
                        self.parts.listener.stored(conversation, &appended);
                    }
                    if let Some(answer) = answers[index].take() {
                        let _caller_left = answer.send(Ok(appended));
                    }
                })
                .await?;
        }
        Ok(())
    }

    /// Writes what follows from the stored rows and is not needed for their safety.
    async fn maintain(&self, resident: &mut Resident) -> Result<(), StoreError> {
        let Resident { log, read_states, floor, meter, .. } = resident;
        let settings = &self.parts.settings;
        let now = Instant::now();
        read_states.sent(log.take_senders());
        if log.is_block_complete() {
            // Before the index: a load replays the replies of rows that no fingerprint row covers.
            read_states.flush().await?;
            log.index_ids().await?;
        }
        if let Some(floor) = floor.observe(log.head(), now) {
            log.raise_floor(floor).await?;
        }
        let current = log.map().partitions();
        if let Some(partitions) = meter.observe(log.head(), current, settings.most_partitions, now) {
            log.begin_epoch(partitions, settings.partition_block).await?;
        }
        Ok(())
    }
}

/// Decides and stores a change of members. Decides again when another writer was first.
async fn change_members(resident: &mut Resident, plan: &MembershipPlan) -> MembersAnswer {
    let Resident { log, members, .. } = resident;
    // Loaded state is a hint (R5): the members may have changed elsewhere.
    log.confirm().await?;
    loop {
        members.follow(log).await?;
        let Some(change) = plan.decide(members.members())? else { break };
        if log.append_membership(&change).await?.is_some() {
            members.follow(log).await?;
            break;
        }
    }
    Ok((Arc::clone(members.members()), log.head()))
}

async fn apply_receipt(resident: &mut Resident, receipt: &Receipt) -> ReceiptAnswer {
    let Resident { log, members, read_states, .. } = resident;
    if receipt.seq > log.head() || !members.members().contains(&receipt.user) {
        // Another owner may have stored the message, or added the member.
        log.confirm().await?;
        members.follow(log).await?;
        read_states.sent(log.take_senders());
    }
    if !members.members().contains(&receipt.user) {
        return Err(Refusal::NotAMember.into());
    }
    read_states.apply(&receipt.user, (receipt.kind, receipt.seq), log.head()).await
}

fn is_refusal(error: &StoreError) -> bool {
    matches!(error, StoreError::Refused(_))
}

fn refuse(calls: Vec<WaitingCall>, error: &StoreError) {
    calls.into_iter().for_each(|call| call.refuse(error.clone()));
}
