//! The driver: the task that owns the connection. It reconnects, sends outgoing frames, starts
//! background requests and saves the state. One loop handles all events.

pub mod background;
mod connection;
mod outgoing;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use self::background::{FinishedRequest, RequestKind, Retry};
use self::connection::{ConnectionEvent, ConnectionPhase};
use crate::api::NoToken;
use crate::backoff::{Backoff, Ending, ReconnectSettings};
use crate::shared::Shared;
use crate::state::Phase;
use crate::storage_writer::{Order, StorageBatch};
use crate::stored_state::{StoredState, outbox_change, outbox_removal};

/// Delay that gathers receipts into one write. A larger value delays the sender's ticks.
const ACK_AFTER: Duration = Duration::from_millis(50);
/// Interval at which changed rows, messages and drafts are saved. A crash loses at most this much,
/// which the client fetches again; drafts are lost. Unsent messages are stored separately, before
/// they are sent.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// The state of the driver task.
pub struct Driver {
    shared: Arc<Shared>,
    line: ConnectionPhase,
    backoff: Backoff,
    work: JoinSet<FinishedRequest>,
    /// Running background requests, so that none runs twice at the same time.
    asked: Vec<RequestKind>,
    /// Failed requests that wait for their retry.
    again: Vec<Retry>,
    ledger: StoredState,
    /// When the pending receipts are sent.
    ack_at: Option<Instant>,
    /// The server refused a receipt temporarily, so `ack_at` is a retry time.
    acks_held: bool,
    /// Number of refused receipt batches in a row.
    ack_refusals: u32,
    /// When the changed state is saved.
    save_at: Option<Instant>,
    /// The token that the server refused. The next attempt must use another one.
    refused_token: Option<String>,
}

impl Driver {
    pub fn new(shared: Arc<Shared>, ledger: StoredState, reconnect: ReconnectSettings) -> Driver {
        Driver {
            shared,
            line: ConnectionPhase::Pause { until: Instant::now() },
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

    /// Runs until `stop` resolves, then shuts down gracefully.
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
                // The handle stops the driver by dropping the sender. It never sends a value.
                _ = &mut stop => break,
            }
        }
        self.finish().await;
    }

    /// Shuts down: ends the background requests, sends pending receipts, closes the connection, and
    /// hands the last changes to the storage writer.
    async fn finish(mut self) {
        self.work.shutdown().await;
        if let ConnectionPhase::Open(mut open) = std::mem::replace(&mut self.line, ConnectionPhase::Closed) {
            let acks = self.shared.arrange(|state| state.take_acks());
            if open.vigil.welcomed {
                let told = async {
                    for frame in &acks {
                        open.link.feed(frame).await?;
                    }
                    open.link.flush().await
                };
                // Ignore errors and timeouts: a broken connection ends here anyway.
                let _told = tokio::time::timeout(Duration::from_secs(1), told).await;
            }
            let _closed = tokio::time::timeout(Duration::from_secs(1), open.link.close()).await;
        }
        self.shared.arrange(|state| state.connection_lost());
        self.shared.set_phase(Phase::Offline, None);
        let changes = self.changes();
        let last = StorageBatch { changes, ..StorageBatch::default() };
        // The storage writer outlives the driver, so it accepts this batch.
        let _written = self.shared.orders.send(Order::Write(last)).await;
    }

    fn next_timer(&self) -> Option<Instant> {
        let of_state = self.shared.read(|state| [state.outbox.next_release(), state.signals.next_fading()]);
        let again = self.again.iter().map(|again| again.at).min();
        let own = [self.ack_at, self.save_at, self.line.next_timer(), again];
        own.into_iter().chain(of_state).flatten().min()
    }

    /// Does everything that is due now: ends holds and typing indicators, saves, starts requests,
    /// and sends frames.
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

    /// Evicts surplus messages and returns the storage changes since the last save.
    fn changes(&mut self) -> Vec<crate::storage::Change> {
        let ledger = &mut self.ledger;
        self.shared.arrange(|state| {
            state.let_go();
            let mut changes = ledger.changes(state);
            changes.extend(state.todo.settled.drain(..).map(|item| outbox_removal(&item)));
            changes
        })
    }

    /// Saves the changed state once per `SAVE_EVERY`.
    fn save(&mut self, now: Instant) {
        let is_dirty = self.shared.read(|state| !state.dirty.is_empty() || !state.todo.settled.is_empty());
        match self.save_at {
            None if is_dirty => self.save_at = Some(now + SAVE_EVERY),
            Some(at) if at <= now => {
                // The storage writer's queue is full. Gather more changes and try again later.
                let Ok(permit) = self.shared.orders.clone().try_reserve_owned() else {
                    self.save_at = Some(now + SAVE_EVERY);
                    return;
                };
                self.save_at = None;
                let changes = self.changes();
                permit.send(Order::Write(StorageBatch { changes, ..StorageBatch::default() }));
            }
            _ => {}
        }
    }

    async fn on_line(&mut self, happened: ConnectionEvent) {
        match happened {
            ConnectionEvent::PauseOver => self.dial(),
            ConnectionEvent::Opened(link, given) => self.greet(*link, given).await,
            ConnectionEvent::NoToken(NoToken::Never) => self.log_out(),
            ConnectionEvent::NoToken(NoToken::Later) => self.lost(Ending::default()).await,
            ConnectionEvent::Failed(error) => {
                self.lost(Ending { code: error.close_code(), ..Ending::default() }).await
            }
            ConnectionEvent::Frame(frame) => self.on_frame(&frame).await,
            ConnectionEvent::Ended(error) => {
                let ending = self.ending(error.close_code());
                self.lost(ending).await;
            }
        }
    }

    /// Records messages written offline as attempted, in one storage write, before they are sent.
    /// After a crash they are then resent with `retry`.
    async fn note_attempts(&mut self) {
        let noted = self.shared.arrange(|state| {
            if state.connection.caught_up { state.outbox.note_attempts() } else { Vec::new() }
        });
        if noted.is_empty() {
            return;
        }
        let changes = noted.iter().map(outbox_change).collect();
        let outgoing = noted.into_iter().map(|item| item.message_id).collect();
        // An error means that the storage writer has ended and the client is shutting down.
        let _ordered =
            self.shared.orders.send(Order::Write(StorageBatch { changes, outgoing, done: None })).await;
    }
}
