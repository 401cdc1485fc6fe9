//! The conversations that this node owns: a queue of calls for each, and their logs while they are
//! loaded.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::ports::Random;
use bluetick_core::time::Clock;
use bluetick_core::{ConversationId, StoreError};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{DedupeFloor, SpreadMeter};
use crate::log::{Appended, ConversationLog, FingerprintKey, Incarnation, LogEntry, LogParts, MAX_GRANT};
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
}

/// The answer to a call.
type Answer = Result<Appended, StoreError>;

struct WaitingCall {
    entry: LogEntry,
    answer: oneshot::Sender<Answer>,
}

/// A loaded conversation.
struct Resident {
    log: ConversationLog,
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

    /// Queues a message. The order of calls for one conversation is the order of their seqs. The
    /// receiver gets the outcome when the message is stored; a call whose receiver is dropped
    /// before its turn is not stored.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::Overloaded`] if the queue is full, and with [`StoreError::Closing`]
    /// after [`OwnerPool::close`]. Nothing is stored then.
    pub fn append(
        self: &Arc<Self>,
        conversation: ConversationId,
        entry: LogEntry,
    ) -> Result<oneshot::Receiver<Answer>, StoreError> {
        let (answer, outcome) = oneshot::channel();
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(StoreError::Closing);
        }
        let owned = state.conversations.entry(conversation).or_default();
        if owned.waiting.len() >= self.parts.settings.queued_calls {
            return Err(StoreError::Overloaded);
        }
        owned.waiting.push_back(WaitingCall { entry, answer });
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
        Ok(outcome)
    }

    /// The number of loaded logs that no call uses.
    pub fn parked(&self) -> usize {
        self.state.lock().parked.len()
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
                && !self.store(conversation, loaded, calls).await
            {
                // The log may lack a row that was stored; the next call loads it again.
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
            let count = owned.waiting.len().min(MAX_GRANT as usize);
            return Some(owned.waiting.drain(..count).filter(|call| !call.answer.is_closed()).collect());
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
        let log = ConversationLog::load(LogParts {
            rows: Arc::clone(rows),
            conversation,
            incarnation: Incarnation::draw(&**random),
            fingerprint_key: fingerprint_key.clone(),
            clock: Arc::clone(clock),
            planted: None,
        })
        .await?;
        let meter = SpreadMeter::new(settings.writes_per_partition, log.head(), Instant::now());
        Ok(Resident { log, floor: DedupeFloor::new(settings.dedupe_window), meter })
    }

    /// Stores the messages of these calls. Returns whether the log may be used again.
    async fn store(
        &self,
        conversation: ConversationId,
        resident: &mut Resident,
        calls: Vec<WaitingCall>,
    ) -> bool {
        let (entries, answers): (Vec<_>, Vec<_>) =
            calls.into_iter().map(|call| (call.entry, Some(call.answer))).unzip();
        let mut answers = answers;
        let listener = &self.parts.listener;
        let stored = resident
            .log
            .append_all(&entries, &mut |index, appended| {
                if !appended.duplicate {
                    listener.stored(conversation, &appended);
                }
                if let Some(answer) = answers[index].take() {
                    let _caller_left = answer.send(Ok(appended));
                }
            })
            .await;
        match stored {
            Ok(()) => {
                if let Err(error) = self.maintain(resident).await {
                    tracing::warn!(%conversation, %error, "the index of a log was not written");
                    return false;
                }
                true
            }
            Err(error) => {
                tracing::warn!(%conversation, %error, "a log could not be written; it is loaded again");
                for answer in answers.into_iter().flatten() {
                    let _caller_left = answer.send(Err(error.clone()));
                }
                false
            }
        }
    }

    /// Writes what follows from the stored rows and is not needed for their safety.
    async fn maintain(&self, resident: &mut Resident) -> Result<(), StoreError> {
        let Resident { log, floor, meter } = resident;
        let settings = &self.parts.settings;
        let now = Instant::now();
        log.index_ids().await?;
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

fn refuse(calls: Vec<WaitingCall>, error: &StoreError) {
    for call in calls {
        let _caller_left = call.answer.send(Err(error.clone()));
    }
}
