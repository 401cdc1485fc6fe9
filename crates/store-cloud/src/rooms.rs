//! The order in which a node tells of messages: in each conversation by seq and without a gap, wherever they were stored.
//!
//! A message that arrives above a gap waits. Those in between are on their way from other nodes; after a moment they are
//! looked for in the table, and a place that stays empty is closed with a void.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bluetick_core::ports::{Committed, Origin};
use bluetick_core::{ConversationId, Message, MessageId, Seq, StoreError, Timestamp, UserId};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::cells::Cell;
use crate::engine::Engine;
use crate::memberships::Known;

#[derive(Default)]
pub(crate) struct Rooms(Mutex<HashMap<ConversationId, Arc<Room>>>);

struct Room {
    id: ConversationId,
    state: Mutex<State>,
}

struct State {
    /// Everything up to here was told, or is none of this node's business.
    announced: Seq,
    /// When something was told last; `None` before anything was.
    announced_at: Option<Instant>,
    /// Somebody connected here has everything up to here, so all above is new, whatever a clock said when it was stored.
    followed_above: Option<Seq>,
    /// What stood here before this node began to follow. Whoever left by one of these was not in it while connected here,
    /// and has heard of it elsewhere or has come too late to hear of it.
    found: Seq,
    /// What was announced a while ago, and what was a moment ago.
    settled: Seq,
    settling: (Seq, Instant),
    waiting: BTreeMap<Seq, Arrival>,
    /// The members as of what was told last.
    known: Option<Known>,
    /// What this node is storing, and for whom. It is told, and thereby acknowledged, when all that follows from it is
    /// stored as well, and not by whoever reads it from the table before. Several where a place was handed out twice.
    expected: HashMap<Seq, Vec<Expected>>,
    /// Those who want to know when a place was told.
    watching: Vec<(Seq, oneshot::Sender<()>)>,
    is_filling: bool,
    used: Instant,
}

struct Expected {
    sender: UserId,
    id: MessageId,
    origin: Option<Origin>,
    is_met: Arc<AtomicBool>,
}

/// While it is there, a message is being stored; a connection hears of it in the place of the message.
pub(crate) struct Expectation {
    room: Arc<Room>,
    seq: Seq,
    is_met: Arc<AtomicBool>,
}

impl Expectation {
    pub fn is_met(&self) -> bool {
        self.is_met.load(Ordering::SeqCst)
    }

    /// The message does not come, or not by this call. Whether the connection has heard of it all the same.
    pub fn withdraw(&self) -> bool {
        let mut state = self.room.lock();
        if let Some(expected) = state.expected.get_mut(&self.seq) {
            expected.retain(|ours| !Arc::ptr_eq(&ours.is_met, &self.is_met));
            if expected.is_empty() {
                state.expected.remove(&self.seq);
            }
        }
        self.is_met()
    }
}

impl Drop for Expectation {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// A message that is stored and has not been told yet.
pub(crate) struct Arrival {
    pub cell: Cell,
    pub known: Known,
    /// Who has no row for it because it was connected here. Whoever has gone when it is told is owed it.
    pub relied: Vec<UserId>,
}

impl Arrival {
    pub fn new(cell: Cell, known: &Known) -> Arrival {
        Arrival { cell, known: known.clone(), relied: Vec::new() }
    }
}

/// Conversations a node follows before it forgets those that are quiet.
const MANY_ROOMS: usize = 100_000;
const QUIET: Duration = Duration::from_secs(600);

/// News are under way for less than this, or lost. A node that begins to follow a conversation begins where everybody
/// connected anywhere has been told.
pub(crate) const NEWS_TAKE: Duration = Duration::from_secs(10);

/// News of so many messages may not have come here yet, of a conversation that nobody here followed.
pub(crate) const ON_ITS_WAY: u64 = 20;

/// Further back than this no node begins.
const MOST_UNSETTLED: u64 = 1_000;

/// Read from the table in one go.
const MOST_AT_ONCE: u64 = 1_000;

/// News from another node usually comes this soon.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const NEXT_LOOK: Duration = Duration::from_millis(25);

/// Resolves when a place was told.
pub(crate) type Told = oneshot::Receiver<()>;

impl Rooms {
    fn room(&self, id: ConversationId) -> Option<Arc<Room>> {
        self.0.lock().expect("nothing panics while it holds the lock").get(&id).cloned()
    }

