//! Batches receipts of large groups and sends them to the few members who have ticks to draw. A
//! message to a thousand members costs its sender a few frames, and the other members none.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::{Chat, ConversationId, Members, PageFrom, PageLimit, ReadState, UserId};
use bluetick_wire::frame::{encode_receipts, encode_status};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::changes::SMALL_GROUP;
use super::recent_senders::RecentSenders;
use super::{EncodedFrame, Sessions, catch_panics};
use crate::metrics::Metrics;

/// How long receipts are collected into a batch. A longer time delays ticks; a shorter one sends
/// more frames.
const BATCH_WINDOW: Duration = Duration::from_millis(250);

/// Maximum number of members in a batch whose read states are sent one by one. Above it, only the
/// lowest read state of all other members is sent. A larger value multiplies the frames per batch.
const MAX_NAMED_MEMBERS: usize = 8;

/// Read states that moved and were not announced yet: one entry per conversation, for any number of
/// members.
pub(super) struct ReceiptBatches {
    state: Mutex<BatchState>,
    wake: Notify,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct BatchState {
    batches: HashMap<ConversationId, ReceiptBatch>,
    /// Conversations that the worker has taken and is announcing.
    publishing: HashSet<ConversationId>,
}

struct ReceiptBatch {
    members: Arc<Members>,
    moved: MovedMembers,
}

/// The members whose read states moved.
enum MovedMembers {
    /// At most [`MAX_NAMED_MEMBERS`] members, each with its latest read state.
    Named(HashMap<UserId, ReadState>),
    Many,
}

impl ReceiptBatches {
    pub fn new(metrics: Arc<Metrics>) -> ReceiptBatches {
        ReceiptBatches { state: Mutex::default(), wake: Notify::new(), metrics }
    }

    /// Adds a moved read state to the batch of the conversation and wakes the worker.
    pub fn add(&self, conversation: ConversationId, user: UserId, shown: ReadState, members: Arc<Members>) {
        let mut state = self.state();
        let batch = state.batches.entry(conversation).or_insert_with(|| ReceiptBatch {
            members: Arc::clone(&members),
            moved: MovedMembers::Named(HashMap::new()),
        });
        batch.members = members;
        let merged = match &mut batch.moved {
            MovedMembers::Named(named) => {
                let merged = named.insert(user, shown).is_some();
                if named.len() > MAX_NAMED_MEMBERS {
                    batch.moved = MovedMembers::Many;
                }
                merged
            }
            MovedMembers::Many => true,
        };
        drop(state);
        self.metrics.statuses_merged(u64::from(merged));
        self.wake.notify_one();
    }

    /// Schedules an announcement without a moved member: after a member left, the lowest read state
    /// of the others may be higher.
    pub fn schedule(&self, conversation: ConversationId, members: &Arc<Members>) {
        let mut state = self.state();
        state
            .batches
            .entry(conversation)
            .or_insert_with(|| ReceiptBatch {
                members: Arc::clone(members),
                moved: MovedMembers::Named(HashMap::new()),
            })
            .members = Arc::clone(members);
        drop(state);
        self.wake.notify_one();
    }

    /// Whether receipts of this conversation wait in a batch or are being announced. A newer
    /// receipt must join the batch, or it would arrive before older ones. Small groups need this
    /// check too: a large group may just have become small.
    pub fn is_batching(&self, conversation: ConversationId) -> bool {
        let state = self.state();
        state.batches.contains_key(&conversation) || state.publishing.contains(&conversation)
    }

    fn take(&self) -> HashMap<ConversationId, ReceiptBatch> {
        let mut state = self.state();
        let batches = std::mem::take(&mut state.batches);
        state.publishing.extend(batches.keys());
        batches
    }

    fn published(&self, conversation: ConversationId) {
        self.state().publishing.remove(&conversation);
    }

    fn state(&self) -> MutexGuard<'_, BatchState> {
        self.state.lock()
    }
}

/// The worker that announces batched receipts.
pub(super) struct ReceiptPublisher {
    pub receipt_batches: Arc<ReceiptBatches>,
    pub senders: Arc<RecentSenders>,
    pub sessions: Arc<Sessions>,
    pub chat: Chat,
    pub metrics: Arc<Metrics>,
}

impl ReceiptPublisher {
    pub async fn run(self) {
        loop {
            self.receipt_batches.wake.notified().await;
            tokio::time::sleep(BATCH_WINDOW).await;
            for (conversation, batch) in self.receipt_batches.take() {
                catch_panics("receipts", self.publish(conversation, batch)).await;
                self.receipt_batches.published(conversation);
            }
        }
    }

    async fn publish(&self, conversation: ConversationId, batch: ReceiptBatch) {
        let ReceiptBatch { members, moved } = batch;
        let named: Vec<(UserId, EncodedFrame)> = match moved {
            MovedMembers::Many => Vec::new(),
            MovedMembers::Named(named) => {
                let frame =
                    |user: &UserId, shown| EncodedFrame::from(encode_status(conversation, user, shown, None));
                named.into_iter().map(|(user, shown)| (user.clone(), frame(&user, shown))).collect()
            }
        };
        for recipient in self.recipients(conversation, &members).await {
            let frames = named.iter().filter(|(user, _)| *user != recipient).map(|(_, frame)| frame.clone());
            let mut frames: Vec<EncodedFrame> = frames.collect();
            frames.extend(self.lowest_frame(conversation, &recipient).await);
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
    async fn lowest_frame(&self, conversation: ConversationId, recipient: &UserId) -> Option<EncodedFrame> {
        match self.chat.inbox_entry(recipient, conversation).await {
            Ok(entry) if self.senders.record_published(conversation, recipient, entry.others) => {
                Some(EncodedFrame::from(encode_receipts(conversation, entry.others)))
            }
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(%conversation, %error, "receipts could not be published");
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
            None => self.read_senders(conversation, members).await,
        };
        senders.retain(|user| members.contains(user) && self.sessions.is_online(user));
        senders
    }

    /// Reads the newest page as the member with the longest visible history. Returns the recent
    /// senders.
    async fn read_senders(&self, conversation: ConversationId, members: &Members) -> Vec<UserId> {
        let Some(reader) = members.iter().min_by_key(|member| member.joined_seq) else { return Vec::new() };
        let page = self.chat.history(&reader.user, conversation, PageFrom::Newest, PageLimit::MAX).await;
        match page {
            Ok(page) => self.senders.record_page(conversation, &page.messages, page.head),
            Err(error) => tracing::debug!(%conversation, %error, "recent senders could not be read"),
        }
        self.senders.of(conversation).unwrap_or_default()
    }
}
