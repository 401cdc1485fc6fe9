//! When news may have been lost: everybody connected here is given what was stored meanwhile.
//!
//! What was is read from the inbox rows, which every living node writes within a moment. After the death of a node, whose
//! rows nobody writes, Redis tells in which conversations it may have been writing.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::ports::ReadStateMoved;
use bluetick_core::{ConversationId, InboxFilter, ReadState, Seq, StoreError, Timestamp, UserId};
use tokio::time::sleep;

use crate::NodeId;
use crate::append::LARGE;
use crate::cells::Cell;
use crate::engine::Engine;
use crate::rooms::Arrival;

/// Between two people, so that a repair leaves room for the rest.
const PACE: Duration = Duration::from_millis(1);

/// Activity so long ago is looked at. More than a Redis failover takes, with all that is late.
const LOOK_BACK_MS: i64 = 60_000;

/// A conversation that was told of here so long ago is looked at too, whatever the clocks say.
const USED_LATELY: Duration = Duration::from_secs(120);

/// Of somebody's inbox, as Redis has it: the latest.
const MOST_INDEXED: usize = 200;

/// Nobody is pushed more than this of one conversation; the rest is there to be paged.
const MOST_PUSHED: u64 = 1_000;

/// By then the other nodes have written the rows they were waiting with.
const SECOND_LOOK: Duration = Duration::from_secs(3);
/// While the tables fail it is looked again, less and less often: after four minutes for the last time.
const MOST_LOOKS: u32 = 12;

pub(crate) async fn run(engine: Arc<Engine>) {
    loop {
        engine.repair.notified().await;
        let troubles = engine.local.troubles();
        engine.mark_all_departed().await;
        // Who else has noticed writes its rows now as well.
        engine.flush_everything().await;
        engine.repair_everybody().await;
        sleep(SECOND_LOOK).await;
        let mut looks = 1;
        while !engine.repair_everybody().await && looks < MOST_LOOKS {
            sleep(SECOND_LOOK * looks).await;
            looks += 1;
        }
        engine.local.checked(troubles);
    }
}

impl Engine {
    /// Whether that could be done for all.
    async fn repair_everybody(self: &Arc<Engine>) -> bool {
        let since = self.lately();
        let mut is_whole = true;
        // What is active lately by the times of messages may be something else by the clock of this node.
        let mut active: BTreeSet<_> = self.rooms.used_within(USED_LATELY).into_iter().collect();
        for user in self.local.everybody() {
            match self.repair_user(&user, since).await {
                Ok(conversations) => active.extend(conversations),
                Err(error) => {
                    is_whole = false;
                    tracing::debug!(%error, "somebody connected here could not be checked yet");
                }
            }
            sleep(PACE).await;
        }
        for id in active {
            if let Err(error) = self.repair_followed(id).await {
                is_whole = false;
                tracing::debug!(conversation = %id, %error, "a conversation could not be checked yet");
            }
            sleep(PACE).await;
        }
        is_whole
    }

    async fn repair_followed(self: &Arc<Engine>, id: ConversationId) -> Result<(), StoreError> {
        let head = self.head(id).await?;
        if self.rooms.announced(id).is_some_and(|announced| announced < head) {
            self.counters.repairs.add(1);
            self.catch_up_to(id, head).await?;
        }
        self.tell_standings(id).await
    }

