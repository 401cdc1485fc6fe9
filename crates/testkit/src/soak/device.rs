//! A device during the whole run: its views, its outbox, its connections and absences.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::SoakState;
use super::ledger::{Breach, ConversationBreach, MessageName, SenderNumber};
use crate::client::{Situation, Socket, stopped};
use crate::dice::Dice;
use crate::names::{ConversationName, UserName};

/// Counters, so that a test can assert that enough happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct SoakCounts {
    pub connections: u64,
    pub cuts: u64,
    pub closes: u64,
    pub abandoned: u64,
    /// Connections that the device did not end.
    pub lost: u64,
    pub long_absences: u64,
    pub received: u64,
    pub acknowledged: u64,
    pub resends: u64,
    pub duplicates: u64,
    pub statuses: u64,
    pub marks: u64,
    pub old_pages: u64,
    pub inbox_pages: u64,
    pub backlog_frames: u64,
    /// Messages that were due but not written because the outbox was full.
    pub left_unwritten: u64,
}

impl SoakCounts {
    pub fn and(self, other: SoakCounts) -> SoakCounts {
        SoakCounts {
            connections: self.connections + other.connections,
            cuts: self.cuts + other.cuts,
            closes: self.closes + other.closes,
            abandoned: self.abandoned + other.abandoned,
            lost: self.lost + other.lost,
            long_absences: self.long_absences + other.long_absences,
            received: self.received + other.received,
            acknowledged: self.acknowledged + other.acknowledged,
            resends: self.resends + other.resends,
            duplicates: self.duplicates + other.duplicates,
            statuses: self.statuses + other.statuses,
            marks: self.marks + other.marks,
            old_pages: self.old_pages + other.old_pages,
            inbox_pages: self.inbox_pages + other.inbox_pages,
            backlog_frames: self.backlog_frames + other.backlog_frames,
            left_unwritten: self.left_unwritten + other.left_unwritten,
        }
    }
}

/// A device has everything from seq 1 up to `end`, received in order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReceivedPrefix {
    pub end: u64,
}

/// An unacknowledged message.
pub(super) struct Attempt {
    pub conversation: ConversationName,
    pub name: MessageName,
    /// The end of the view when the message was written.
    pub after_seq: u64,
    /// The due time, if the device was connected then. Only such messages count in the ack latency.
    pub due: Option<Instant>,
    pub tried: bool,
}

/// Why a connection ended.
pub(super) enum ConnectionEnd {
    Lost,
    Broken(ConversationBreach),
}

pub struct Life {
    pub writer: SenderNumber,
    pub user: UserName,
    pub happened: SoakCounts,
    pub(super) token: String,
    pub(super) views: BTreeMap<ConversationName, ReceivedPrefix>,
    pub(super) rooms: Vec<ConversationName>,
    pub(super) outbox: VecDeque<Attempt>,
    pub(super) world: Arc<SoakState>,
    pub(super) dice: Dice,
    pub(super) next_due: Instant,
    /// Sockets that the device stopped reading without closing them.
    abandoned: VecDeque<Socket>,
}

/// Upper bound on messages in the outbox of a device. A full outbox counts due messages as
/// `left_unwritten` instead.
const MOST_WAITING: usize = 2_000;
/// Upper bound on abandoned sockets per device. They count against `limits.connections_per_user`.
const MOST_ABANDONED: usize = 2;
/// Time limit for catching up without load. It is longer than a running server needs.
const SETTLING: Duration = Duration::from_secs(300);

impl Life {
    pub(super) fn new(
        writer: SenderNumber,
        user: UserName,
        token: String,
        rooms: Vec<ConversationName>,
        world: Arc<SoakState>,
        mut dice: Dice,
    ) -> Life {
        let views = rooms.iter().map(|room| (room.clone(), ReceivedPrefix::default())).collect();
        let first = world.between_sends.mul_f64(dice.below(1_000) as f64 / 1e3);
        Life {
            writer,
            user,
            happened: SoakCounts::default(),
            token,
            views,
            rooms,
            outbox: VecDeque::new(),
            world,
            dice,
            next_due: Instant::now() + first,
            abandoned: VecDeque::new(),
        }
    }

    /// Returns the end of the view of each conversation.
    pub fn ends(&self) -> impl Iterator<Item = (&ConversationName, u64)> {
        self.views.iter().map(|(conversation, view)| (conversation, view.end))
    }

    pub(super) async fn live(
        mut self,
        mut situation: watch::Receiver<Situation>,
    ) -> (Life, Option<ConversationBreach>) {
        self.next_due =
            Instant::now() + self.world.between_sends.mul_f64(self.dice.below(1_000) as f64 / 1e3);
        while !situation.borrow().stop {
            let away_ms = match self.spell(&mut situation).await {
                Ok(()) if self.dice.one_in(5) => {
                    self.happened.long_absences += 1;
                    self.dice.between(5_000, 20_000)
                }
                Ok(()) => self.dice.between(20, 500),
                Err(ConnectionEnd::Lost) => {
                    self.happened.lost += 1;
                    self.dice.between(20, 500)
                }
                Err(ConnectionEnd::Broken(found)) => return (self, Some(found)),
            };
            let until = Instant::now() + Duration::from_millis(away_ms);
            let _either = timeout_at(until, stopped(&mut situation)).await;
            self.write_what_is_due(false);
        }
        self.abandoned.clear();
        (self, None)
    }

    /// Writes the messages that are due. The device writes at a constant rate, also while it is
    /// disconnected, and sends them later.
    pub(super) fn write_what_is_due(&mut self, is_connected: bool) {
        let now = Instant::now();
        while self.next_due <= now {
            let due = self.next_due;
            self.next_due += self.world.between_sends;
            if self.outbox.len() >= MOST_WAITING {
                self.happened.left_unwritten += 1;
                continue;
            }
            let Some(conversation) = self.dice.pick(&self.rooms).cloned() else { return };
            let name = self.world.ledger.attempt(&conversation, self.writer);
            let after_seq = self.views[&conversation].end;
            let due = is_connected.then_some(due);
            self.outbox.push_back(Attempt { conversation, name, after_seq, due, tried: false });
        }
    }

    /// Ends the connection: with a close frame, by a cut, or by abandoning the socket.
    pub(super) async fn part(&mut self, mut socket: Socket) {
        match self.dice.below(5) {
            0 => {
                self.happened.closes += 1;
                let _gone = timeout_at(Instant::now() + Duration::from_secs(1), socket.close(None)).await;
            }
            1 => {
                self.happened.abandoned += 1;
                if self.abandoned.len() == MOST_ABANDONED {
                    self.abandoned.pop_front();
                }
                self.abandoned.push_back(socket);
            }
            _ => self.happened.cuts += 1,
        }
    }

    /// Sends the outbox and fetches everything missing, from a server without other load.
    pub(super) async fn settle(mut self) -> (Life, Option<ConversationBreach>) {
        let deadline = Instant::now() + SETTLING;
        // Write no new messages.
        self.next_due = deadline + SETTLING;
        loop {
            match timeout_at(deadline, self.settle_once()).await {
                Ok(Ok(())) => return (self, None),
                Ok(Err(ConnectionEnd::Lost)) => sleep(Duration::from_millis(200)).await,
                Ok(Err(ConnectionEnd::Broken(found))) => return (self, Some(found)),
                Err(_) => {
                    let waiting = self.outbox.len();
                    let stuck = format!("{} is stuck with {waiting} messages unanswered", self.user);
                    return (self, Some(ConversationBreach::anywhere(Breach::Misspoken(stuck))));
                }
            }
        }
    }
}
