//! The registry at hand: what this node knows of it, how it learns more, and how the next version comes to be.
//!
//! The row in the tables is the truth. Whatever version is at hand, however old, is right about every place it covers, so
//! nothing here depends on news, clocks or Redis; they only save requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bluetick_core::{ConversationId, Seq, StoreError};
use tokio::time::Instant;

use super::epochs::Registry;
use super::place::{Layout, Partition, SIGNPOST};
use super::rate::Meter;
use crate::rows::{Item, Key, Only, Query, Rows, Sort, SortRange, Table, Written};

pub struct Keeper {
    rows: Arc<dyn Rows>,
    layout: Layout,
    known: Mutex<HashMap<ConversationId, Arc<Registry>>>,
    meters: Mutex<HashMap<ConversationId, Meter>>,
    epochs_begun: AtomicU64,
}

/// Conversations at hand, before those are forgotten that cost nothing to learn again.
const MANY: usize = 100_000;

impl Keeper {
    pub fn new(rows: Arc<dyn Rows>, layout: Layout) -> Keeper {
        Keeper {
            rows,
            layout,
            known: Mutex::default(),
            meters: Mutex::default(),
            epochs_begun: AtomicU64::new(0),
        }
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    fn known(&self) -> MutexGuard<'_, HashMap<ConversationId, Arc<Registry>>> {
        self.known.lock().expect("nothing panics while it holds the lock")
    }

