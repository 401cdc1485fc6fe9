//! The calls to one peer that wait for an answer.

use std::collections::HashMap;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::cluster::bus::BusError;

pub(super) type CallAnswer = oneshot::Receiver<Result<Bytes, BusError>>;

#[derive(Default)]
pub(super) struct WaitingCalls {
    calls: HashMap<u64, WaitingCall>,
    last_id: u64,
}

struct WaitingCall {
    answer: oneshot::Sender<Result<Bytes, BusError>>,
    /// Whether the other node may have got it.
    is_written: bool,
}

impl WaitingCall {
    fn failure(&self) -> BusError {
        if self.is_written { BusError::NoAnswer } else { BusError::NotSent }
    }
}

impl WaitingCalls {
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns the id that the next call gets.
    pub fn next_id(&self) -> u64 {
        self.last_id + 1
    }

    /// Adds a call under [`WaitingCalls::next_id`].
    pub fn add(&mut self) -> CallAnswer {
        self.last_id += 1;
        let (sender, answer) = oneshot::channel();
        self.calls.insert(self.last_id, WaitingCall { answer: sender, is_written: false });
        answer
    }

    /// Notes that a call is written to the connection. Returns `false` if its caller has gone.
    pub fn mark_written(&mut self, id: u64) -> bool {
        self.calls.get_mut(&id).is_some_and(|call| {
            call.is_written = true;
            true
        })
    }

    /// Ends a call. A caller that timed out does not wait any more.
    pub fn answer(&mut self, id: u64, answer: Result<Bytes, BusError>) {
        if let Some(call) = self.calls.remove(&id) {
            let _caller_gone = call.answer.send(answer);
        }
    }

    /// Removes a call whose caller stops waiting. Returns what is known about it, or `None` if it
    /// was answered meanwhile.
    pub fn withdraw(&mut self, id: u64) -> Option<BusError> {
        self.calls.remove(&id).map(|call| call.failure())
    }

    /// Fails all calls: the connection has ended.
    pub fn fail_all(&mut self) {
        for (_, call) in self.calls.drain() {
            let failure = call.failure();
            let _caller_gone = call.answer.send(Err(failure));
        }
    }
}