    /// `settled`: every cell up to there is written, and nobody here waits for one of them. `first` is what the room is
    /// needed for.
    fn room_or_new(&self, id: ConversationId, settled: Seq, first: Seq) -> Arc<Room> {
        self.room_or_begun(id, first, || (settled, None))
    }

    /// `begin` says where a new room begins, and above what somebody is known to wait for everything.
    fn room_or_begun(
        &self,
        id: ConversationId,
        first: Seq,
        begin: impl FnOnce() -> (Seq, Option<Seq>),
    ) -> Arc<Room> {
        let mut rooms = self.0.lock().expect("nothing panics while it holds the lock");
        if rooms.len() >= MANY_ROOMS {
            rooms.retain(|_, room| Arc::strong_count(room) > 1 || !room.lock().is_quiet());
        }
        Arc::clone(rooms.entry(id).or_insert_with(|| {
            let (settled, followed_above) = begin();
            let settled = settled.max(first.minus(MOST_UNSETTLED));
            let state = State {
                announced: settled,
                announced_at: None,
                followed_above,
                found: first.previous(),
                settled,
                settling: (settled, Instant::now()),
                waiting: BTreeMap::new(),
                known: None,
                expected: HashMap::new(),
                watching: Vec::new(),
                is_filling: false,
                used: Instant::now(),
            };
            Arc::new(Room { id, state: Mutex::new(state) })
        }))
    }

    /// From here on somebody connected here wants to hear of what comes above `above`. `head` is what there is.
    pub fn follow(&self, id: ConversationId, above: Seq, head: Seq) {
        let room = self.room_or_new(id, above, head.next());
        let mut state = room.lock();
        state.used = Instant::now();
        state.followed_above = Some(state.followed_above.map_or(above, |before| before.min(above)));
    }

    /// Up to where this node has told; `None` of a conversation it does not follow.
    pub fn announced(&self, id: ConversationId) -> Option<Seq> {
        Some(self.room(id)?.lock().announced)
    }

    /// Those that this node has told of lately, by a clock that nobody sets.
    pub fn used_within(&self, time: Duration) -> Vec<ConversationId> {
        let rooms = self.0.lock().expect("nothing panics while it holds the lock");
        let mut used: Vec<_> =
            rooms.iter().filter(|(_, room)| room.lock().used.elapsed() < time).map(|(id, _)| *id).collect();
        used.sort_unstable();
        used
    }

    /// Up to where this node has told so long ago that all others have been told too.
    pub fn settled(&self, id: ConversationId) -> Option<Seq> {
        Some(self.room(id)?.lock().settled_now())
    }
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a listener does not panic")
    }
}

impl State {
    fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.expected.is_empty() && !self.is_filling && self.used.elapsed() > QUIET
    }

    fn settled_now(&mut self) -> Seq {
        if self.announced_at.is_some_and(|at| at.elapsed() >= NEWS_TAKE) {
            self.settled = self.announced;
        } else if self.settling.1.elapsed() >= NEWS_TAKE {
            self.settled = self.settled.max(self.settling.0);
            self.settling = (self.announced, Instant::now());
        }
        self.settled
    }

    /// Whether this node is storing it right now.
    fn is_expected(&self, cell: &Cell) -> bool {
        let Message { seq, sender, message_id, .. } = &*cell.message;
        self.expected
            .get(seq)
            .is_some_and(|all| all.iter().any(|ours| ours.sender == *sender && ours.id == *message_id))
    }

    /// A room begins with what may be new to somebody, and not with what only nobody has settled.
    /// Returns what is to be told next.
    fn skip_long_ago(&mut self, found: &BTreeMap<Seq, Cell>, long_ago: Timestamp) -> Seq {
        while self.announced_at.is_none()
            && let Some(cell) = found.get(&self.announced.next())
            && self.followed_above.is_none_or(|above| cell.seq() <= above)
            && cell.message.received_at < long_ago
            && !self.is_expected(cell)
            && !self.waiting.contains_key(&cell.seq())
        {
            self.announced = cell.seq();
        }
        self.announced.next()
    }

    /// What can be told now, in order.
    fn next_batch(&mut self) -> (Vec<Committed>, Vec<(UserId, Seq)>) {
        let (mut batch, mut relied) = (Vec::new(), Vec::new());
        while let Some(arrival) = self.waiting.remove(&self.announced.next()) {
            self.announced = self.announced.next();
            let Arrival { cell, known, relied: here } = arrival;
            // Whoever stored it may not have known of a change that stands below it.
            let newest = self.known.take().filter(|newest| newest.version > known.version).unwrap_or(known);
            let members = newest.members_at(cell.seq());
            self.known = Some(newest);
            relied.extend(here.into_iter().map(|user| (user, cell.seq())));
            let Message { seq, sender, message_id, .. } = &*cell.message;
            let expected = self.expected.remove(seq).unwrap_or_default();
            let ours = expected.into_iter().find(|ours| ours.sender == *sender && ours.id == *message_id);
            let is_stored_here = ours.is_some();
            let origin = ours.and_then(|ours| {
                ours.is_met.store(ours.origin.is_some(), Ordering::SeqCst);
                ours.origin
            });
            let departed = cell.departed.filter(|_| cell.message.seq > self.found);
            let message = cell.message;
            batch.push(Committed { message, members, departed, origin, is_stored_here });
        }
        // A late one that was told already.
        self.waiting = self.waiting.split_off(&self.announced.next());
        (batch, relied)
    }

    fn wake(&mut self) {
        let announced = self.announced;
        for (_, waker) in self.watching.extract_if(.., |(seq, _)| *seq <= announced) {
            let _gone = waker.send(());
        }
    }
}

