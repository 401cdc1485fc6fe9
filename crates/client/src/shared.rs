//! The data that a client's handles and its tasks share. The state lock is never held across an
//! await.

use std::sync::Arc;

use bluetick_types::Random;
use bluetick_types::time::Clock;
use bluetick_types::{MessageId, Timestamp};
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast, mpsc, watch};

use crate::api::Api;
use crate::state::{Event, Phase, State};
use crate::storage_writer::Order;
use crate::transport::Server;
use crate::wire::codes::CloseCode;

/// The shared data of one client: the locked state, the HTTP API, and the channels to the tasks.
pub struct Shared {
    state: Mutex<State>,
    pub api: Api,
    pub server: Server,
    pub device_id: Option<String>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub orders: mpsc::Sender<Order>,
    /// Wakes the driver after a state change.
    pub wake: Notify,
    /// Ends the current reconnect pause.
    pub connect_now: Notify,
    revision: watch::Sender<u64>,
    events: broadcast::Sender<Event>,
}

/// Capacity of the event channel. A receiver that falls further behind loses the oldest events.
const EVENTS: usize = 1_024;

impl Shared {
    pub fn new(
        state: State,
        api: Api,
        server: Server,
        device_id: Option<String>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        orders: mpsc::Sender<Order>,
    ) -> Shared {
        Shared {
            state: Mutex::new(state),
            api,
            server,
            device_id,
            clock,
            random,
            orders,
            wake: Notify::new(),
            connect_now: Notify::new(),
            revision: watch::Sender::new(0),
            events: broadcast::Sender::new(EVENTS),
        }
    }

    /// Reads the state under the lock.
    pub fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.lock())
    }

    /// Changes the state under the lock, then publishes its events and a new revision and wakes the
    /// driver.
    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = self.change_as_driver(change);
        self.wake.notify_one();
        result
    }

    /// Like [`Shared::change`], without waking the driver. For the driver's own task.
    pub fn change_as_driver<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (result, events) = {
            let mut state = self.state.lock();
            let result = change(&mut state);
            (result, std::mem::take(&mut state.todo.events))
        };
        // An error means that there is no receiver.
        events.into_iter().for_each(|event| drop(self.events.send(event)));
        self.revision.send_modify(|revision| *revision += 1);
        result
    }

    /// Changes the state under the lock without publishing a revision or events. For changes that
    /// are not visible.
    pub fn arrange<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock())
    }

    pub fn set_phase(&self, phase: Phase, close_code: Option<CloseCode>) {
        let since = self.clock.now();
        self.change_as_driver(|state| {
            let connection = &mut state.connection;
            if connection.phase != phase {
                connection.since = since;
            }
            connection.phase = phase;
            connection.close_code = close_code;
            if phase == Phase::LoggedOut {
                state.todo.events.push(Event::LoggedOut);
            }
        });
    }

    /// Publishes a problem for the user to read.
    pub fn trouble(&self, text: String) {
        // An error means that there is no receiver.
        drop(self.events.send(Event::Trouble(text)));
    }

    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Creates a UUIDv7, whose text sorts by time.
    pub fn new_message_id(&self, now: Timestamp) -> MessageId {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes[6..]);
        bytes[..6].copy_from_slice(&now.millis().to_be_bytes()[2..]);
        bytes[6] = 0x70 | (bytes[6] & 0x0f);
        bytes[8] = 0x80 | (bytes[8] & 0x3f);
        MessageId::Uuid(bytes)
    }
}
