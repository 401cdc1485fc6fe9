//! Deliveries that are owed: one row for each offline spell of a receiver, written before the sender is told that its
//! message is safe, and cleared by acks alone.
//!
//! Invariant: whoever has not acknowledged everything in a conversation has a row, or is connected to a living node that
//! has been told of the message. Such a node writes the row when the connection ends unanswered; for a node that died, the
//! whole list is looked through when the user comes back ([`came`](crate::fleet)). A row too many is harmless: what is
//! really pending is computed from the read state.

use std::sync::Arc;

use bluetick_core::{ConversationId, MemberState, Message, Seq, StoreError, UserId};

use crate::append::LARGE;
use crate::engine::Engine;
use crate::hints::Touched;
use crate::keyed::side_by_side;
use crate::memberships::Known;
use crate::rows::{Item, Key, Only, Table};

/// Rows written side by side.
const AT_ONCE: usize = 16;

/// A lasting one belongs to a large group and stays for as long as the member does.
pub(crate) fn pending_item(first_undelivered: Seq, is_lasting: bool) -> Item {
    let item = Item::new().count("first_undelivered_seq", first_undelivered.get()).versioned(1);
    if is_lasting { item.flag("lasting", true) } else { item }
}

impl Engine {
    /// Writes rows for all who are not there to hear of the message, which is stored. Whoever comes meanwhile may have looked
    /// for its row too early, and is noted in `touched`, so that it is told where it is. Returns those who need no row
    /// because they are here, as long as they stay.
    pub(crate) async fn settle_pending(
        &self,
        message: &Message,
        known: &Known,
        mut touched: Option<&mut [Touched]>,
        except: Option<&UserId>,
        new: &[UserId],
    ) -> Result<Vec<UserId>, StoreError> {
        if known.members.len() > LARGE {
            return Ok(Vec::new());
        }
        let before = self.relied_upon_here(known, except);
        let id = known.facts.id;
        let others = known.members.iter().map(|member| &member.user).enumerate();
        let others = others.filter(|(_, user)| Some(*user) != except && !self.local.is_here(user));
        let (mut absent, mut relied_upon) = (Vec::new(), Vec::new());
        for (index, user) in others {
            match touched.as_ref().and_then(|touched| touched.get(index)) {
                Some(touched) if self.local.any_other_lives(&self.node, &touched.nodes) => {}
                // Of somebody who has just joined, Redis may remember a row from before it left.
                Some(touched) if touched.pending && !new.contains(user) => {
                    relied_upon.push((index, user.clone()));
                }
                _ => absent.push((index, user.clone())),
            }
        }
        // A row that was there before the message was stored may be gone by now, and who took it away looked too early.
        if !relied_upon.is_empty() {
            let users: Vec<_> = relied_upon.iter().map(|(_, user)| user.clone()).collect();
            let again = self.hints.whereabouts(id, &users).await.ok();
            let still = |at: usize| again.as_ref().is_some_and(|again| again[at].pending);
            let gone = relied_upon.into_iter().enumerate().filter(|(at, _)| !still(*at));
            absent.extend(gone.map(|(_, somebody)| somebody));
        }
        if absent.is_empty() {
            return Ok(before);
        }
        let writing = absent.iter().map(|(_, user)| self.owe(user.clone(), id, message.seq)).collect();
        side_by_side(AT_ONCE, writing).await.into_iter().collect::<Result<(), _>>()?;
        if let Some(touched) = &mut touched {
            let users: Vec<_> = absent.iter().map(|(_, user)| user.clone()).collect();
            let now = self.hints.whereabouts(id, &users).await.unwrap_or_default();
            for ((index, _), now) in absent.iter().zip(now) {
                touched[*index] = now;
            }
        }
        let came = absent.into_iter().map(|(_, user)| user).filter(|user| self.local.is_here(user));
        Ok(before.into_iter().chain(came).collect())
    }

    /// Those who need no row because they are here, as long as they stay.
    pub(crate) fn relied_upon_here(&self, known: &Known, except: Option<&UserId>) -> Vec<UserId> {
        if known.members.len() > LARGE {
            return Vec::new();
        }
        let users = known.members.iter().map(|member| &member.user);
        users.filter(|user| Some(*user) != except && self.local.is_here(user)).cloned().collect()
    }

    /// From this place on, the user has undelivered messages, unless it had before.
    pub(crate) async fn owe(&self, user: UserId, id: ConversationId, from: Seq) -> Result<(), StoreError> {
        let key = Key::text(&user, id);
        loop {
            self.rows.put(Table::PendingDeliveries, &key, &pending_item(from, false), Only::IfAbsent).await?;
            // An ack may take the row away before the word that it is there: others would rely on nothing.
            if self.hints.set_pending(&user, id, true).await.is_err()
                || self.rows.get(Table::PendingDeliveries, &key).await?.is_some()
            {
                return Ok(());
            }
        }
    }

    /// A device has acknowledged. The row goes when it has everything; what came meanwhile, from somebody who saw the row
    /// and relied on it, is looked for afterwards.
    pub(crate) async fn clear_pending(
        self: &Arc<Engine>,
        user: &UserId,
        known: &Known,
        row: &Item,
        member_state: MemberState,
    ) -> Result<(), StoreError> {
        let id = known.facts.id;
        if row.find_flag("lasting") && known.members.len() > LARGE {
            return Ok(());
        }
        if self.head(id).await? > member_state.acknowledged {
            return Ok(());
        }
        // A row too many is harmless; somebody who relies on one that is gone is not.
        if self.hints.set_pending(user, id, false).await.is_err() {
            return Ok(());
        }
        self.rows.delete(Table::PendingDeliveries, &Key::text(user, id), Only::Always).await?;
        if self.head(id).await? > member_state.acknowledged {
            self.owe(user.clone(), id, member_state.acknowledged.next()).await?;
        }
        Ok(())
    }

    pub(crate) async fn head(&self, id: ConversationId) -> Result<Seq, StoreError> {
        Ok(self.newest(id).await?.map_or(Seq::ZERO, |cell| cell.seq()))
    }
}
