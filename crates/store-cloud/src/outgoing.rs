//! News on their way to other nodes: gathered by node while the last batch is under way.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bluetick_core::ports::{CommittedChange, Ephemeral};
use bluetick_core::{ConversationId, Members, Seq, UserId};
use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::NodeId;
use crate::append::LARGE;
use crate::cells::Cell;
use crate::engine::Engine;
use crate::hints::Touched;
use crate::memberships::Known;
use crate::news::{CellNews, Item, MovedNews, PresenceNews};
use crate::revoked::revocations_text;

#[derive(Default)]
pub(crate) struct Outgoing {
    waiting: Mutex<HashMap<NodeId, Vec<Item>>>,
    /// What found no room.
    dropped: Mutex<Vec<Item>>,
    /// Nodes that news were lost to. Redis may be away from this node alone, so that they notice nothing: they are told
    /// as soon as they can be.
    unheard: Mutex<HashSet<NodeId>>,
    more: Notify,
    emptied: Notify,
    is_sending: std::sync::atomic::AtomicBool,
}

/// News that may wait for one node. Above, they are dropped, and the node is told that they were.
const MOST_WAITING: usize = 100_000;
/// In one batch.
const MOST_AT_ONCE: usize = 500;
/// Until a node is told again that it has missed something.
const TOLD_AGAIN: Duration = Duration::from_secs(1);

impl Outgoing {
    fn put(&self, node: NodeId, item: Item) {
        let mut waiting = self.waiting.lock().expect("nothing panics while it holds the lock");
        let items = waiting.entry(node.clone()).or_default();
        if items.len() < MOST_WAITING {
            items.push(item);
        } else {
            self.unheard().insert(node);
            self.dropped.lock().expect("nothing panics while it holds the lock").push(item);
        }
        drop(waiting);
        self.more.notify_one();
    }

    fn take(&self) -> Vec<(NodeId, Vec<Item>)> {
        let mut waiting = self.waiting.lock().expect("nothing panics while it holds the lock");
        let mut batches = Vec::new();
        waiting.retain(|node, items| {
            let rest = items.split_off(items.len().min(MOST_AT_ONCE));
            batches.push((node.clone(), std::mem::replace(items, rest)));
            !items.is_empty()
        });
        batches
    }

    fn unheard(&self) -> MutexGuard<'_, HashSet<NodeId>> {
        self.unheard.lock().expect("nothing panics while it holds the lock")
    }

    /// They may have missed something, and are told so.
    pub fn was_not_heard(&self, by: impl IntoIterator<Item = NodeId>) {
        self.unheard().extend(by);
        self.more.notify_one();
    }

    /// Nodes that are to be told that they have missed something, and are there to be told.
    fn put_unheard(&self, living: &[NodeId]) {
        let unheard = std::mem::take(&mut *self.unheard());
        for node in unheard.into_iter().filter(|node| living.contains(node)) {
            self.put(node, Item::Missed);
        }
    }

    fn is_empty(&self) -> bool {
        self.waiting.lock().expect("nothing panics while it holds the lock").is_empty()
            && !self.is_sending.load(std::sync::atomic::Ordering::SeqCst)
    }

    pub async fn emptied(&self) {
        while !self.is_empty() {
            let emptied = self.emptied.notified();
            if self.is_empty() {
                return;
            }
            let _soon = timeout(Duration::from_millis(50), emptied).await;
        }
    }
}

pub(crate) async fn run(engine: Arc<Engine>) {
    let outgoing = &engine.outgoing;
    loop {
        outgoing.is_sending.store(true, std::sync::atomic::Ordering::SeqCst);
        let batches = outgoing.take();
        if batches.is_empty() {
            outgoing.is_sending.store(false, std::sync::atomic::Ordering::SeqCst);
            outgoing.emptied.notify_waiters();
            let nobody_missed_anything = outgoing.unheard().is_empty();
            match nobody_missed_anything {
                true => outgoing.more.notified().await,
                false if timeout(TOLD_AGAIN, outgoing.more.notified()).await.is_err() => {
                    outgoing.put_unheard(&engine.others_living());
                }
                false => {}
            }
            continue;
        }
        let dropped = std::mem::take(&mut *outgoing.dropped.lock().expect("no panic under the lock"));
        engine.owe_what_is_lost(&dropped).await;
        let sending = batches.into_iter().map(|(node, items)| {
            let engine = &engine;
            async move {
                engine.counters.news_sent.add(items.len() as u64);
                let news = serde_json::to_vec(&items).expect("news hold strings and numbers only");
                if let Err(away) = engine.neighbours.send(&node, Bytes::from(news)).await {
                    tracing::debug!(%node, %away, "news were lost; the node is told when it can be");
                    engine.owe_what_is_lost(&items).await;
                    engine.outgoing.unheard().insert(node);
                }
            }
        });
        join_all(sending).await;
    }
}

impl Engine {
    fn others_living(&self) -> Vec<NodeId> {
        self.local.living_to_tell(&self.node)
    }

