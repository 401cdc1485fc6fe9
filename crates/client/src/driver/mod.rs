//! The one task behind a client: it holds the connection, opens it again whenever it ends, and does what the state
//! leaves to be done. One loop over a closed set of happenings.

pub mod background;
mod connection;
mod outgoing;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use self::background::{Again, Kind, Work};
use self::connection::{Happened, Line};
use crate::api::NoToken;
use crate::backoff::{Backoff, Ending, ReconnectSettings};
use crate::keeper::{Batch, Order};
use crate::keeping::{Ledger, outbox_change, outbox_removal};
use crate::shared::Shared;
use crate::state::Phase;

/// Acks of this time go together.
const ACK_AFTER: Duration = Duration::from_millis(50);
/// Copies are written together, so often.
const SAVE_EVERY: Duration = Duration::from_secs(1);

pub struct Driver {
    shared: Arc<Shared>,
    line: Line,
    backoff: Backoff,
    work: JoinSet<Work>,
    /// What is being asked, so that nothing is asked twice at the same time.
    asked: Vec<Kind>,
    again: Vec<Again>,
    ledger: Ledger,
    ack_at: Option<Instant>,
    /// Marks were refused for now, and how often in a row.
    acks_held: bool,
    ack_refusals: u32,
    save_at: Option<Instant>,
    /// The token that the server did not accept.
    refused_token: Option<String>,
}

impl Driver {
    pub fn new(shared: Arc<Shared>, ledger: Ledger, reconnect: ReconnectSettings) -> Driver {
        Driver {
            shared,
            line: Line::Pause { until: Instant::now() },
            backoff: Backoff::new(reconnect),
            work: JoinSet::new(),
            asked: Vec::new(),
            again: Vec::new(),
            ledger,
            ack_at: None,
            acks_held: false,
            ack_refusals: 0,
            save_at: None,
            refused_token: None,
        }
    }

    pub async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        loop {
            self.act().await;
            let timer = self.next_timer();
            tokio::select! {
                happened = self.line.next() => self.on_line(happened).await,
                Some(done) = self.work.join_next(), if !self.work.is_empty() => self.on_work(done),
                () = self.shared.wake.notified() => {}
                () = self.shared.connect_now.notified() => self.line.hurry(),
                () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => {}
                // A handle that was dropped without a word stops it as well.
                _ = &mut stop => break,
            }
        }
        self.finish().await;
    }

    /// In this order: what was read is told, what was written is kept, and only then the task ends.
    async fn finish(mut self) {
        self.work.shutdown().await;
        if let Line::Open(mut open) = std::mem::replace(&mut self.line, Line::Closed) {
            let acks = self.shared.arrange(|state| state.take_acks());
            if open.vigil.welcomed {
                let told = async {
                    for frame in &acks {
                        open.link.feed(frame).await?;
                    }
                    open.link.flush().await
                };
                // A connection that is broken by now ends here like any other.
                let _told = tokio::time::timeout(Duration::from_secs(1), told).await;
            }
            let _closed = tokio::time::timeout(Duration::from_secs(1), open.link.close()).await;
        }
        self.shared.arrange(|state| state.connection_lost());
        self.shared.set_phase(Phase::Offline, None);
        let changes = self.changes();
        let last = Batch { changes, ..Batch::default() };
        // The keeper outlives the driver, so it takes them.
        let _written = self.shared.orders.send(Order::Write(last)).await;
    }

    fn next_timer(&self) -> Option<Instant> {
        let of_state = self.shared.read(|state| [state.outbox.next_release(), state.signals.next_fading()]);
        let again = self.again.iter().map(|again| again.at).min();
        let own = [self.ack_at, self.save_at, self.line.next_timer(), again];
        own.into_iter().chain(of_state).flatten().min()
    }

    /// Does whatever is due.
    async fn act(&mut self) {
        let now = Instant::now();
        self.shared.arrange(|state| state.outbox.release(now));
        if self.shared.read(|state| state.signals.next_fading().is_some_and(|at| at <= now)) {
            self.shared.change_as_driver(|state| state.signals.fade(now));
        }
        self.save(now);
        self.start_work(now);
        self.note_attempts().await;
        if let Err(ending) = self.say(now).await {
            self.lost(ending).await;
        }
    }

    fn changes(&mut self) -> Vec<crate::storage::Change> {
        let ledger = &mut self.ledger;
        self.shared.arrange(|state| {
            state.let_go();
            let mut changes = ledger.changes(state);
            changes.extend(state.todo.settled.drain(..).map(|item| outbox_removal(&item)));
            changes
        })
    }

    fn save(&mut self, now: Instant) {
        let is_dirty = self.shared.read(|state| !state.dirty.is_empty() || !state.todo.settled.is_empty());
        match self.save_at {
            None if is_dirty => self.save_at = Some(now + SAVE_EVERY),
            Some(at) if at <= now => {
                // A slow disk: they are gathered until there is room.
                let Ok(permit) = self.shared.orders.clone().try_reserve_owned() else {
                    self.save_at = Some(now + SAVE_EVERY);
                    return;
                };
                self.save_at = None;
                let changes = self.changes();
                permit.send(Order::Write(Batch { changes, ..Batch::default() }));
            }
            _ => {}
        }
    }

    async fn on_line(&mut self, happened: Happened) {
        match happened {
            Happened::PauseOver => self.dial(),
            Happened::Opened(link, given) => self.greet(*link, given).await,
            Happened::NoToken(NoToken::Never) => self.log_out(),
            Happened::NoToken(NoToken::Later) => self.lost(Ending::default()).await,
            Happened::Failed(error) => {
                self.lost(Ending { code: error.close_code(), ..Ending::default() }).await
            }
            Happened::Frame(frame) => self.on_frame(&frame).await,
            Happened::Ended(error) => {
                let ending = self.ending(error.close_code());
                self.lost(ending).await;
            }
        }
    }

    /// What was written offline is noted as attempted in one write before it goes.
    async fn note_attempts(&mut self) {
        let noted = self.shared.arrange(|state| {
            if state.connection.caught_up { state.outbox.note_attempts() } else { Vec::new() }
        });
        if noted.is_empty() {
            return;
        }
        let changes = noted.iter().map(outbox_change).collect();
        let outgoing = noted.into_iter().map(|item| item.message_id).collect();
        // Without a keeper the client is about to end.
        let _ordered = self.shared.orders.send(Order::Write(Batch { changes, outgoing, done: None })).await;
    }
}
