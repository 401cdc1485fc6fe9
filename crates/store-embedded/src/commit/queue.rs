//! The committer's bounded queue. When it is full, `push` fails immediately with `Overloaded`.

use std::collections::VecDeque;

use std::time::Duration;

use bluetick_core::StoreError;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::CommitCommand;

/// Upper bound on the estimated bytes of queued commands. Without it a few thousand large messages
/// could fill the memory.
const MAX_BYTES: usize = 256 << 20;

pub struct Queue {
    limit: usize,
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<CommitCommand>,
    bytes: usize,
    nudged: bool,
    closed: bool,
    is_waiting: bool,
}

/// Why [`Queue::take`] returned.
pub enum Taken {
    /// Commands were taken, or the committer was nudged or timed out and may have other work.
    Continue,
    Closed,
}

impl Queue {
    pub fn new(limit: usize) -> Queue {
        Queue { limit, state: Mutex::default(), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }

    pub fn push(&self, command: CommitCommand) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.closed {
            return Err(StoreError::Closing);
        }
        let bytes = command.weight();
        if state.waiting.len() >= self.limit || state.bytes + bytes > MAX_BYTES {
            return Err(StoreError::Overloaded);
        }
        state.bytes += bytes;
        state.waiting.push_back(command);
        if state.is_waiting {
            state.is_waiting = false;
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Wakes the committer without a command.
    pub fn nudge(&self) {
        self.state().nudged = true;
        self.changed.notify_one();
    }

    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_one();
    }

    /// Closes the queue and drops all queued commands. Their callers see a closed reply channel.
    pub fn abandon(&self) {
        let mut state = self.state();
        state.closed = true;
        state.waiting.clear();
    }

    /// Moves all queued commands into `taken`. Does not wait.
    pub fn take_now(&self, taken: &mut VecDeque<CommitCommand>) {
        self.hand_over(self.state(), taken);
    }

    /// Moves all queued commands into `taken`. Waits for a command, a nudge or `close`, at most
    /// `patience`.
    pub fn take(&self, taken: &mut VecDeque<CommitCommand>, patience: Option<Duration>) -> Taken {
        let mut state = self.state();
        while state.waiting.is_empty() && !state.closed && !state.nudged {
            state.is_waiting = true;
            match patience {
                None => self.changed.wait(&mut state),
                Some(patience) => {
                    let timeout = self.changed.wait_for(&mut state, patience);
                    state.nudged |= timeout.timed_out();
                }
            }
        }
        let closed = state.closed;
        self.hand_over(state, taken);
        if taken.is_empty() && closed { Taken::Closed } else { Taken::Continue }
    }

    fn hand_over(&self, mut state: MutexGuard<'_, QueueState>, taken: &mut VecDeque<CommitCommand>) {
        state.is_waiting = false;
        state.nudged = false;
        state.bytes = 0;
        std::mem::swap(&mut state.waiting, taken);
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::ports::UserUpdate;

    use super::super::{Control, reply_pair};
    use super::*;

    fn command() -> CommitCommand {
        let id = "alice".parse().unwrap();
        let update = UserUpdate { id, display_name: None, password_hash: None };
        CommitCommand::Control(Box::new(Control::UpdateUser { update, reply: reply_pair().0 }))
    }

    #[test]
    fn full_queue_refuses_until_it_is_emptied() {
        let queue = Queue::new(2);
        queue.push(command()).unwrap();
        queue.push(command()).unwrap();
        assert!(matches!(queue.push(command()), Err(StoreError::Overloaded)));
        let mut taken = VecDeque::new();
        assert!(matches!(queue.take(&mut taken, None), Taken::Continue));
        assert_eq!(taken.len(), 2);
        queue.push(command()).unwrap();
    }

    #[test]
    fn closed_queue_returns_queued_commands_and_refuses_new_ones() {
        let queue = Queue::new(2);
        queue.push(command()).unwrap();
        queue.close();
        assert!(matches!(queue.push(command()), Err(StoreError::Closing)));
        let mut taken = VecDeque::new();
        assert!(matches!(queue.take(&mut taken, None), Taken::Continue));
        taken.clear();
        assert!(matches!(queue.take(&mut taken, None), Taken::Closed));
    }

    #[test]
    fn abandoned_queue_closes_the_reply_channels() {
        let queue = Queue::new(2);
        let (reply, answer) = reply_pair();
        let update = UserUpdate { id: "alice".parse().unwrap(), display_name: None, password_hash: None };
        queue.push(CommitCommand::Control(Box::new(Control::UpdateUser { update, reply }))).unwrap();
        queue.abandon();
        assert!(answer.blocking_recv().is_err());
    }
}
