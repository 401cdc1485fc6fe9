//! Batches receipts of large groups and sends them to the few members who have ticks to draw. A
//! message to a thousand members costs its sender a few frames, and the other members none.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bluetick_core::{Chat, ConversationId, Members, PageFrom, PageLimit, ReadState, UserId};
use bluetick_wire::frame::{encode_receipts, encode_status};
use tokio::sync::Notify;

use super::changes::SMALL_GROUP;
use super::senders::Senders;
use super::{Frame, Sessions, guarded};
use crate::metrics::Metrics;

/// How long receipts are collected into a batch. A longer time delays ticks; a shorter one sends
/// more frames.
const GATHERING: Duration = Duration::from_millis(250);

/// Maximum number of members in a batch whose read states are sent one by one. Above it, only the
/// lowest read state of all other members is sent.
const NAMED: usize = 8;

/// Read states that moved and were not announced yet: one entry per conversation, for any number of
/// members.
pub(super) struct Gathering {
    moves: Mutex<Moves>,
    wake: Notify,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Moves {
    gathered: HashMap<ConversationId, Gathered>,
    /// Conversations that the worker has taken and is announcing.
    being_told: HashSet<ConversationId>,
}

struct Gathered {
    members: Arc<Members>,
    who: Who,
}

/// The members whose read states moved.
enum Who {
    /// At most [`NAMED`] members, each with its latest read state.
    Named(HashMap<UserId, ReadState>),
    Many,
}

impl Gathering {
    pub fn new(metrics: Arc<Metrics>) -> Gathering {
        Gathering { moves: Mutex::default(), wake: Notify::new(), metrics }
    }

    /// Adds a moved read state to the batch of the conversation and wakes the worker.
    pub fn add(&self, conversation: ConversationId, user: UserId, shown: ReadState, members: Arc<Members>) {
        let mut moves = self.moves();
        let gathered = moves
            .gathered
            .entry(conversation)
            .or_insert_with(|| Gathered { members: Arc::clone(&members), who: Who::Named(HashMap::new()) });
        gathered.members = members;
        let merged = match &mut gathered.who {
            Who::Named(named) => {
                let merged = named.insert(user, shown).is_some();
                if named.len() > NAMED {
                    gathered.who = Who::Many;
                }
                merged
            }
            Who::Many => true,
        };
        drop(moves);
        self.metrics.statuses_merged(u64::from(merged));
        self.wake.notify_one();
    }

    /// Schedules an announcement without a moved member: after a member left, the lowest read state
    /// of the others may be higher.
    pub fn touch(&self, conversation: ConversationId, members: &Arc<Members>) {
        let mut moves = self.moves();
        moves
            .gathered
            .entry(conversation)
            .or_insert_with(|| Gathered { members: Arc::clone(members), who: Who::Named(HashMap::new()) })
            .members = Arc::clone(members);
        drop(moves);
        self.wake.notify_one();
    }

    /// Whether receipts of this conversation wait in a batch or are being announced. A newer
    /// receipt must join the batch, or it would arrive before older ones. Small groups need this
    /// check too: a large group may just have become small.
    pub fn is_gathering(&self, conversation: ConversationId) -> bool {
        let moves = self.moves();
        moves.gathered.contains_key(&conversation) || moves.being_told.contains(&conversation)
    }

    fn take(&self) -> HashMap<ConversationId, Gathered> {
        let mut moves = self.moves();
        let gathered = std::mem::take(&mut moves.gathered);
        moves.being_told.extend(gathered.keys());
        gathered
    }

    fn told(&self, conversation: ConversationId) {
        self.moves().being_told.remove(&conversation);
    }

    fn moves(&self) -> MutexGuard<'_, Moves> {
        self.moves.lock().expect("nothing panics while it holds the lock")
    }
}

/// The worker that announces batched receipts.
pub(super) struct Teller {
    pub gathering: Arc<Gathering>,
    pub senders: Arc<Senders>,
    pub sessions: Arc<Sessions>,
    pub chat: Chat,
    pub metrics: Arc<Metrics>,
}

impl Teller {
    pub async fn run(self) {
        loop {
            self.gathering.wake.notified().await;
            tokio::time::sleep(GATHERING).await;
            for (conversation, gathered) in self.gathering.take() {
                guarded("receipts", self.tell(conversation, gathered)).await;
                self.gathering.told(conversation);
            }
        }
    }

    async fn tell(&self, conversation: ConversationId, gathered: Gathered) {
        let Gathered { members, who } = gathered;
        let named: Vec<(UserId, Frame)> = match who {
            Who::Many => Vec::new(),
            Who::Named(named) => {
                let frame =
                    |user: &UserId, shown| Frame::from(encode_status(conversation, user, shown, None));
                named.into_iter().map(|(user, shown)| (user.clone(), frame(&user, shown))).collect()
            }
        };
        for recipient in self.recipients(conversation, &members).await {
            let frames = named.iter().filter(|(user, _)| *user != recipient).map(|(_, frame)| frame.clone());
            let mut frames: Vec<Frame> = frames.collect();
            frames.extend(self.lowest(conversation, &recipient).await);
            let mut pushes = 0;
            self.sessions.each_of(&recipient, &mut |session| {
                frames.iter().for_each(|frame| session.outbox.push(frame.clone()));
                pushes += frames.len() as u64;
            });
            self.metrics.statuses_pushed(pushes);
        }
    }

    /// Returns a frame with the lowest read state of all other members, if it is new to the
    /// recipient. Also needed when few members moved: the one furthest behind may be among them.
    async fn lowest(&self, conversation: ConversationId, recipient: &UserId) -> Option<Frame> {
        match self.chat.inbox_entry(recipient, conversation).await {
            Ok(entry) if self.senders.tell(conversation, recipient, entry.others) => {
                Some(Frame::from(encode_receipts(conversation, entry.others)))
            }
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(%conversation, %error, "receipts could not be told");
                None
            }
        }
    }

    /// The connected members who are recent senders; in a small group, all connected members.
    async fn recipients(&self, conversation: ConversationId, members: &Members) -> Vec<UserId> {
        // A small group gets here when its ticks were delayed or a member left. All members get its
        // ticks, as in `Changes`.
        let mut senders = match self.senders.of(conversation) {
            _ if members.len() <= SMALL_GROUP => members.iter().map(|member| member.user.clone()).collect(),
            Some(senders) => senders,
            None => self.learn(conversation, members).await,
        };
        senders.retain(|user| members.contains(user) && self.sessions.is_online(user));
        senders
    }

    /// Reads the newest page as the member with the longest visible history. Returns the recent
    /// senders.
    async fn learn(&self, conversation: ConversationId, members: &Members) -> Vec<UserId> {
        let Some(reader) = members.iter().min_by_key(|member| member.joined_seq) else { return Vec::new() };
        let page = self.chat.history(&reader.user, conversation, PageFrom::Newest, PageLimit::MAX).await;
        match page {
            Ok(page) => self.senders.learn(conversation, &page.messages, page.head),
            Err(error) => tracing::debug!(%conversation, %error, "it is not known who has ticks to draw"),
        }
        self.senders.of(conversation).unwrap_or_default()
    }
}