    /// Tells the nodes to which receivers are connected; every node, where it is not known who is where.
    pub(crate) fn send_news(&self, cell: &Cell, known: &Known, touched: Option<&[Touched]>, settled: Seq) {
        let living = self.others_living();
        if living.is_empty() {
            return;
        }
        let news = CellNews::new(cell, known.version, settled);
        let mut to: HashMap<NodeId, Vec<String>> = HashMap::new();
        if touched.is_none() || cell.departed.is_some() {
            to.extend(living.iter().map(|node| (node.clone(), Vec::new())));
        }
        for (member, touched) in known.members.iter().zip(touched.unwrap_or_default()) {
            for node in touched.nodes.iter().filter(|node| living.contains(node)) {
                to.entry(node.clone()).or_default().push(member.user.to_string());
            }
        }
        for (node, to) in to {
            let mut news = news.clone();
            news.to = to;
            self.outgoing.put(node, Item::Cell(news));
        }
    }

    /// Those who were counted upon to hear of a message where they are connected may not: it is owed to them.
    async fn owe_what_is_lost(&self, items: &[Item]) {
        for item in items {
            let Item::Cell(news) = item else { continue };
            let Some(cell) = news.cell() else { continue };
            for user in news.to.iter().filter_map(|user| UserId::from_stored(user).ok()) {
                if user == cell.message.sender {
                    continue;
                }
                if let Err(error) = self.owe(user, cell.message.conversation, cell.seq()).await {
                    tracing::debug!(%error, "what somebody may have missed could not be written down");
                }
            }
        }
    }

    /// Tells everybody who should hear of it, here and elsewhere.
    pub(crate) fn tell_change(self: &Arc<Engine>, change: CommittedChange) {
        if !self.others_living().is_empty() {
            match &change {
                CommittedChange::ReadState(moved) => {
                    let version = self.memberships.get(moved.conversation).map_or(0, |known| known.version);
                    let item = Item::Moved(MovedNews::new(moved, version));
                    self.tell_members(moved.conversation, Arc::clone(&moved.members), item);
                }
                CommittedChange::Joined { conversation, user } => {
                    let item =
                        Item::Joined { conversation: conversation.to_string(), user: user.to_string() };
                    self.tell_nodes_of(*conversation, vec![user.clone()], item);
                }
                CommittedChange::PreferencesChanged { conversation, user } => {
                    let item =
                        Item::Preferred { conversation: conversation.to_string(), user: user.to_string() };
                    self.tell_nodes_of(*conversation, vec![user.clone()], item);
                }
                // Only this node knows whom it has overlooked.
                CommittedChange::ResyncRequired { .. } => {}
                // Every node: each may hold what it read of the user a moment ago.
                CommittedChange::Revoked { user, revocations } => {
                    let void = revocations_text(revocations);
                    for node in self.others_living() {
                        let item = Item::Revoked { user: user.to_string(), void: void.clone() };
                        self.outgoing.put(node, item);
                    }
                }
            }
        }
        match change {
            CommittedChange::ReadState(moved) => self.tell_moved(moved),
            change => self.listener.changed(vec![change]),
        }
    }

    pub(crate) fn pass_on(self: &Arc<Engine>, ephemeral: Ephemeral) {
        if self.others_living().is_empty() {
            return;
        }
        match ephemeral {
            Ephemeral::Typing { conversation, user, members } => {
                let item = Item::Typing { conversation: conversation.to_string(), user: user.to_string() };
                self.tell_members(conversation, members, item);
            }
            Ephemeral::Presence { user, online, profile, to } => {
                let item = Item::Presence(PresenceNews {
                    user: user.to_string(),
                    online,
                    last_seen_at: profile.last_seen_at.map(|at| at.millis()),
                    hides_presence: profile.hides_presence,
                    to: to.iter().map(ToString::to_string).collect(),
                });
                self.tell_nodes_of(ConversationId::direct(&user, &user), to, item);
            }
        }
    }

    fn tell_members(self: &Arc<Engine>, id: ConversationId, members: Arc<Members>, item: Item) {
        if members.len() > LARGE {
            for node in self.others_living() {
                self.outgoing.put(node, item.clone());
            }
            return;
        }
        let users = members.iter().map(|member| member.user.clone()).collect();
        self.tell_nodes_of(id, users, item);
    }

    fn tell_nodes_of(self: &Arc<Engine>, id: ConversationId, users: Vec<UserId>, item: Item) {
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            let living = engine.others_living();
            let Ok(found) = engine.hints.whereabouts(id, &users).await else {
                // It goes to nobody, and anybody may have somebody who waits for it.
                return engine.outgoing.was_not_heard(living);
            };
            let nodes: HashSet<_> = found.into_iter().flat_map(|touched| touched.nodes).collect();
            for node in nodes.into_iter().filter(|node| living.contains(node)) {
                engine.outgoing.put(node, item.clone());
            }
        });
    }
}