    fn meters(&self) -> MutexGuard<'_, HashMap<ConversationId, Meter>> {
        self.meters.lock().expect("nothing panics while it holds the lock")
    }

    /// Without asking anybody. Old, perhaps; right about what it covers.
    pub fn at_hand(&self, id: ConversationId) -> Arc<Registry> {
        self.known().get(&id).cloned().unwrap_or_else(|| Arc::new(Registry::absent(&self.layout)))
    }

    /// A version that somebody has read from the tables or written there, and passed on.
    pub fn heard(&self, id: ConversationId, registry: Registry) -> Arc<Registry> {
        let mut known = self.known();
        if known.len() >= MANY {
            known.clear();
        }
        let registry = Arc::new(registry);
        let there = known.entry(id).or_insert_with(|| Arc::clone(&registry));
        if there.version() < registry.version() {
            *there = registry;
        }
        Arc::clone(there)
    }

    /// As the tables have it now: decided are at least all places that were written to before this was called.
    pub async fn fresh(&self, id: ConversationId) -> Result<Arc<Registry>, StoreError> {
        let before = self.at_hand(id);
        let row = self.rows.get(Table::HotRegistry, &Key::new(id)).await?;
        self.read(id, &before, row)
    }

    fn read(
        &self,
        id: ConversationId,
        before: &Registry,
        row: Option<Item>,
    ) -> Result<Arc<Registry>, StoreError> {
        let registry = match row {
            Some(row) => Registry::decode(&row)?,
            None => Registry::absent(&self.layout),
        };
        // Tables that were restored to different moments: messages may lie where nobody would look.
        if registry.version() < before.version() {
            return Err(StoreError::Damaged(format!("the registry of {id} has gone back").into()));
        }
        if registry.version() == 0 {
            return Ok(Arc::new(registry));
        }
        Ok(self.heard(id, registry))
    }

    /// A version that covers this place, for whoever is about to write there; it is made where there is none.
    pub async fn covering(&self, id: ConversationId, seq: Seq) -> Result<Arc<Registry>, StoreError> {
        let at_hand = self.at_hand(id);
        if at_hand.covers(seq) {
            return Ok(at_hand);
        }
        let mut registry = self.fresh(id).await?;
        while !registry.covers(seq) {
            registry = self.extend(id, registry, seq).await?;
        }
        Ok(registry)
    }

    /// Where the message or void of this place belongs.
    pub async fn key(&self, id: ConversationId, seq: Seq) -> Result<Key, StoreError> {
        Ok(self.covering(id, seq).await?.partition(seq).key(id, seq))
    }

    /// A place was handed out. True: whoever it was handed out to calls [`Keeper::go_ahead`] beside its write, so that no
    /// write has to wait for a decision. Each place is one writer's, so it is one of all nodes.
    pub fn saw(&self, id: ConversationId, seq: Seq) -> bool {
        let now = Instant::now();
        let mut meters = self.meters();
        if meters.len() >= MANY {
            meters.retain(|_, meter| !meter.is_quiet(now));
        }
        if meters.len() < MANY {
            meters.entry(id).or_insert_with(|| Meter::new(seq, now)).saw(seq, now);
        }
        drop(meters);
        let Layout { ahead, .. } = self.layout;
        seq.get().is_multiple_of((ahead / 8).max(1)) && !self.at_hand(id).covers(seq.plus(ahead / 2))
    }

    /// A message has come to this node and is not stored yet (1), or is (-1).
    pub fn waits(&self, id: ConversationId, more: i64) {
        let mut meters = self.meters();
        if more > 0 && meters.len() < MANY {
            meters.entry(id).or_insert_with(|| Meter::new(Seq::ZERO, Instant::now()));
        }
        if let Some(meter) = meters.get_mut(&id) {
            meter.waits(more);
        }
    }

    pub async fn go_ahead(&self, id: ConversationId, seq: Seq) -> Result<(), StoreError> {
        self.covering(id, seq.plus(self.layout.ahead / 2)).await.map(drop)
    }

    /// From the next decision of this node on, the conversation is spread so far, whatever is measured: before an event that
    /// is sure to be busy. `None`: as measured again.
    pub fn ask_for(&self, id: ConversationId, partitions: Option<u16>) {
        let now = Instant::now();
        self.meters().entry(id).or_insert_with(|| Meter::new(Seq::ZERO, now)).ask_for(partitions);
    }

    /// How many writes a second the conversation takes, as far as this node sees.
    pub fn rate(&self, id: ConversationId) -> u64 {
        self.meters().get(&id).map_or(0, Meter::rate)
    }

    /// Epochs that this node has begun since the start.
    pub fn epochs_begun(&self) -> u64 {
        self.epochs_begun.load(Ordering::Relaxed)
    }

    /// One step towards a version that covers `seq`, by this node or by another.
    async fn extend(
        &self,
        id: ConversationId,
        registry: Arc<Registry>,
        seq: Seq,
    ) -> Result<Arc<Registry>, StoreError> {
        let (next, only) = match registry.version() {
            0 => (Registry::adopted(&self.layout, self.newest_plain(id).await?), Only::IfAbsent),
            version => {
                let wanted = self.wanted(id, &registry);
                let further = match self.is_unsure(id, &registry) {
                    true => 0,
                    false => (self.layout.ahead / 2).max(self.rate(id) / 2),
                };
                let through = seq.plus(further);
                (registry.extended(&self.layout, through, wanted), Only::IfVersion(version))
            }
        };
        if next.was_ever_salted() && !registry.was_ever_salted() {
            self.put_signpost(id).await?;
        }
        match self.rows.put(Table::HotRegistry, &Key::new(id), &next.item(), only).await? {
            Written::Done => {
                if next.epochs().len() > registry.epochs().len() {
                    self.epochs_begun.fetch_add(1, Ordering::Relaxed);
                    tracing::info!(conversation = %id, partitions = next.partitions(), from = %registry.horizon().next(), "a conversation is spread anew");
                }
                Ok(self.heard(id, next))
            }
            Written::Refused(row @ Some(_)) => self.read(id, &registry, row),
            Written::Refused(None) => self.fresh(id).await,
        }
    }

    fn is_unsure(&self, id: ConversationId, registry: &Registry) -> bool {
        self.meters().get(&id).is_some_and(|meter| meter.is_unsure(registry.partitions()))
    }

    fn wanted(&self, id: ConversationId, registry: &Registry) -> u16 {
        if self.layout.restless {
            return fastrand::u16(1..=self.layout.most_partitions);
        }
        let current = registry.partitions();
        self.meters().get(&id).map_or(current, |meter| meter.wanted(current, Instant::now()))
    }

    /// Before the first epoch is decided, so that it stands there when the first message lies elsewhere.
    async fn put_signpost(&self, id: ConversationId) -> Result<(), StoreError> {
        let key = Key::number(Partition::Plain.name(id), SIGNPOST);
        self.rows.put(Table::Messages, &key, &Item::new().flag("signpost", true), Only::Always).await?;
        Ok(())
    }

    /// What stands in the plain partition though nobody has decided so: messages that were brought in from elsewhere.
    async fn newest_plain(&self, id: ConversationId) -> Result<Seq, StoreError> {
        let query = Query {
            table: Table::Messages,
            partition: Partition::Plain.name(id),
            range: SortRange::Numbers(1, Seq::MAX.get()),
            descending: true,
            limit: 1,
            fields: &["content_type"],
        };
        let slice = self.rows.query(query).await?;
        Ok(match slice.rows.first() {
            Some((Sort::Number(newest), _)) => Seq::new(*newest),
            _ => Seq::ZERO,
        })
    }
}
