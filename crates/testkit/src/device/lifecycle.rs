//! The life cycle of a device: connected for a while, disconnected in some way, absent, and finally
//! brought up to date.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::connection::{ConnectionEnd, DeviceConnection};
use super::{Device, Trouble, ViolationReport};
use crate::client::{Situation, stopped};

/// Upper bound on abandoned sockets per device. They count against `limits.connections_per_user`.
const MOST_ABANDONED: usize = 2;
/// Length of a connection that never ends by itself: longer than any test.
const SPELL_WITHOUT_END_MS: u64 = 3_600_000;
/// Number of extra attempts after the faults have ended. If it is too small, a connection that a
/// late fault closes fails the test.
const MOST_ASKED_AGAIN: usize = 2;
/// Time limit for catching up without faults. If it is too short, tests fail on a slow machine.
const SETTLING: Duration = Duration::from_secs(60);

impl Device {
    /// Runs until `stop` is set or the server violates the contract.
    pub async fn storm(
        mut self,
        mut situation: watch::Receiver<Situation>,
    ) -> (Device, Option<ViolationReport>) {
        loop {
            let now = situation.borrow_and_update().clone();
            if now.stop {
                self.abandoned.clear();
                return (self, None);
            }
            let spell = match self.dice.pick(&now.addresses).cloned() {
                Some(address) => self.connected_spell(&address, &mut situation).await,
                None => Err(ConnectionEnd::Lost),
            };
            let away_ms = match spell {
                Ok(()) => self.choose_absence(),
                Err(ConnectionEnd::Lost) => match self.come_back_ms.take() {
                    Some(after_ms) => after_ms,
                    None => self.dice.between(5, 60),
                },
                Err(ConnectionEnd::Violated(violation)) => return (self, Some(*violation)),
            };
            self.stay_away(away_ms, &mut situation).await;
        }
    }

    fn choose_absence(&mut self) -> u64 {
        let long = self.habits.long_absence_ms;
        if long > 0 && self.dice.one_in(4) {
            self.dice.between(long / 2, long)
        } else {
            self.dice.between(5, 150)
        }
    }

    /// Sleeps until the absence or the run ends. A change of addresses does not end the absence.
    async fn stay_away(&mut self, away_ms: u64, situation: &mut watch::Receiver<Situation>) {
        let until = Instant::now() + Duration::from_millis(away_ms);
        let _either = timeout_at(until, stopped(situation)).await;
    }

    /// Runs one connection, from `hello` until the device ends it.
    async fn connected_spell(
        &mut self,
        address: &str,
        situation: &mut watch::Receiver<Situation>,
    ) -> Result<(), ConnectionEnd> {
        let spell_ms = match self.dice.below(6) {
            _ if self.habits.stays_connected => SPELL_WITHOUT_END_MS,
            0 => self.dice.between(1, 60),
            _ => self.dice.between(100, 2500),
        };
        let end = Instant::now() + Duration::from_millis(spell_ms);
        let mut connection = DeviceConnection::open(self, address).await?;
        // Half of the connections send unsent and new messages immediately; the others wait until
        // they are caught up.
        let eager = connection.device.dice.one_in(2);
        if eager {
            connection.burst().await?;
        }
        let mut asked = false;
        let mut next_act = Instant::now();
        loop {
            let pause_ms = connection.pause_ms();
            tokio::select! {
                frame = connection.next() => {
                    let frame = frame?;
                    connection.hear(&frame)?;
                }
                () = sleep_until(next_act) => {
                    next_act = Instant::now() + Duration::from_millis(pause_ms);
                    if connection.caught_up && !asked {
                        asked = true;
                        connection.come_back().await?;
                    } else if !connection.gaps.is_empty() {
                        connection.fetch_some().await?;
                    } else if connection.caught_up || eager {
                        connection.act().await?;
                    }
                }
                () = sleep_until(end) => break,
                () = stopped(situation) => break,
            }
        }
        connection.part().await;
        Ok(())
    }

    /// Sends the outbox and waits until every message is answered.
    pub async fn flush(mut self, address: &str) -> (Device, Option<ViolationReport>) {
        let flushed = self.surely(address, false).await;
        self.told(flushed)
    }

    /// Reconnects after all traffic has ended and fetches everything missing.
    pub async fn settle(mut self, address: &str) -> (Device, Option<ViolationReport>) {
        let settled = self.surely(address, true).await;
        self.told(settled)
    }

