//! People who are connected and were not told of something all the same.
//!
//! Whoever comes is sent what it is owed, and what is stored after that is told. Between the two lies what was told here
//! before it came, and is owed to it only since then, because whoever wrote it was slow, failed halfway or had no Redis.
//! It cannot be pushed any more: later ones may have been. So it is written down as owed, and the connection is asked to
//! come again.

use std::sync::Arc;
use std::time::Duration;

use bluetick_core::ports::CommittedChange;
use bluetick_core::{ConversationId, Seq, StoreError, UserId};
use tokio::time::sleep;

use crate::cells::Cell;
use crate::engine::Engine;
use crate::rooms::ON_ITS_WAY;

/// By then whoever has just come has been sent what it is owed, and has said that it has it.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

impl Engine {
    /// Everything up to there was told here.
    pub(crate) async fn look_if_overlooked(
        self: &Arc<Engine>,
        user: &UserId,
        id: ConversationId,
        through: Seq,
    ) -> Result<(), StoreError> {
        let Some(first) = self.first_overlooked(user, id, through).await? else { return Ok(()) };
        self.owe(user.clone(), id, first).await?;
        if self.overlooked.begin((user.clone(), id)) {
            tokio::spawn(Arc::clone(self).come_again_if_overlooked(user.clone(), id, through));
        }
        Ok(())
    }

    async fn come_again_if_overlooked(self: Arc<Engine>, user: UserId, id: ConversationId, through: Seq) {
        let key = (user, id);
        loop {
            sleep(LOOK_AGAIN).await;
            if self.is_closed() {
                return;
            }
            // Whoever has just come is being sent what it is owed.
            if self.local.is_caught_up(&key.0) == Some(false) {
                continue;
            }
            let through = self.rooms.announced(id).unwrap_or(through);
            match self.first_overlooked(&key.0, id, through).await {
                Ok(Some(first)) if self.local.is_caught_up(&key.0) == Some(true) => {
                    tracing::info!(conversation = %id, %first, "somebody here missed something and is to come again");
                    self.counters.repairs.add(1);
                    self.listener.changed(vec![CommittedChange::ResyncRequired { user: key.0.clone() }]);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(conversation = %id, %error, "whether somebody missed something is not known");
                }
            }
            if self.overlooked.end(&key) {
                return;
            }
        }
    }

    /// The first of the latest messages of others that the user has neither been sent here nor acknowledged.
    async fn first_overlooked(
        &self,
        user: &UserId,
        id: ConversationId,
        through: Seq,
    ) -> Result<Option<Seq>, StoreError> {
        let known = match self.known_to(id, user).await {
            Ok(known) => known,
            Err(StoreError::Refused(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let member = known.member(user)?.clone();
        let member_state =
            self.standings_of(id, std::slice::from_ref(&member), Seq::MAX).await?[0].member_state;
        let Some(after) = member_state.pending_after(member.joined_seq, through) else { return Ok(None) };
        let first = after.next().max(through.minus(ON_ITS_WAY));
        let sent = self.local.sent_to(user, id);
        let is_sent = |seq: Seq| sent.is_some_and(|(first, last)| (first..=last).contains(&seq));
        if is_sent(first) && is_sent(through) {
            return Ok(None);
        }
        let cells = self.written(id, first, through).await?;
        let is_missed =
            |cell: &&Cell| !is_sent(cell.seq()) && !cell.is_void() && cell.message.sender != *user;
        Ok(cells.values().find(is_missed).map(Cell::seq))
    }
}
