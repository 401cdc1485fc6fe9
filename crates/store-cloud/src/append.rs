//! Sending: a place, a cell, and what follows from it.

use std::sync::Arc;

use bluetick_core::ports::{Accepted, Append, Appended, Change};
use bluetick_core::{ContentType, Refusal, Seq, StoreError, decide};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::cells::{Cell, Placed};
use crate::engine::Engine;
use crate::hints::{MessageKey, Place, Reserve, Reserved, Touched};
use crate::memberships::Known;
use crate::rooms::Arrival;
use crate::seeding::SeedError;
use crate::standings::Loaded;

/// In larger conversations nobody is looked up one by one: every node is told, the inboxes are moved once in a while, and
/// every member always counts as one who may have missed something.
pub(crate) const LARGE: usize = 100;

/// How a message came to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Usual,
    WithoutHints,
}

impl Engine {
    /// What one person sends to one conversation keeps its order: each message has its place before the next one asks for
    /// its own.
    pub(crate) fn accept(self: &Arc<Engine>, append: Append) -> Result<Accepted, StoreError> {
        if self.is_closed() {
            return Err(StoreError::Closing);
        }
        let lane = (append.conversation, append.sender.clone());
        let (done, outcome) = oneshot::channel();
        let engine = Arc::clone(self);
        if self.work.available_permits() + self.settings.sends_in_flight < (1 << 20) {
            return Err(StoreError::Overloaded);
        }
        let mut turn = self.lanes.join(&lane);
        tokio::spawn(async move {
            let result = async {
                let _work = engine.begin_write()?;
                turn.wait().await;
                engine.send(append).await
            };
            let result = result.await;
            engine.lanes.leave(&lane, turn);
            let _nobody_waits = done.send(result);
        });
        let lost = |_| StoreError::NoAnswer("the send was cut off".into());
        Ok(Box::pin(async move { outcome.await.map_err(lost)? }))
    }

    async fn send(self: &Arc<Engine>, append: Append) -> Result<Appended, StoreError> {
        let id = append.conversation;
        let mut known = self.known(id).await?;
        if !known.members.contains(&append.sender) {
            known = self.known_now(id).await?;
            known.member(&append.sender)?;
        }
        if let Some(after) = append.retry_after
            && let Some(seq) = self.find_id(id, after, &append.sender, &append.message_id).await?
            && let Some(cell) = self.cell(id, seq).await?
        {
            return self.again(&cell, &append).await;
        }
        let deadline = Instant::now() + self.settings.send_deadline();
        let mut reserve = Reserve {
            conversation: id,
            id: MessageKey::new(&append.sender, &append.message_id),
            sender: append.sender.clone(),
            now: append.received_at,
            instead_of: None,
            settled: Seq::ZERO,
        };
        if self.ledgers.is_unsure(self.settings.return_grace()) {
            return self.send_without_hints(append).await;
        }
        if self.ledgers.has_unnoted(id) {
            self.note_fallback(id).await?;
        }
        while Instant::now() < deadline {
            reserve.settled = self.rooms.announced(id).unwrap_or(Seq::ZERO);
            let place = match self.hints.reserve(&reserve).await {
                Ok(Reserved::Place(place)) => place,
                Ok(Reserved::Unseeded) => {
                    match self.seed(id).await {
                        Ok(()) => {}
                        Err(SeedError::Store(error)) => return Err(error),
                        Err(SeedError::Away(_)) => {
                            self.ledgers.was_away();
                            return self.send_without_hints(append).await;
                        }
                    }
                    continue;
                }
                Err(away) => {
                    tracing::debug!(%away, "a message is stored without Redis");
                    self.ledgers.was_away();
                    return self.send_without_hints(append).await;
                }
            };
            if place.members_version > known.version {
                known = self.known_now(id).await?;
                if let Err(refusal) = known.member(&append.sender) {
                    // The place was handed out for nothing.
                    self.close_hole(id, place.seq).await?;
                    return Err(refusal.into());
                }
            }
            if place.known
                && let Some(cell) = self.cell(id, place.seq).await?
            {
                if is_same(&cell, &append) {
                    return self.again(&cell, &append).await;
                }
                reserve.instead_of = Some(place.seq);
                continue;
            }
            if let Some(outcome) = self.try_place(&append, &known, place).await? {
                return outcome;
            }
            // Somebody else's: the counter is behind the table, or a reader has closed the gap.
            reserve.instead_of = Some(place.seq);
            if let Err(SeedError::Store(error)) = self.seed_from(id, place.seq).await {
                return Err(error);
            }
        }
        Err(StoreError::NoAnswer("no place could be had in time".into()))
    }

