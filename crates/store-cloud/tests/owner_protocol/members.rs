//! Members who join and leave while owners die, compete and work on old state.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bluetick_core::members::MembershipChange;
use bluetick_core::ports::{AddMembers, RemoveMember};
use bluetick_core::time::ManualClock;
use bluetick_core::{Members, MessageId, Refusal, Seq, StoreError, Timestamp, UserId};
use bluetick_store_cloud::log::{
    Appended, FingerprintKey, LogEntry, LogReader, LogRow, MembershipRow, PartitionMap, RowKind,
};
use bluetick_store_cloud::owner::{
    MemberRows, MembershipPlan, OwnerParts, OwnerPool, OwnerSettings, StoredListener,
};
use bluetick_store_cloud::rows::Item;
use bluetick_store_cloud::rows::memory::MemoryRows;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::cluster::{Deviation, Outcome, conversation, runtime};
use crate::tables::{Chance, FaultyTables, Network};

/// How long a client waits before it repeats a call that a dead node did not answer. No put arrives
/// later.
const REPEAT: Duration = Duration::from_secs(10);

/// The members at the beginning; they stay.
const FOUNDERS: [&str; 2] = ["alice", "bob"];
/// Those who join and leave.
const GUESTS: [&str; 2] = ["carol", "dave"];

struct Ignored;

impl StoredListener for Ignored {
    fn stored(&self, _conversation: bluetick_core::ConversationId, _appended: &Appended) {}
}

/// Everything that the tasks of a run share.
#[derive(Clone)]
struct Fleet {
    chance: Chance,
    tables: Arc<FaultyTables>,
    pools: Arc<Mutex<Vec<Arc<OwnerPool>>>>,
    deviation: Deviation,
    violation: Arc<Mutex<Option<String>>>,
    sent: Arc<AtomicU64>,
}

fn user(name: &str) -> UserId {
    name.parse().expect("a valid user id")
}

impl Fleet {
    fn new(seed: u64, deviation: Deviation) -> Fleet {
        let chance = Chance::new(seed);
        let tables = FaultyTables {
            inner: MemoryRows::default(),
            chance: chance.clone(),
            fault_rate: [4, 12, 60][chance.below(3) as usize],
            longest_delay_ms: 2_000,
            is_calm: true.into(),
            delays_messages: false.into(),
            late_puts: AtomicU64::new(0),
        };
        Fleet {
            chance,
            tables: Arc::new(tables),
            pools: Arc::default(),
            deviation,
            violation: Arc::default(),
            sent: Arc::default(),
        }
    }

    fn report(&self, violation: String) {
        self.violation.lock().get_or_insert(violation);
    }

    fn network(&self) -> Arc<Network> {
        Arc::new(Network(Arc::clone(&self.tables)))
    }

    fn pool(&self) -> Arc<OwnerPool> {
        OwnerPool::new(OwnerParts {
            rows: self.network(),
            clock: Arc::new(ManualClock::at(Timestamp::from_millis(1_000_000))),
            random: Arc::new(self.chance.clone()),
            fingerprint_key: FingerprintKey { secret: [1; 32], mask: 0x0f, ids_per_row: 4 },
            listener: Arc::new(Ignored),
            settings: OwnerSettings {
                // Some nodes keep no log, so that they load one for each turn.
                resident_conversations: self.chance.below(2) as usize,
                ..OwnerSettings::default()
            },
            planted: match self.deviation {
                Deviation::Writer(bug) => Some(bug),
                _ => None,
            },
        })
    }

    fn any_pool(&self) -> Arc<OwnerPool> {
        let pools = self.pools.lock();
        Arc::clone(&pools[self.chance.below(pools.len() as u64) as usize])
    }

    /// Sends a message until a node stores or refuses it. Returns whether it is stored.
    async fn send(&self, sender: &str, id: &str) -> bool {
        let message_id: MessageId = id.parse().expect("a valid message id");
        let item = Item::new()
            .text("message_id", message_id.to_string())
            .text("sender_id", sender)
            .text("content_type", "text")
            .text("content", id);
        loop {
            let entry = LogEntry { sender: user(sender), message_id: message_id.clone(), item: item.clone() };
            let answer = match self.any_pool().append(conversation(), entry) {
                Ok(call) => call.await.ok(),
                Err(_) => None,
            };
            match answer {
                Some(Ok(_)) => {
                    self.sent.fetch_add(1, Ordering::Relaxed);
                    return true;
                }
                Some(Err(StoreError::Refused(Refusal::NotAMember))) => return false,
                _ => sleep(REPEAT).await,
            }
        }
    }

    /// Changes members until a node has done it.
    async fn change(&self, plan: &MembershipPlan) {
        loop {
            let answer = match self.any_pool().change_members(plan.clone()) {
                Ok(call) => call.await.ok(),
                Err(_) => None,
            };
            match answer {
                // An earlier attempt may have removed the member.
                Some(Ok(_) | Err(StoreError::Refused(Refusal::NoSuchMember))) => return,
                Some(Err(StoreError::Refused(refusal))) => {
                    self.report(format!("{plan:?} was refused: {refusal}"));
                    return;
                }
                _ => sleep(REPEAT).await,
            }
        }
    }
}

fn add(users: &[&str]) -> MembershipPlan {
    MembershipPlan::Add(AddMembers {
        conversation: conversation(),
        actor: user("alice"),
        users: users.iter().map(|name| user(name)).collect(),
        member_limit: 10,
        at: Timestamp::from_millis(7),
    })
}

