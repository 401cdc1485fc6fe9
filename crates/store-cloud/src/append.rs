//! Sending: a place, a cell, and what follows from it.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bluetick_core::ports::{Accepted, Append, Appended, CommittedChange};
use bluetick_core::{ContentType, ConversationId, Message, Refusal, Seq, StoreError, Timestamp, decide};
use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::cells::{Cell, Placed};
use crate::engine::Engine;
use crate::hints::{MessageKey, Place, Reserve, Reserved, Touched};
use crate::looked_after::LookedAfter;
use crate::memberships::Known;
use crate::rooms::{Arrival, Expectation, Told};
use crate::seeding::SeedError;
use crate::standings::Loaded;

/// In larger conversations nobody is looked up one by one: every node is told, the inboxes are moved once in a while, and
/// every member always counts as one who may have missed something.
pub(crate) const LARGE: usize = 100;

/// A message that is sent again so soon may be new to those who are connected.
const TOLD_AGAIN_MS: i64 = 600_000;

/// A write that is under way is done or given up by then.
pub(crate) const WRITES_TAKE: Duration = Duration::from_secs(20);

/// Nearly all of them by then.
pub(crate) const LATE_WRITES: Duration = Duration::from_secs(4);

/// What was stored without Redis is in the tables so long after everybody has gone back to it.
const LATE_WITHOUT_REDIS: Duration = Duration::from_secs(3);

/// So far below what was told long ago, something may stand that was stored without Redis a moment ago.
pub(crate) const RECENT: u64 = 1_000;

/// Places whose write got no answer, by what was to be written there: whoever tries again here begins with that place,
/// whatever Redis knows by then.
#[derive(Default)]
pub(crate) struct Unresolved {
    places: Mutex<HashMap<(ConversationId, MessageKey), Place>>,
    looked_after: LookedAfter<(ConversationId, MessageKey, Seq)>,
}

const MOST_UNRESOLVED: usize = 100_000;
/// A write without an answer is done soon, late or never.
pub(crate) const LOOKS: [Duration; 3] =
    [Duration::from_millis(250), Duration::from_secs(4), Duration::from_secs(20)];

impl Unresolved {
    fn keep(&self, id: ConversationId, key: MessageKey, place: Place) {
        let mut places = self.places.lock().expect("nothing panics while it holds the lock");
        if places.len() >= MOST_UNRESOLVED {
            places.clear();
        }
        places.insert((id, key), place);
    }