    /// `None` when the place is somebody else's.
    async fn try_place(
        self: &Arc<Engine>,
        append: &Append,
        known: &Known,
        place: Place,
    ) -> Result<Option<Result<Appended, StoreError>>, StoreError> {
        let message = Arc::new(decide::place(append.clone(), &known.members, place.seq));
        let cell = Cell { message, last_at: Some(place.last_at), departed: None, cold: None };
        self.expect(&cell.message, append.origin, place.settled);
        let touch = self.touch(known, append);
        let standing = self.standing_before(known, &append.sender, place.seq);
        let (placed, touched, standing) = tokio::join!(self.place(&cell), touch, standing);
        match placed? {
            Placed::Done => {}
            Placed::Taken(cell) if is_same(&cell, append) => {
                return Ok(Some(self.again(&cell, append).await));
            }
            Placed::Taken(_) => return Ok(None),
        }
        Ok(Some(self.stored(cell, known, touched, standing?, place.settled, Way::Usual).await))
    }

    /// Moves the conversation up in everybody's inbox and learns where they are. `None` where that is not known or not
    /// asked.
    async fn touch(&self, known: &Known, append: &Append) -> Option<Vec<Touched>> {
        if known.members.len() > LARGE {
            return None;
        }
        let users: Vec<_> = known.members.iter().map(|member| member.user.clone()).collect();
        self.hints.touch(append.conversation, append.received_at, &users).await.ok()
    }

    /// What follows from a message of this node's that is in its place.
    pub(crate) async fn stored(
        self: &Arc<Engine>,
        cell: Cell,
        known: &Known,
        touched: Option<Vec<Touched>>,
        standing: Loaded,
        settled: Seq,
        way: Way,
    ) -> Result<Appended, StoreError> {
        let message = Arc::clone(&cell.message);
        let appended = Appended { seq: message.seq, received_at: message.received_at, duplicate: false };
        self.settle_pending(&message, known, touched.as_deref(), Some(&message.sender)).await?;
        // Without Redis, nobody else would know what is written later.
        let at_once = way == Way::WithoutHints;
        match at_once && known.members.len() <= LARGE {
            true => self.write_inboxes(&cell, known).await?,
            false => self.flush.note_message(&cell, known),
        }
        let moved = self.replied(known, &message.sender, standing, message.seq, at_once).await?;
        self.send_news(&cell, known, touched.as_deref(), settled);
        let arrival = Arrival { cell, members: Arc::clone(&known.members) };
        if let Some(told) = self.arrive(settled, vec![arrival]) {
            let _gone = told.await;
        }
        if let Some(moved) = moved {
            self.tell_change(Change::Moved(moved));
        }
        Ok(appended)
    }

    /// The message was stored by an earlier attempt.
    pub(crate) async fn again(
        self: &Arc<Engine>,
        cell: &Cell,
        append: &Append,
    ) -> Result<Appended, StoreError> {
        let (seq, received_at) = (cell.seq(), cell.message.received_at);
        let mut cell = cell.clone();
        self.fill_all(std::slice::from_mut(&mut cell)).await?;
        // Of what was erased or lost nothing is left to compare with, and it must not come back.
        let is_gone = matches!(cell.message.content_type, ContentType::Erased | ContentType::Lost);
        if !is_gone && !decide::same_message(&cell.message, append) {
            return Err(Refusal::MessageIdReused { first_seq: seq }.into());
        }
        // Whoever stored it may have died before it told anybody.
        self.catch_up_to(append.conversation, seq).await?;
        Ok(Appended { seq, received_at, duplicate: true })
    }
}

pub(crate) fn is_same(cell: &Cell, append: &Append) -> bool {
    cell.message.sender == append.sender && cell.message.message_id == append.message_id
}
