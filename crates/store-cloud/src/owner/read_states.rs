//! The read states of the members at their owner.
//!
//! A receipt is one conditional write of the member's row. A reply moves its sender's read state
//! without a write of its own: the message row says it. The owner keeps the senders since the last
//! [flush](ReadStates::flush) and replays them for a member whose row it reads. It flushes before
//! the [log](crate::log) indexes a block, so a load finds every sender that is not flushed among
//! the rows that it reads anyway.

use std::collections::HashMap;
use std::sync::Arc;

use bluetick_core::{ConversationId, MemberState, ReceiptKind, Seq, StoreError, UserId};

use crate::rows::{Item, Key, Only, Rows, Table, Written};
use crate::standings::{decode_status, status_item};

/// The read states of one conversation.
pub struct ReadStates {
    rows: Arc<dyn Rows>,
    conversation: ConversationId,
    loaded: HashMap<UserId, LoadedReadState>,
    /// The senders of messages since the last flush, in order of seq.
    senders: Vec<(Seq, UserId)>,
}

#[derive(Clone, Copy)]
struct LoadedReadState {
    state: MemberState,
    /// The version of the row; 0 if there is none.
    version: u64,
    /// Whether the row lacks a reply.
    is_dirty: bool,
}

impl ReadStates {
    pub fn new(rows: Arc<dyn Rows>, conversation: ConversationId) -> ReadStates {
        ReadStates { rows, conversation, loaded: HashMap::new(), senders: Vec::new() }
    }

    /// Records the senders of messages, in order of seq, each message once.
    pub fn sent(&mut self, senders: Vec<(Seq, UserId)>) {
        for (seq, sender) in senders {
            if let Some(loaded) = self.loaded.get_mut(&sender) {
                loaded.state.reply(seq);
                loaded.is_dirty = true;
            }
            self.senders.push((seq, sender));
        }
    }

    /// Returns a member's read state, replies included. Costs a read on first use.
    pub async fn get(&mut self, user: &UserId) -> Result<MemberState, StoreError> {
        if let Some(loaded) = self.loaded.get(user) {
            return Ok(loaded.state);
        }
        let loaded = self.read(user).await?;
        self.loaded.insert(user.clone(), loaded);
        Ok(loaded.state)
    }

    /// Applies a receipt, and returns the read states before and after it. One write if it moves
    /// anything. Another owner may write the row at the same time: states merge by maximum.
    pub async fn apply(
        &mut self,
        user: &UserId,
        (kind, seq): (ReceiptKind, Seq),
        head: Seq,
    ) -> Result<(MemberState, MemberState), StoreError> {
        let before = self.get(user).await?;
        let mut after = before;
        after.apply_receipt(kind, seq, head);
        if after != before {
            after = self.write(user, after).await?;
        }
        Ok((before, after))
    }

    /// Writes the read states that the rows lack, of all members that sent a message since the last
    /// flush. Called before the log indexes a block.
    pub async fn flush(&mut self) -> Result<(), StoreError> {
        let mut senders: Vec<UserId> = self.senders.iter().map(|(_, sender)| sender.clone()).collect();
        senders.sort_unstable();
        senders.dedup();
        for sender in senders {
            let state = self.get(&sender).await?;
            if self.loaded.get(&sender).is_some_and(|loaded| loaded.is_dirty) {
                self.write(&sender, state).await?;
            }
        }
        self.senders.clear();
        Ok(())
    }

    async fn read(&self, user: &UserId) -> Result<LoadedReadState, StoreError> {
        let row = self.rows.get(Table::MessageStatus, &self.key(user)).await?;
        let version = row.as_ref().map_or(0, Item::version);
        let mut state = row.as_ref().map(decode_status).unwrap_or_default();
        let stored = state;
        for (seq, sender) in &self.senders {
            if sender == user && *seq > stored.sent {
                state.reply(*seq);
            }
        }
        Ok(LoadedReadState { state, version, is_dirty: state != stored })
    }