impl Engine {
    /// This node is about to store a message, perhaps on a connection's behalf, which then hears of it in its place,
    /// whoever stores it.
    pub(crate) fn expect(
        &self,
        message: &Message,
        known: &Known,
        origin: Option<Origin>,
        settled: Seq,
    ) -> Expectation {
        let Message { seq, sender, message_id, .. } = message;
        let begin = || self.beginning(known, settled, *seq);
        let room = self.rooms.room_or_begun(message.conversation, *seq, begin);
        let is_met: Arc<AtomicBool> = Arc::default();
        let expected =
            Expected { sender: sender.clone(), id: message_id.clone(), origin, is_met: Arc::clone(&is_met) };
        let mut state = room.lock();
        if *seq > state.announced {
            state.expected.entry(*seq).or_default().push(expected);
        }
        drop(state);
        Expectation { room, seq: *seq, is_met }
    }

    /// Where this node begins to tell of a conversation, with `first` or before. Whoever was let in while connected here
    /// has heard nothing of it so far, if the news of that were lost, and begins there.
    fn beginning(&self, known: &Known, settled: Seq, first: Seq) -> (Seq, Option<Seq>) {
        let lately = known.members.iter().filter(|member| member.joined_seq > first.minus(ON_ITS_WAY));
        let came = lately.filter(|member| self.local.is_here(&member.user)).map(|member| member.joined_seq);
        match came.min().map(Seq::previous) {
            Some(below) if below < settled => (below, self.local.is_troubled().then_some(below)),
            _ => (settled, None),
        }
    }

    /// A message is stored. It is told when all before it are; `settled` is where to begin, for a conversation that this
    /// node has not followed so far.
    pub(crate) fn arrive(self: &Arc<Engine>, settled: Seq, arrivals: Vec<Arrival>) -> Option<Told> {
        let last = arrivals.last()?.cell.seq();
        let first = &arrivals[0].cell.message;
        let begin = || self.beginning(&arrivals[0].known, settled, first.seq);
        let room = self.rooms.room_or_begun(first.conversation, first.seq, begin);
        let mut state = room.lock();
        state.used = Instant::now();
        let mut late = Vec::new();
        for mut arrival in arrivals {
            let seq = arrival.cell.seq();
            let relied = std::mem::take(&mut arrival.relied);
            if seq > state.announced {
                state.waiting.entry(seq).or_insert(arrival).relied.extend(relied);
            } else {
                late.extend(relied.into_iter().map(|user| (user, seq)));
            }
        }
        self.owe_who_was_not_pushed(room.id, late);
        self.tell(&mut state);
        if state.announced >= last {
            return None;
        }
        let (waker, told) = oneshot::channel();
        state.watching.push((last, waker));
        if !state.is_filling {
            state.is_filling = true;
            tokio::spawn(fill(Arc::clone(self), Arc::clone(&room)));
        }
        Some(told)
    }