fn remove(name: &str) -> MembershipPlan {
    MembershipPlan::Remove(RemoveMember {
        conversation: conversation(),
        actor: user("alice"),
        user: user(name),
        at: Timestamp::from_millis(7),
    })
}

/// Adds and removes the guests, and sends as them when they are members and when they are not.
async fn guests(fleet: Fleet) {
    for round in 0..3 {
        fleet.change(&add(&GUESTS)).await;
        for guest in GUESTS {
            if !fleet.send(guest, &format!("{guest}.{round}.in")).await {
                fleet.report(format!("{guest} is a member and was refused"));
            }
        }
        for guest in GUESTS {
            fleet.change(&remove(guest)).await;
            if fleet.send(guest, &format!("{guest}.{round}.out")).await {
                fleet.report(format!("{guest} has left and was not refused"));
            }
        }
    }
    fleet.change(&add(&GUESTS)).await;
}

async fn founder(fleet: Fleet, name: &'static str) {
    for burst in 0..4 {
        sleep(Duration::from_millis(fleet.chance.below(2_000))).await;
        let mut sends = JoinSet::new();
        for number in 0..fleet.chance.between(1, 8) {
            let fleet = fleet.clone();
            sends.spawn(async move { fleet.send(name, &format!("{name}.{burst}.{number}")).await });
        }
        if sends.join_all().await.contains(&false) {
            fleet.report(format!("{name} is a member all the time and was refused"));
        }
    }
}

async fn killer(fleet: Fleet) {
    for _ in 0..fleet.chance.between(0, 6) {
        sleep(Duration::from_millis(fleet.chance.below(1_500))).await;
        let replacement = fleet.pool();
        let mut pools = fleet.pools.lock();
        let victim = fleet.chance.below(pools.len() as u64) as usize;
        std::mem::replace(&mut pools[victim], replacement).abort();
    }
}

/// Replays the log, and compares each sender with the members at that seq, and the member rows with
/// the members at the end.
async fn audit(fleet: &Fleet) -> Result<(), StoreError> {
    fleet.tables.is_calm.store(true, Ordering::Relaxed);
    sleep(REPEAT).await;
    // A new owner completes the newest change.
    *fleet.pools.lock() = vec![fleet.pool()];
    fleet.send("alice", "last").await;

    let reader = LogReader::new(fleet.network(), conversation());
    let mut map = PartitionMap::default();
    let head = reader.newest(&mut map).await?.map_or(Seq::ZERO, |(seq, _)| seq);
    let rows = reader.page(&mut map, (Seq::FIRST, head)).await?;
    let mut members = Arc::new(Members::founding(&user("alice"), &[user("bob")]));
    let mut ids: HashSet<String> = HashSet::new();
    let mut notices: Option<(Seq, MembershipRow)> = None;
    for (seq, item) in rows {
        let row = LogRow::decode(item)?;
        if row.kind != RowKind::Message {
            continue;
        }
        if let Some(change) = &row.membership {
            notices = Some((seq, change.clone()));
        }
        if let Some((first, change)) = &notices
            && seq < first.plus(change.row_count())
        {
            if change.item(conversation(), *first, seq)? != row.item {
                fleet.report(format!("the notice at {seq} is not the one that the change names"));
            }
            let changes = change.changes(*first)?;
            let applied: Vec<&MembershipChange> =
                changes.iter().filter(|(at, _)| *at == seq).map(|(_, change)| change).collect();
            applied.into_iter().for_each(|change| change.apply(&mut members));
            continue;
        }
        let sender = UserId::from_stored(row.item.get_text("sender_id")?).expect("a valid user id");
        if !members.contains(&sender) {
            fleet.report(format!("{sender} wrote at {seq} without being a member"));
        }
        if !ids.insert(row.item.get_text("content")?.to_string()) {
            fleet.report(format!("the message at {seq} is stored twice"));
        }
    }
    let stored = MemberRows::new(fleet.network(), conversation()).read().await?;
    let names = |members: &Members| -> BTreeSet<(UserId, Seq)> {
        members.iter().map(|member| (member.user.clone(), member.joined_seq)).collect()
    };
    if names(&stored) != names(&members) {
        fleet.report(format!("the member rows say {stored:?}, the log says {members:?}"));
    }
    Ok(())
}

/// Runs one seed.
pub fn run_members(seed: u64, deviation: Deviation) -> Outcome {
    runtime().block_on(async {
        let fleet = Fleet::new(seed, deviation);
        let founding = Members::founding(&user(FOUNDERS[0]), &[user(FOUNDERS[1])]);
        let founded = MemberRows::new(fleet.network(), conversation()).found(&founding).await;
        founded.expect("the tables are calm");
        fleet.tables.is_calm.store(false, Ordering::Relaxed);
        let pools = (0..fleet.chance.between(2, 3)).map(|_| fleet.pool()).collect();
        *fleet.pools.lock() = pools;
        let mut tasks = JoinSet::new();
        tasks.spawn(guests(fleet.clone()));
        FOUNDERS.into_iter().for_each(|name| drop(tasks.spawn(founder(fleet.clone(), name))));
        tasks.spawn(killer(fleet.clone()));
        if timeout(Duration::from_secs(36_000), tasks.join_all()).await.is_err() {
            fleet.report("a call was not answered in ten hours".into());
        }
        if let Err(error) = audit(&fleet).await {
            fleet.report(format!("the log cannot be read: {error}"));
        }
        Outcome {
            violation: fleet.violation.lock().take(),
            acknowledged: fleet.sent.load(Ordering::Relaxed),
            ..Outcome::default()
        }
    })
}