    /// Writes the maximum of `wanted` and the row. Returns what is written.
    async fn write(&mut self, user: &UserId, wanted: MemberState) -> Result<MemberState, StoreError> {
        let mut loaded = match self.loaded.get(user) {
            Some(loaded) => *loaded,
            None => self.read(user).await?,
        };
        let result = loop {
            let mut state = wanted;
            state.advance(&loaded.state);
            let item = status_item(&state, loaded.version + 1);
            let only = if loaded.version == 0 { Only::IfAbsent } else { Only::IfVersion(loaded.version) };
            match self.rows.put(Table::MessageStatus, &self.key(user), &item, only).await {
                Ok(Written::Done) => {
                    loaded = LoadedReadState { state, version: loaded.version + 1, is_dirty: false };
                    break Ok(state);
                }
                Ok(Written::Refused(_)) => loaded = self.read(user).await?,
                Err(error) => break Err(error.into()),
            }
        };
        match result {
            Ok(_) => drop(self.loaded.insert(user.clone(), loaded)),
            // The row may have been written: it is read again before it is used.
            Err(_) => drop(self.loaded.remove(user)),
        }
        result
    }

    fn key(&self, user: &UserId) -> Key {
        Key::text(user, self.conversation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::memory::MemoryRows;

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    fn states(rows: &Arc<MemoryRows>) -> ReadStates {
        ReadStates::new(Arc::clone(rows) as Arc<_>, ConversationId::group([7; 15]))
    }

    const READ: ReceiptKind = ReceiptKind::Read;
    const DELIVERED: ReceiptKind = ReceiptKind::Delivered;

    #[tokio::test]
    async fn receipts_of_two_owners_merge_by_maximum() {
        let rows = Arc::new(MemoryRows::default());
        let (mut here, mut there) = (states(&rows), states(&rows));
        let (bob, head) = (user("bob"), Seq::new(9));
        here.apply(&bob, (DELIVERED, Seq::new(3)), head).await.unwrap();
        there.apply(&bob, (READ, Seq::new(2)), head).await.unwrap();
        here.apply(&bob, (DELIVERED, Seq::new(4)), head).await.unwrap();
        let (_, after) = there.apply(&bob, (READ, Seq::new(3)), head).await.unwrap();
        assert_eq!((after.delivered, after.read), (Seq::new(4), Seq::new(3)));
        let (before, after) = here.apply(&bob, (READ, Seq::new(1)), head).await.unwrap();
        assert_eq!(before, after, "an old receipt moves nothing");
        assert_eq!(states(&rows).get(&bob).await.unwrap().read, Seq::new(3));
    }

    #[tokio::test]
    async fn replies_that_were_not_flushed_are_replayed_from_the_rows_of_the_log() {
        let rows = Arc::new(MemoryRows::default());
        let mut first = states(&rows);
        let (alice, bob) = (user("alice"), user("bob"));
        first.sent(vec![(Seq::new(1), alice.clone()), (Seq::new(2), bob.clone())]);
        assert_eq!(first.get(&bob).await.unwrap().read, Seq::new(1));
        first.flush().await.unwrap();
        first.sent(vec![(Seq::new(3), alice.clone())]);
        // The first owner dies. The next one reads the rows since the last flush.
        let mut second = states(&rows);
        second.sent(vec![(Seq::new(3), alice.clone())]);
        let state = second.get(&alice).await.unwrap();
        assert_eq!((state.read, state.sent), (Seq::new(2), Seq::new(3)));
        assert_eq!(second.get(&bob).await.unwrap().sent, Seq::new(2), "flushed by the first owner");
    }

    #[tokio::test]
    async fn receipt_above_the_head_is_clamped() {
        let rows = Arc::new(MemoryRows::default());
        let (_, after) = states(&rows).apply(&user("bob"), (READ, Seq::new(50)), Seq::new(9)).await.unwrap();
        assert_eq!(after.read, Seq::new(9));
    }
}
