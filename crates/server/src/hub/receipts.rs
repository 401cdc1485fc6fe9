//! Receipts of large groups: gathered for a moment, and told to those few who have ticks to draw. So a message to a
//! thousand people costs its sender a handful of frames, and nobody else any.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bluetick_core::{Boundaries, Chat, ConversationId, Members, PageFrom, PageLimit, UserId};
use bluetick_wire::frame::{encode_receipts, encode_status};
use tokio::sync::Notify;

use super::changes::SMALL_GROUP;
use super::senders::Senders;
use super::{Frame, Sessions, guarded};
use crate::metrics::Metrics;

/// How long changes are gathered.
const GATHERING: Duration = Duration::from_millis(250);

/// When no more members than this have moved, each is named.
const NAMED: usize = 8;

/// What has moved since it was last told. One entry a conversation, however many members move.
pub(super) struct Gathering {
    moves: Mutex<Moves>,
    wake: Notify,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Moves {
    gathered: HashMap<ConversationId, Gathered>,
    /// Taken by the worker, and on the way to those concerned.
    being_told: HashSet<ConversationId>,
}

struct Gathered {
    members: Arc<Members>,
    who: Who,
}

enum Who {
    /// Few: each with the latest boundaries.
    Named(HashMap<UserId, Boundaries>),
    Many,
}

impl Gathering {
    pub fn new(metrics: Arc<Metrics>) -> Gathering {
        Gathering { moves: Mutex::default(), wake: Notify::new(), metrics }
    }

    pub fn add(&self, conversation: ConversationId, user: UserId, shown: Boundaries, members: Arc<Members>) {
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

    /// Nobody has moved, and yet all who are left may have come further.
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

    /// Whether something is still to be told of this conversation. What is told past it would arrive before what is
    /// older: a group may have become small a moment ago.
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

/// The worker.
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

    /// How far all others have come, if that is news. Also when few have moved: the one who was furthest behind may be
    /// among them.
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

    /// The members who are there and sent one of the last messages; in a small group all who are there.
    async fn recipients(&self, conversation: ConversationId, members: &Members) -> Vec<UserId> {
        // In a small group everybody is told of everybody, here as well: its ticks were late.
        let mut senders = match self.senders.of(conversation) {
            _ if members.len() <= SMALL_GROUP => members.iter().map(|member| member.user.clone()).collect(),
            Some(senders) => senders,
            None => self.learn(conversation, members).await,
        };
        senders.retain(|user| members.contains(user) && self.sessions.is_online(user));
        senders
    }

    /// Reads the newest page as the member who sees the most.
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
