//! Bugs in the events that the store publishes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bluetick_core::ports::{CommitListener, Committed, CommittedChange, Ephemeral, ReadStateMoved};
use bluetick_core::{ConversationId, Members, ReadState, UserId};
use parking_lot::{Mutex, MutexGuard};

use super::PlantedBug;

pub struct RiggedListener {
    plant: PlantedBug,
    listener: Arc<dyn CommitListener>,
    told: AtomicU64,
    held: Mutex<Option<Committed>>,
    /// The last published read state of each user.
    last: Mutex<BTreeMap<(ConversationId, UserId), ReadState>>,
    /// The largest member list of each conversation so far.
    crowds: Mutex<BTreeMap<ConversationId, Arc<Members>>>,
}

/// Every `SELDOM`-th event goes wrong, so that a run makes progress first.
const SELDOM: u64 = 25;

impl RiggedListener {
    pub fn new(plant: PlantedBug, listener: Arc<dyn CommitListener>) -> RiggedListener {
        RiggedListener {
            plant,
            listener,
            told: AtomicU64::new(0),
            held: Mutex::default(),
            last: Mutex::default(),
            crowds: Mutex::default(),
        }
    }

    fn goes_wrong(&self) -> bool {
        self.told.fetch_add(1, Ordering::SeqCst) % SELDOM == SELDOM - 1
    }

    fn last(&self) -> MutexGuard<'_, BTreeMap<(ConversationId, UserId), ReadState>> {
        self.last.lock()
    }

    /// Returns the largest member list of the conversation so far. It approximates all former
    /// members.
    fn crowd(&self, committed: &Committed) -> Arc<Members> {
        let mut crowds = self.crowds.lock();
        let crowd =
            crowds.entry(committed.message.conversation).or_insert_with(|| Arc::clone(&committed.members));
        if committed.members.len() >= crowd.len() {
            *crowd = Arc::clone(&committed.members);
        }
        Arc::clone(crowd)
    }

    fn is_first(&self, moved: &ReadStateMoved) -> bool {
        !self.last().contains_key(&(moved.conversation, moved.user.clone()))
    }

    /// Holds a message back until the next message of its conversation is published.
    fn swap(&self, batch: Vec<Committed>) -> Vec<Committed> {
        let mut told = Vec::new();
        let mut held = self.held.lock();
        for committed in batch {
            match held.take() {
                None if self.goes_wrong() => *held = Some(committed),
                None => told.push(committed),
                Some(earlier) if earlier.message.conversation == committed.message.conversation => {
                    told.extend([committed, earlier]);
                }
                Some(earlier) => {
                    *held = Some(earlier);
                    told.push(committed);
                }
            }
        }
        told
    }
}

impl CommitListener for RiggedListener {
    fn committed(&self, mut batch: Vec<Committed>) {
        match self.plant {
            PlantedBug::PushOutOfOrder => batch = self.swap(batch),
            PlantedBug::PushLost => batch.retain(|_| !self.goes_wrong()),
            PlantedBug::HeardOutside => {
                batch.iter_mut().for_each(|committed| committed.members = self.crowd(committed));
            }
            _ => {}
        }
        let mut delivered = Vec::new();
        if self.plant == PlantedBug::DeliveredWithoutDevice {
            for committed in batch.iter().filter(|_| self.goes_wrong()) {
                let (conversation, seq) = (committed.message.conversation, committed.message.seq);
                for member in
                    committed.members.iter().filter(|member| member.user != committed.message.sender)
                {
                    let last = self.last().get(&(conversation, member.user.clone())).copied();
                    let own = ReadState { delivered: seq, read: last.unwrap_or_default().read };
                    delivered.push(CommittedChange::ReadState(ReadStateMoved {
                        conversation,
                        user: member.user.clone(),
                        members: Arc::clone(&committed.members),
                        own,
                        shown: Some(own),
                        unread: None,
                        origin: None,
                    }));
                }
            }
        }
        self.listener.committed(batch);
        self.listener.changed(delivered);
    }

    fn changed(&self, mut batch: Vec<CommittedChange>) {
        if self.plant == PlantedBug::TicksBehindAtRestart {
            for change in &mut batch {
                if let CommittedChange::ReadState(moved) = change
                    && self.is_first(moved)
                    && let Some(shown) = &mut moved.shown
                {
                    *shown = ReadState { delivered: shown.delivered.minus(3), read: shown.read.minus(3) };
                }
            }
        }
        for change in &batch {
            if let CommittedChange::ReadState(ReadStateMoved {
                conversation, user, shown: Some(shown), ..
            }) = change
            {
                self.last().insert((*conversation, user.clone()), *shown);
            }
        }
        if self.plant == PlantedBug::SessionStaysOpen {
            batch.retain(|change| !matches!(change, CommittedChange::Revoked { .. }));
        }
        if self.plant == PlantedBug::TickLost {
            batch.retain(|change| !matches!(change, CommittedChange::ReadState(_)) || !self.goes_wrong());
        }
        if self.plant == PlantedBug::TicksGoBack {
            for change in &mut batch {
                if let CommittedChange::ReadState(moved) = change
                    && self.goes_wrong()
                    && let Some(shown) = &mut moved.shown
                {
                    *shown = ReadState { delivered: shown.delivered.minus(3), read: shown.read.minus(3) };
                    shown.read = shown.read.min(shown.delivered);
                }
            }
        }
        self.listener.changed(batch);
    }

    fn received_ephemeral(&self, ephemeral: Ephemeral) {
        self.listener.received_ephemeral(ephemeral);
    }
}