    /// Tells how far everybody has come, as far as that is news here. Of a large group nobody is told one by one.
    async fn tell_standings(self: &Arc<Engine>, id: ConversationId) -> Result<(), StoreError> {
        let known = match self.known(id).await {
            Ok(known) if known.members.len() <= LARGE => known,
            Ok(_) | Err(StoreError::Refused(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        if !known.members.iter().any(|member| self.local.is_here(&member.user)) {
            return Ok(());
        }
        let member_states = self.everybodys_standings(&known).await?;
        for (member, member_state) in known.members.iter().zip(member_states) {
            let moved = ReadStateMoved {
                conversation: id,
                user: member.user.clone(),
                members: Arc::clone(&known.members),
                own: member_state.own(),
                shown: Some(member_state.shown()),
                unread: None,
                origin: None,
            };
            if moved.own != ReadState::default() {
                self.hear_moved(moved).await;
            }
        }
        Ok(())
    }

    async fn repair_user(
        self: &Arc<Engine>,
        user: &UserId,
        since: Timestamp,
    ) -> Result<Vec<ConversationId>, StoreError> {
        let active = self.active_lately(user, since).await?;
        for id in &active {
            self.repair_conversation(*id, user).await?;
        }
        Ok(active)
    }

    /// In which conversations of the user something was said since then.
    pub(crate) async fn active_lately(
        &self,
        user: &UserId,
        since: Timestamp,
    ) -> Result<Vec<ConversationId>, StoreError> {
        let mut places = self.listed(user).await?;
        // Where Redis still has its index, that is newer than the rows.
        if let Ok(Some(indexed)) = self.hints.inbox(user, InboxFilter::All, None, MOST_INDEXED).await {
            places.extend(indexed);
        }
        // This node's clock may be ahead of those who wrote.
        let newest = places.iter().map(|place| place.last_at).max();
        let since = newest.map_or(since, |newest| since.min(newest.plus_millis(-LOOK_BACK_MS)));
        let mut seen = HashSet::new();
        places.retain(|place| place.last_at >= since && seen.insert(place.id));
        Ok(places.into_iter().map(|place| place.id).collect())
    }

    /// What happened lately may not have come here: from then on.
    pub(crate) fn lately(&self) -> Timestamp {
        self.clock.now().plus_millis(-LOOK_BACK_MS)
    }

    /// Who has gone just before it was noticed that news were lost may have missed some.
    async fn mark_all_departed(&self) {
        for user in self.local.take_departed() {
            if let Err(error) = self.mark_departed(&user).await {
                tracing::debug!(%error, "that somebody may have missed something could not be written down");
            }
            sleep(PACE).await;
        }
    }

    /// Tells what was not told here yet.
    async fn repair_conversation(
        self: &Arc<Engine>,
        id: ConversationId,
        user: &UserId,
    ) -> Result<(), StoreError> {
        let head = self.head(id).await?;
        if let Some(announced) = self.rooms.announced(id) {
            if announced < head {
                self.counters.repairs.add(1);
                self.catch_up_to(id, head).await?;
            }
            return self.look_if_overlooked(user, id, head).await;
        }
        let known = match self.known_to(id, user).await {
            Ok(known) => known,
            Err(StoreError::Refused(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let member = known.member(user)?.clone();
        let member_state =
            self.standings_of(id, std::slice::from_ref(&member), Seq::MAX).await?[0].member_state;
        let Some(after) = member_state.pending_after(member.joined_seq, head) else { return Ok(()) };
        let after = after.max(head.minus(MOST_PUSHED));
        self.counters.repairs.add(1);
        let cells = self.dense_with_content(id, after.next(), head).await?;
        // Nobody who left by one of these was in it while connected here.
        let cells = cells.into_iter().map(|cell| Cell { departed: None, ..cell });
        self.arrive(after, cells.map(|cell| Arrival::new(cell, &known)).collect());
        Ok(())
    }

    /// A node has died. What it stored and told nobody is told now, and what it owed is written down.
    pub(crate) async fn take_care_after(self: Arc<Engine>, node: NodeId) {
        let since = self.lately();
        let Ok(conversations) = self.hints.recently_reserved(since).await else { return };
        for id in conversations {
            if let Err(error) = self.take_care_of(id).await {
                tracing::debug!(%node, %error, "a conversation of a dead node could not be checked yet");
            }
            sleep(PACE).await;
        }
        let had_to_do_without = self.may_know_more_than_redis();
        // Ticks that it stored and told nobody: of these Redis knows nothing.
        for id in self.rooms.used_within(USED_LATELY) {
            // Nor of messages that it stored without Redis.
            if had_to_do_without && let Err(error) = self.seed_from(id, Seq::MAX).await {
                tracing::debug!(%node, %error, "Redis cannot be told yet what a dead node stored without it");
            }
            if let Err(error) = self.tell_standings(id).await {
                tracing::debug!(%node, %error, "the ticks of a dead node could not be checked yet");
            }
            sleep(PACE).await;
        }
    }

    async fn take_care_of(self: &Arc<Engine>, id: ConversationId) -> Result<(), StoreError> {
        let known = match self.known(id).await {
            Ok(known) => known,
            Err(StoreError::Refused(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let Some(newest) = self.newest(id).await? else { return Ok(()) };
        let here = known.members.iter().find(|member| self.local.is_here(&member.user));
        if let Some(member) = here {
            self.repair_conversation(id, &member.user).await?;
        }
        let users: Vec<_> = known.members.iter().map(|member| member.user.clone()).collect();
        let mut touched = self.hints.whereabouts(id, &users).await.ok();
        let sender = Some(&newest.message.sender);
        self.settle_pending(&newest.message, &known, touched.as_deref_mut(), sender, &[]).await?;
        self.flush.note_message(&newest, &known);
        Ok(())
    }
}