    /// Under the lock of the room, so that two batches cannot change places.
    fn tell(self: &Arc<Engine>, state: &mut State) {
        let (batch, relied) = state.next_batch();
        let Some(first) = batch.first() else { return };
        let id = first.message.conversation;
        state.announced_at = Some(Instant::now());
        self.local.pushed(&batch);
        self.listener.committed(batch);
        state.wake();
        self.owe_who_was_not_pushed(id, relied);
    }

    /// Those who went between the moment when they were counted upon and the moment when they would have heard, or came after
    /// that.
    fn owe_who_was_not_pushed(self: &Arc<Engine>, id: ConversationId, relied: Vec<(UserId, Seq)>) {
        let not_pushed = |(user, seq): &(UserId, Seq)| !self.local.was_pushed(user, id, *seq);
        let gone: Vec<_> = relied.into_iter().filter(not_pushed).collect();
        if gone.is_empty() {
            return;
        }
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            for (user, seq) in gone {
                let written = match engine.local.is_here(&user) {
                    true => engine.look_if_overlooked(&user, id, seq).await,
                    false => engine.owe(user, id, seq).await,
                };
                if let Err(error) = written {
                    tracing::warn!(%error, "what a user has not been sent could not be written down");
                }
            }
        });
    }

    /// Tells everything up to `through`, which is written, of a conversation that this node follows.
    pub(crate) async fn catch_up_to(
        self: &Arc<Engine>,
        id: ConversationId,
        through: Seq,
    ) -> Result<(), StoreError> {
        loop {
            let Some(announced) = self.rooms.announced(id) else { return Ok(()) };
            if announced >= through {
                return Ok(());
            }
            let last = through.min(announced.plus(MOST_AT_ONCE));
            let cells = self.dense_with_content(id, announced.next(), last).await?;
            // Somebody may have joined by one of them, of whom no news has come yet.
            let known = self.known_now(id).await?;
            let arrivals = cells.into_iter().map(|cell| Arrival::new(cell, &known));
            self.until_told(self.arrive(announced, arrivals.collect())).await?;
        }
    }
}

/// Closes the gaps of one room, until there are none.
async fn fill(engine: Arc<Engine>, room: Arc<Room>) {
    let mut noticed = (Seq::ZERO, Instant::now());
    let mut pause = FIRST_LOOK;
    loop {
        sleep(pause.min(engine.settings.void_after())).await;
        pause = NEXT_LOOK;
        let (first, last) = {
            let mut state = room.lock();
            let Some(above) = state.waiting.keys().next().copied() else {
                state.is_filling = false;
                return;
            };
            let first = state.announced.next();
            (first, above.previous().min(first.plus(MOST_AT_ONCE - 1)))
        };
        if noticed.0 != first {
            noticed = (first, Instant::now());
        }
        let is_late = noticed.1.elapsed() >= engine.settings.void_after();
        if let Err(error) = look(&engine, &room, first, last, is_late).await {
            tracing::warn!(conversation = %room.id, %error, "a gap could not be closed yet");
            pause = Duration::from_millis(200);
        }
    }
}

async fn look(
    engine: &Arc<Engine>,
    room: &Room,
    first: Seq,
    last: Seq,
    is_late: bool,
) -> Result<(), StoreError> {
    let mut found = engine.written(room.id, first, last).await?;
    if is_late {
        for seq in (first.get()..=last.get()).map(Seq::new) {
            if let Entry::Vacant(hole) = found.entry(seq) {
                hole.insert(engine.close_hole(room.id, seq).await?);
            }
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    // Somebody may have joined by one of them, of whom no news has come yet.
    let known = engine.known_now(room.id).await?;
    let long_ago = engine.long_ago();
    // What is skipped may lie in the archive, which nobody waits for.
    let first = room.lock().skip_long_ago(&found, long_ago);
    let found = engine.filled(found.split_off(&first)).await?;
    let mut state = room.lock();
    for (seq, cell) in found {
        // Whoever writes it here tells it when all that follows from it is written as well.
        if seq > state.announced && (is_late || !state.is_expected(&cell)) {
            state.waiting.entry(seq).or_insert(Arrival::new(cell, &known));
        }
    }
    engine.tell(&mut state);
    Ok(())
}
