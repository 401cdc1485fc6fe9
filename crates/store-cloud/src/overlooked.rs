//! People who are connected and were not told of something all the same.
//!
//! Whoever comes is sent what it is owed, and what is stored after that is told. Between the two lies what was told here
//! before it came, and is owed to it only since then, because whoever wrote it was slow, failed halfway or had no Redis.
//! It cannot be pushed any more: later ones may have been. So it is written down as owed, and the connection is asked to
//! come again.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bluetick_core::ports::Change;
use bluetick_core::{ConversationId, Seq, StoreError, UserId};
use tokio::time::sleep;

use crate::append::MOST_LOOKED_AFTER;
use crate::engine::Engine;
use crate::rooms::ON_ITS_WAY;

/// By then whoever has just come has been sent what it is owed, and has said that it has it.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// Those that are being looked after.
#[derive(Default)]
pub(crate) struct Overlooked(Mutex<HashSet<(UserId, ConversationId)>>);

impl Overlooked {
    /// Whether nobody does so yet, and there are not too many.
    fn watch(&self, user: &UserId, id: ConversationId) -> bool {
        let mut watched = self.0.lock().expect("nothing panics while it holds the lock");
        watched.len() < MOST_LOOKED_AFTER && watched.insert((user.clone(), id))
    }

    fn unwatch(&self, user: &UserId, id: ConversationId) {
        self.0.lock().expect("nothing panics while it holds the lock").remove(&(user.clone(), id));
    }
}

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
        if self.overlooked.watch(user, id) {
            tokio::spawn(Arc::clone(self).come_again_if_overlooked(user.clone(), id, through));
        }
        Ok(())
    }

    async fn come_again_if_overlooked(self: Arc<Engine>, user: UserId, id: ConversationId, through: Seq) {
        sleep(LOOK_AGAIN).await;
        match self.first_overlooked(&user, id, through).await {
            Ok(Some(_)) if self.local.is_here(&user) => {
                tracing::debug!(conversation = %id, "somebody connected here has missed something and comes again");
                self.counters.repairs.add(1);
                self.listener.changed(vec![Change::Overlooked { user: user.clone() }]);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(conversation = %id, %error, "whether somebody has missed something is not known");
            }
        }
        self.overlooked.unwatch(&user, id);
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
        let standing = self.standings_of(id, std::slice::from_ref(&member), Seq::MAX).await?[0].standing;
        let Some(after) = standing.pending_after(member.joined_seq, through) else { return Ok(None) };
        let first = after.next().max(through.minus(ON_ITS_WAY));
        let sent = self.local.sent_to(user, id);
        let is_sent = |seq: Seq| sent.is_some_and(|(first, last)| (first..=last).contains(&seq));
        if is_sent(first) && is_sent(through) {
            return Ok(None);
        }
        let cells = self.written(id, first, through).await?;
        let missed = cells.values().find(|cell| !is_sent(cell.seq()) && cell.message.sender != *user);
        Ok(missed.map(|cell| cell.seq()))
    }
}