    fn told(self, outcome: Result<(), ConnectionEnd>) -> (Device, Option<ViolationReport>) {
        match outcome {
            Ok(()) => (self, None),
            Err(ConnectionEnd::Lost) => {
                let lost = self.violation(None, Trouble::Stuck("the connection was lost".to_owned()));
                (self, Some(lost))
            }
            Err(ConnectionEnd::Violated(violation)) => (self, Some(*violation)),
        }
    }

    /// Retries a lost connection `MOST_ASKED_AGAIN` times: a server may close connections after a
    /// fault, but not repeatedly.
    async fn surely(&mut self, address: &str, all_is_quiet: bool) -> Result<(), ConnectionEnd> {
        for _ in 0..MOST_ASKED_AGAIN {
            match self.quietly(address, all_is_quiet).await {
                Err(ConnectionEnd::Lost) => {}
                outcome => return outcome,
            }
        }
        self.quietly(address, all_is_quiet).await
    }

    async fn quietly(&mut self, address: &str, all_is_quiet: bool) -> Result<(), ConnectionEnd> {
        let mut connection = DeviceConnection::open(self, address).await?;
        let done = timeout(SETTLING, connection.until_complete(all_is_quiet)).await;
        match done {
            Ok(done) => done?,
            Err(_) => {
                let missing = format!(
                    "caught up: {}, unanswered: {}, gaps: {:?}",
                    connection.caught_up,
                    connection.device.outbox.len(),
                    connection.gaps
                );
                return Err(connection.device.violation(None, Trouble::Stuck(missing)).into());
            }
        }
        // The connection may have ended already.
        let _closed = connection.socket.close(None).await;
        Ok(())
    }
}

impl DeviceConnection<'_> {
    fn pause_ms(&mut self) -> u64 {
        if self.gaps.is_empty() && self.unsent == 0 {
            let pause_ms = self.device.habits.pause_ms;
            self.device.dice.between(pause_ms / 4, pause_ms)
        } else {
            self.device.dice.between(0, 10)
        }
    }

    /// Reads the inbox and the read states, as a client library does after a reconnect.
    async fn come_back(&mut self) -> Result<(), ConnectionEnd> {
        if self.device.views.is_empty() || self.device.dice.one_in(4) {
            self.read_inbox().await?;
        }
        let rooms = self.rooms();
        match self.device.dice.pick(&rooms).cloned() {
            Some(room) => self.ask_status(&room).await,
            None => Ok(()),
        }
    }

    /// Ends the connection: with a close frame, by a cut, or by abandoning the socket.
    async fn part(mut self) {
        let happened = &mut self.device.record.happened;
        match self.device.dice.below(5) {
            0 => {
                happened.closes += 1;
                let _gone = timeout(Duration::from_secs(1), self.socket.close(None)).await;
            }
            1 => {
                happened.abandoned += 1;
                if self.device.abandoned.len() == MOST_ABANDONED {
                    self.device.abandoned.pop_front();
                }
                self.device.abandoned.push_back(self.socket);
            }
            _ => happened.cuts += 1,
        }
    }

    async fn until_complete(&mut self, all_is_quiet: bool) -> Result<(), ConnectionEnd> {
        while !self.caught_up {
            let frame = self.next().await?;
            self.hear(&frame)?;
        }
        while self.device.has_unsent() {
            while self.send_next().await? {}
            // Resend after the pause, even if no frame arrives.
            match timeout_at(self.rest_ends(), self.next()).await {
                Ok(frame) => self.hear(&frame?)?,
                Err(_) => continue,
            }
        }
        if !all_is_quiet {
            return Ok(());
        }
        while !self.gaps.is_empty() {
            self.fetch_some().await?;
        }
        self.find_what_was_not_sent().await?;
        for room in self.rooms() {
            self.ask_status(&room).await?;
        }
        Ok(())
    }

    /// Finds messages that a device without positions did not receive, using the inbox. For a
    /// user's only device, only its own messages may be missing.
    async fn find_what_was_not_sent(&mut self) -> Result<(), ConnectionEnd> {
        self.read_inbox().await?;
        for gap in self.gaps.values_mut() {
            gap.origin = super::gaps::GapOrigin::Passed;
        }
        while !self.gaps.is_empty() {
            self.fetch_some().await?;
        }
        Ok(())
    }
}