    fn take(&self, id: ConversationId, key: MessageKey) -> Option<Place> {
        self.places.lock().expect("nothing panics while it holds the lock").remove(&(id, key))
    }
}

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
        self.keeper.waits(append.conversation, 1);
        tokio::spawn(async move {
            let result = async {
                let _work = engine.begin_write()?;
                turn.wait().await;
                engine.send(append).await
            };
            let result = result.await;
            engine.keeper.waits(lane.0, -1);
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
            return self.again(cell, &append, &known, Seq::MAX).await;
        }
        let deadline = Instant::now() + self.settings.send_deadline();
        let mut reserve = Reserve {
            conversation: id,
            id: MessageKey::new(&append.sender, &append.message_id),
            sender: append.sender.clone(),
            now: append.received_at,
            instead_of: None,
            settled: Seq::ZERO,
            registry_version: 0,
        };
        if let Some(place) = self.unresolved.take(id, reserve.id) {
            if let Some(outcome) = self.try_place(&append, &known, place.clone()).await? {
                return Ok(outcome);
            }
            reserve.instead_of = Some(place.seq);
        }
        let grace = self.settings.return_grace();
        while Instant::now() < deadline {
            self.until_sure_of_redis(deadline).await?;
            if self.outage.lasts(grace) {
                match self.send_without_hints(&append).await? {
                    Some(appended) => return Ok(appended),
                    None => continue,
                }
            }
            if self.ledgers.has_unnoted(id) {
                self.note_fallback(id).await?;
            }
            // Looked for before a place is handed out for nothing.
            if let Some(settled) = self.seeded.lately(id)
                && let Some(seq) = self.find_id(id, settled, &append.sender, &append.message_id).await?
                && let Some(cell) = self.cell(id, seq).await?
            {
                return self.again(cell, &append, &known, settled).await;
            }
            reserve.settled = self.rooms.settled(id).unwrap_or(Seq::ZERO);
            reserve.registry_version = self.keeper.at_hand(id).version();
            let place = match self.hints.reserve(&reserve).await {
                Ok(Reserved::Place(place)) => place,
                Ok(Reserved::Unseeded) => {
                    match self.seed(id).await {
                        Ok(()) => {}
                        Err(SeedError::Store(error)) => return Err(error),
                        Err(SeedError::Away(_)) => self.until_back_or_away(id).await?,
                    }
                    continue;
                }
                Err(away) => {
                    tracing::debug!(%away, "a message waits for Redis, or is stored without it");
                    self.until_back_or_away(id).await?;
                    continue;
                }
            };
            self.hear_of_registry(id, &place);
            if place.members_version > known.version {
                known = self.known_now(id).await?;
                if let Err(refusal) = known.member(&append.sender) {
                    self.give_back(&place, &known).await?;
                    return Err(refusal.into());
                }
            }
            if append.retry_after.is_some() && !place.known && !self.until_late_writes_are_done(&place).await
            {
                continue;
            }
            if let Some(cell) = self.stored_meanwhile(&append, &place).await? {
                self.give_back(&place, &known).await?;
                let _may_fail = self.seed_from(id, cell.seq()).await;
                return self.again(cell, &append, &known, place.settled).await;
            }
            if place.known
                && let Some(cell) = self.cell(id, place.seq).await?
            {
                if is_same(&cell, &append) {
                    return self.again(cell, &append, &known, place.settled).await;
                }
                reserve.instead_of = Some(place.seq);
                continue;
            }
            // Others may have begun to do without Redis while this one asked it.
            self.until_sure_of_redis(deadline).await?;
            if self.outage.lasts(grace) {
                continue;
            }
            if let Some(appended) = self.try_place(&append, &known, place.clone()).await? {
                return Ok(appended);
            }
            // Somebody else's: the counter is behind the table, or a reader has closed the gap.
            reserve.instead_of = Some(place.seq);
            if let Err(SeedError::Store(error)) = self.seed_from(id, place.seq).await {
                return Err(error);
            }
        }
        Err(StoreError::NoAnswer("no place could be had in time".into()))
    }

    /// The place was handed out for nothing, and may be the last for a while: whoever is connected hears of it as of any other.
    async fn give_back(self: &Arc<Engine>, place: &Place, known: &Known) -> Result<(), StoreError> {
        let cell = self.close_hole(known.facts.id, place.seq).await?;
        if cell.is_void() {
            self.send_news(&cell, known, None, place.settled);
            if known.members.iter().any(|member| self.local.is_here(&member.user)) {
                self.arrive(place.settled, vec![Arrival::new(cell, known)]);
            }
        }
        Ok(())
    }

    /// Redis has forgotten the conversation a moment ago, or was done without, and the earlier attempt may be on its way to
    /// a place that Redis does not know of. Whoever tries again waits for that, so as not to be stored beside it.
    /// Returns false when Redis is done without again.
    async fn until_late_writes_are_done(&self, place: &Place) -> bool {
        while self.outage_was_within(LATE_WITHOUT_REDIS) {
            if self.outage.lasts(self.settings.return_grace()) {
                return false;
            }
            sleep(Duration::from_millis(100)).await;
        }
        if let Some(ago) = place.seeded_ago {
            sleep(LATE_WRITES.saturating_sub(ago)).await;
        }
        true
    }

    /// Redis has forgotten the conversation a moment ago. Whoever told it again did not see what was being written just
    /// then, which may have been this very message.
    async fn stored_meanwhile(&self, append: &Append, place: &Place) -> Result<Option<Cell>, StoreError> {
        let was_seeded = place.seeded_ago.is_some_and(|ago| ago <= WRITES_TAKE);
        let after = match self.outage_was_within(WRITES_TAKE) {
            true => place.seeded_head.min(place.settled.minus(RECENT)),
            false if was_seeded => place.seeded_head,
            false => return Ok(None),
        };
        let id = append.conversation;
        match self.find_id(id, after, &append.sender, &append.message_id).await? {
            Some(seq) if seq != place.seq => self.cell(id, seq).await,
            _ => Ok(None),
        }
    }

    /// `None` when the place is somebody else's.
    async fn try_place(
        self: &Arc<Engine>,
        append: &Append,
        known: &Known,
        place: Place,
    ) -> Result<Option<Appended>, StoreError> {
        let message = Arc::new(decide::place(append.clone(), &known.members, place.seq));
        let cell =
            Cell { message: Arc::clone(&message), last_at: Some(place.last_at), departed: None, cold: None };
        let expectation = self.expect(&message, known, append.origin, place.settled);
        let outcome = self.place_and_settle(append, known, place, cell).await;
        heard(&expectation, &message, outcome)
    }

    async fn place_and_settle(
        self: &Arc<Engine>,
        append: &Append,
        known: &Known,
        place: Place,
        cell: Cell,
    ) -> Result<Option<Appended>, StoreError> {
        let member_state = self.standing_before(known, &append.sender, place.seq);
        let (placed, member_state) = tokio::join!(self.place(&cell), member_state);
        if placed.is_err() {
            let key = MessageKey::new(&append.sender, &append.message_id);
            self.unresolved.keep(known.facts.id, key, place.clone());
            self.look_after(append, place.seq, place.settled);
        }
        match placed? {
            Placed::Done => {}
            Placed::Taken(cell) if is_same(&cell, append) => {
                return self.again(cell, append, known, place.settled).await.map(Some);
            }
            Placed::Taken(_) => return Ok(None),
        }
        let settled = place.settled;
        // Where they are is asked when it is stored: whoever comes later finds it.
        let touched = self.touch(known, append.received_at).await;
        let stored = async { self.stored(cell, known, touched, member_state?, settled, Way::Usual).await };
        let stored = stored.await;
        if stored.is_err() {
            self.look_after(append, place.seq, settled);
        }
        stored.map(Some)
    }

    /// Nobody knows whether it was stored, or what follows from it was not done, and whoever sent it may never ask again.
    /// If it was after all, or is yet, those who are there hear of it all the same.
    pub(crate) fn look_after(self: &Arc<Engine>, append: &Append, seq: Seq, settled: Seq) {
        let key = (append.conversation, MessageKey::new(&append.sender, &append.message_id), seq);
        if !self.unresolved.looked_after.begin(key) {
            return;
        }
        // What it says is in the cell, if it is anywhere.
        let (engine, append) = (Arc::clone(self), Append { content: "".into(), ..append.clone() });
        tokio::spawn(async move {
            loop {
                for pause in LOOKS {
                    sleep(pause).await;
                    let Ok(_work) = engine.begin_write() else { return };
                    let told = AssertUnwindSafe(engine.tell_if_stored(&append, seq, settled)).catch_unwind();
                    match told.await {
                        Ok(Ok(false)) => {}
                        Ok(Err(error)) => {
                            tracing::debug!(%error, "what became of a message is not known yet");
                        }
                        Ok(Ok(true)) | Err(_) => break,
                    }
                }
                if engine.unresolved.looked_after.end(&key) {
                    return;
                }
            }
        });
    }

    /// Whether it is known what stands there.
    async fn tell_if_stored(
        self: &Arc<Engine>,
        append: &Append,
        seq: Seq,
        settled: Seq,
    ) -> Result<bool, StoreError> {
        let Some(cell) = self.cell(append.conversation, seq).await? else { return Ok(false) };
        if is_same(&cell, append) {
            // It may have been written without Redis, which then has not heard of the id.
            self.ledgers.storing(append.conversation, seq);
            self.note_fallback(append.conversation).await?;
            let known = self.known_now(append.conversation).await?;
            let (content_type, content) = (cell.message.content_type.clone(), cell.message.content.clone());
            let stored = Append { content_type, content, ..append.clone() };
            self.again(cell, &stored, &known, settled).await?;
            // What it says of its sender may have been written without an answer, and is no news any more.
            self.tell_standing(&(append.conversation, append.sender.clone())).await?;
        }
        Ok(true)
    }

    /// Moves the conversation up in everybody's inbox and learns where they are. `None` where that is not known or not
    /// asked.
    async fn touch(&self, known: &Known, at: Timestamp) -> Option<Vec<Touched>> {
        if known.members.len() > LARGE {
            return None;
        }
        let users: Vec<_> = known.members.iter().map(|member| member.user.clone()).collect();
        self.hints.touch(known.facts.id, at, &users).await.ok()
    }

    /// What follows from a message of this node's that is in its place.
    pub(crate) async fn stored(
        self: &Arc<Engine>,
        cell: Cell,
        known: &Known,
        mut touched: Option<Vec<Touched>>,
        member_state: Loaded,
        settled: Seq,
        way: Way,
    ) -> Result<Appended, StoreError> {
        let message = Arc::clone(&cell.message);
        let appended = Appended { seq: message.seq, received_at: message.received_at, duplicate: false };
        let sender = Some(&message.sender);
        let relied = self.settle_pending(&message, known, touched.as_deref_mut(), sender, &[]).await?;
        // Without Redis, nobody else would know what is written later.
        let at_once = way == Way::WithoutHints;
        match at_once && known.members.len() <= LARGE {
            true => self.write_inboxes(&cell, known).await?,
            false => self.flush.note_message(&cell, known),
        }
        let moved = self.replied(known, &message.sender, member_state, message.seq, at_once).await?;
        self.send_news(&cell, known, touched.as_deref(), settled);
        let arrival = Arrival { cell, known: known.clone(), relied };
        self.until_told(self.arrive(settled, vec![arrival])).await?;
        if let Some(moved) = moved {
            self.tell_change(CommittedChange::ReadState(moved));
        }
        Ok(appended)
    }

    /// The message was stored by an earlier attempt, which may have stopped anywhere behind that: what follows from it is
    /// done again. Done twice, it changes nothing.
    pub(crate) async fn again(
        self: &Arc<Engine>,
        mut cell: Cell,
        append: &Append,
        known: &Known,
        settled: Seq,
    ) -> Result<Appended, StoreError> {
        let (seq, received_at) = (cell.seq(), cell.message.received_at);
        // Of what was erased or lost nothing is left to compare with, and it must not come back.
        let is_gone = matches!(cell.message.content_type, ContentType::Erased | ContentType::Lost);
        if !is_gone && !cell.says(&append.content_type, &append.content) {
            return Err(Refusal::MessageIdReused { first_seq: seq }.into());
        }
        let last_at = cell.last_at.unwrap_or(received_at);
        let mut touched = self.touch(known, last_at).await;
        let sender = Some(&append.sender);
        let relied = self.settle_pending(&cell.message, known, touched.as_deref_mut(), sender, &[]).await?;
        let at_once = touched.is_none() && known.members.len() <= LARGE;
        match at_once {
            true => self.write_inboxes(&cell, known).await?,
            false => self.flush.note_message(&cell, known),
        }
        let member_state = self.standing_before(known, &append.sender, seq).await?;
        let moved = self.replied(known, &append.sender, member_state, seq, at_once).await?;
        // What is older was met by everybody since, or is owed to them.
        if received_at.plus_millis(TOLD_AGAIN_MS) > self.clock.now() {
            let settled = settled.min(seq.previous());
            self.fill_all(std::slice::from_mut(&mut cell)).await?;
            self.send_news(&cell, known, touched.as_deref(), settled);
            if known.members.iter().any(|member| self.local.is_here(&member.user)) {
                let arrival = Arrival { cell, known: known.clone(), relied };
                self.until_told(self.arrive(settled, vec![arrival])).await?;
            }
        }
        self.catch_up_to(append.conversation, seq).await?;
        if let Some(moved) = moved {
            self.tell_change(CommittedChange::ReadState(moved));
        }
        Ok(Appended { seq, received_at, duplicate: true })
    }

    /// A gap below may be somebody else's to close; nobody waits for that longer than for an answer.
    pub(crate) async fn until_told(&self, told: Option<Told>) -> Result<(), StoreError> {
        let Some(told) = told else { return Ok(()) };
        let late = |_| StoreError::NoAnswer("what comes before could not be read in time".into());
        let _gone = tokio::time::timeout(self.settings.send_deadline(), told).await.map_err(late)?;
        Ok(())
    }
}

/// A connection that heard of its message in its place has its ack, whatever the call came to: no error follows it, and no
/// second ack. One that has not will not.
pub(crate) fn heard(
    expectation: &Expectation,
    message: &Message,
    outcome: Result<Option<Appended>, StoreError>,
) -> Result<Option<Appended>, StoreError> {
    match outcome {
        Ok(Some(appended)) if !appended.duplicate => Ok(Some(appended)),
        outcome if !expectation.withdraw() => outcome,
        _ => {
            let (seq, received_at) = (message.seq, message.received_at);
            Ok(Some(Appended { seq, received_at, duplicate: false }))
        }
    }
}

pub(crate) fn is_same(cell: &Cell, append: &Append) -> bool {
    cell.message.sender == append.sender && cell.message.message_id == append.message_id
}
