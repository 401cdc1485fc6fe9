//! Helpers for ticks and receipts.

use std::collections::BTreeMap;

use bluetick_core::ports::Receipt;
use bluetick_core::{
    ContentType, ConversationId, PreferenceChange, ReadState, ReceiptCounts, ReceiptKind, Seq, StoreError,
};

use crate::{Harness, StoreUnderTest};

/// A (delivered, read) pair.
pub type TickPair = (u64, u64);

pub fn ticks(read_state: ReadState) -> TickPair {
    (read_state.delivered.get(), read_state.read.get())
}

impl<H: Harness> StoreUnderTest<H> {
    pub async fn apply_receipt(
        &self,
        conversation: ConversationId,
        name: &str,
        kind: ReceiptKind,
        seq: u64,
    ) -> Result<ReadState, StoreError> {
        let mark = Receipt { conversation, user: self.user(name), kind, seq: Seq::new(seq), origin: None };
        self.store().apply_receipt(mark).await
    }

    /// Acknowledges all messages up to `seq` for a device of `name`. Returns the resulting read
    /// state of `name`.
    pub async fn delivered(&self, id: ConversationId, name: &str, seq: u64) -> TickPair {
        ticks(
            self.apply_receipt(id, name, ReceiptKind::Delivered, seq)
                .await
                .expect("a member may send receipts"),
        )
    }

    pub async fn read(&self, id: ConversationId, name: &str, seq: u64) -> TickPair {
        ticks(self.apply_receipt(id, name, ReceiptKind::Read, seq).await.expect("a member may send receipts"))
    }

    /// Returns the read state of `name` as `reader` sees it.
    pub async fn status(&self, id: ConversationId, reader: &str, name: &str) -> TickPair {
        *self.statuses(id, reader).await.get(self.user(name).as_str()).expect("they are members")
    }

    /// Returns the read states of all members as `reader` sees them, keyed by full user id.
    pub async fn statuses(&self, id: ConversationId, reader: &str) -> BTreeMap<String, TickPair> {
        let statuses = self.store().statuses(id, &self.user(reader)).await.expect("a member may ask");
        assert!(statuses.members.is_sorted_by(|one, next| one.user < next.user), "sorted, each once");
        let pair = |status: bluetick_core::ports::MemberStatus| {
            (status.user.as_str().to_owned(), ticks(status.read_state))
        };
        statuses.members.into_iter().map(pair).collect()
    }

    pub async fn hide_reads(&self, id: ConversationId, name: &str, hides: bool) {
        let change = PreferenceChange { hides_reads: Some(hides), ..PreferenceChange::default() };
        self.set_preferences(id, name, change).await.expect("a member may hide what it reads");
    }

    pub async fn receipt_counts(
        &self,
        id: ConversationId,
        reader: &str,
        seq: u64,
    ) -> Result<ReceiptCounts, StoreError> {
        self.store().receipt_counts(id, &self.user(reader), Seq::new(seq)).await
    }

    /// Returns (recipients, delivered, read) of the message at `seq`.
    pub async fn counted(&self, id: ConversationId, reader: &str, seq: u64) -> (usize, usize, usize) {
        let receipts =
            self.receipt_counts(id, reader, seq).await.expect("a member may ask about what it sees");
        (receipts.recipients, receipts.delivered, receipts.read)
    }

    /// Computes the unread count message by message: those by others, no notices, above the read
    /// seq.
    pub async fn unread_by_counting(&self, id: ConversationId, name: &str) -> u64 {
        let (user, (_, read)) = (self.user(name), self.status(id, name, name).await);
        let history = self.history(id, name).await;
        let unread = history.iter().filter(|message| {
            message.seq.get() > read && message.sender != user && message.content_type != ContentType::System
        });
        unread.count() as u64
    }
}
