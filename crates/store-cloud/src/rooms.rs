//! The order in which a node tells of messages: in each conversation by seq and without a gap, wherever they were stored.
//!
//! A message that arrives above a gap waits. Those in between are on their way from other nodes; after a moment they are
//! looked for in the table, and a place that stays empty is closed with a void.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bluetick_core::ports::{Committed, Origin};
use bluetick_core::{ConversationId, Members, Message, MessageId, Seq, StoreError, UserId};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::cells::Cell;
use crate::engine::Engine;

#[derive(Default)]
pub(crate) struct Rooms(Mutex<HashMap<ConversationId, Arc<Room>>>);

struct Room {
    id: ConversationId,
    state: Mutex<State>,
}

struct State {
    /// Everything up to here was told, or is none of this node's business.
    announced: Seq,
    waiting: BTreeMap<Seq, Arrival>,
    /// What this node is about to store, and for whom: somebody else may read it from the table and tell it first.
    expected: HashMap<Seq, Expected>,
    /// Those who want to know when a place was told.
    watching: Vec<(Seq, oneshot::Sender<()>)>,
    is_filling: bool,
    used: Instant,
}

struct Expected {
    sender: UserId,
    id: MessageId,
    origin: Origin,
}

/// A message that is stored and has not been told yet.
pub(crate) struct Arrival {
    pub cell: Cell,
    pub members: Arc<Members>,
}

/// Conversations a node follows before it forgets those that are quiet.
const MANY_ROOMS: usize = 100_000;
const QUIET: Duration = Duration::from_secs(600);

/// News from another node usually comes this soon.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const NEXT_LOOK: Duration = Duration::from_millis(25);

/// Resolves when a place was told.
pub(crate) type Told = oneshot::Receiver<()>;

impl Rooms {
    fn room(&self, id: ConversationId) -> Option<Arc<Room>> {
        self.0.lock().expect("nothing panics while it holds the lock").get(&id).cloned()
    }

    /// `settled`: every cell up to there is written, and nobody here waits for one of them.
    fn room_or_new(&self, id: ConversationId, settled: Seq) -> Arc<Room> {
        let mut rooms = self.0.lock().expect("nothing panics while it holds the lock");
        if rooms.len() >= MANY_ROOMS {
            rooms.retain(|_, room| Arc::strong_count(room) > 1 || !room.lock().is_quiet());
        }
        Arc::clone(rooms.entry(id).or_insert_with(|| {
            let state = State {
                announced: settled,
                waiting: BTreeMap::new(),
                expected: HashMap::new(),
                watching: Vec::new(),
                is_filling: false,
                used: Instant::now(),
            };
            Arc::new(Room { id, state: Mutex::new(state) })
        }))
    }

    /// Up to where this node has told; `None` of a conversation it does not follow.
    pub fn announced(&self, id: ConversationId) -> Option<Seq> {
        Some(self.room(id)?.lock().announced)
    }
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a listener does not panic")
    }
}

impl State {
    fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && !self.is_filling && self.used.elapsed() > QUIET
    }

    /// What can be told now, in order.
    fn next_batch(&mut self) -> Vec<Committed> {
        let mut batch = Vec::new();
        while let Some(arrival) = self.waiting.remove(&self.announced.next()) {
            self.announced = self.announced.next();
            let Arrival { cell, members } = arrival;
            let Message { seq, sender, message_id, .. } = &*cell.message;
            let expected = self.expected.remove(seq);
            let ours = expected.filter(|ours| ours.sender == *sender && ours.id == *message_id);
            let origin = ours.map(|ours| ours.origin);
            batch.push(Committed { message: cell.message, members, departed: cell.departed, origin });
        }
        // A late one that was told already.
        self.waiting = self.waiting.split_off(&self.announced.next());
        batch
    }

    fn wake(&mut self) {
        let announced = self.announced;
        for (_, waker) in self.watching.extract_if(.., |(seq, _)| *seq <= announced) {
            let _gone = waker.send(());
        }
    }
}

impl Engine {
    /// This node is about to store a message on a connection's behalf.
    pub(crate) fn expect(&self, message: &Message, origin: Option<Origin>, settled: Seq) {
        let room = self.rooms.room_or_new(message.conversation, settled);
        if let Some(origin) = origin {
            let expected =
                Expected { sender: message.sender.clone(), id: message.message_id.clone(), origin };
            room.lock().expected.insert(message.seq, expected);
        }
    }

    /// A message is stored. It is told when all before it are; `settled` is where to begin, for a conversation that this
    /// node has not followed so far.
    pub(crate) fn arrive(self: &Arc<Engine>, settled: Seq, arrivals: Vec<Arrival>) -> Option<Told> {
        let last = arrivals.last()?.cell.seq();
        let room = self.rooms.room_or_new(arrivals[0].cell.message.conversation, settled);
        let mut state = room.lock();
        state.used = Instant::now();
        for arrival in arrivals {
            if arrival.cell.seq() > state.announced {
                state.waiting.entry(arrival.cell.seq()).or_insert(arrival);
            }
        }
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
    fn tell(&self, state: &mut State) {
        let batch = state.next_batch();
        if batch.is_empty() {
            return;
        }
        self.local.pushed(&batch);
        self.listener.committed(batch);
        state.wake();
    }

    /// Tells everything up to `through`, which is written, of a conversation that this node follows.
    pub(crate) async fn catch_up_to(
        self: &Arc<Engine>,
        id: ConversationId,
        through: Seq,
    ) -> Result<(), StoreError> {
        let Some(announced) = self.rooms.announced(id) else { return Ok(()) };
        if announced >= through {
            return Ok(());
        }
        let known = self.known(id).await?;
        let cells = self.dense_with_content(id, announced.next(), through).await?;
        let arrivals = cells.into_iter().map(|cell| Arrival { cell, members: Arc::clone(&known.members) });
        if let Some(told) = self.arrive(announced, arrivals.collect()) {
            let _gone = told.await;
        }
        Ok(())
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
            (state.announced.next(), above.previous())
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
        let holes = (first.get()..=last.get()).map(Seq::new).filter(|seq| !found.contains_key(seq));
        for seq in holes.collect::<Vec<_>>() {
            found.insert(seq, engine.close_hole(room.id, seq).await?);
        }
    }
    let mut found: Vec<_> = found.into_values().collect();
    engine.fill_all(&mut found).await?;
    let known = engine.known(room.id).await?;
    let mut state = room.lock();
    for cell in found {
        let seq = cell.seq();
        if seq > state.announced {
            let members = Arc::clone(&known.members);
            state.waiting.entry(seq).or_insert(Arrival { cell, members });
        }
    }
    engine.tell(&mut state);
    Ok(())
}
