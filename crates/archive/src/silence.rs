//! A circuit breaker for the object store. After a failure, requests fail fast for a pause, so that
//! readers do not queue up behind a timeout.

use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::ObjectArchiveError;

/// Time without an answer after which other requests fail fast. If it is too short, a slow object
/// store counts as down; if it is too long, readers queue up behind the timeout.
const NO_ANSWER: Duration = Duration::from_secs(2);

/// The circuit breaker.
pub(crate) struct Silence {
    pause: Duration,
    state: Mutex<SilenceState>,
}

#[derive(Default)]
struct SilenceState {
    /// End of the pause. Then one request probes the object store.
    until: Option<Instant>,
    /// The outage has been logged.
    told: bool,
}

impl Silence {
    /// Creates a circuit breaker. A pause of zero disables it.
    pub fn new(pause: Duration) -> Silence {
        Silence { pause, state: Mutex::default() }
    }

    /// Runs a request, or fails with `Unavailable` during a pause. A request that takes longer than
    /// `NO_ANSWER` starts a pause for others and still returns its own result. `Missing` and
    /// `Damaged` count as answers.
    pub async fn ask<T>(
        &self,
        question: impl Future<Output = Result<T, ObjectArchiveError>>,
    ) -> Result<T, ObjectArchiveError> {
        if !self.may_ask() {
            let why = "it did not answer a moment ago; requests fail fast until the next probe";
            return Err(ObjectArchiveError::Unavailable(why.to_owned()));
        }
        let mut question = std::pin::pin!(question);
        let answer = match tokio::time::timeout(NO_ANSWER, &mut question).await {
            Ok(answer) => answer,
            Err(_) => {
                self.fell_silent("no answer yet");
                question.await
            }
        };
        match &answer {
            Err(ObjectArchiveError::Unavailable(why)) => self.fell_silent(why),
            _ => self.answered(),
        }
        answer
    }

    fn state(&self) -> MutexGuard<'_, SilenceState> {
        self.state.lock()
    }

    /// Returns whether a request may run. After a pause, starts the next pause and admits one
    /// probe.
    fn may_ask(&self) -> bool {
        let now = Instant::now();
        let mut state = self.state();
        match state.until {
            Some(until) if now < until => false,
            Some(_) => {
                state.until = Some(now + self.pause);
                true
            }
            None => true,
        }
    }

    /// Starts a pause. Logs the first failure of an outage.
    fn fell_silent(&self, why: &str) {
        let mut state = self.state();
        state.until = Some(Instant::now() + self.pause);
        if !std::mem::replace(&mut state.told, true) {
            tracing::warn!(why, "object store of the archive unavailable; archived messages cannot be read");
        }
    }

    /// Ends the pause. Logs the end of an outage.
    fn answered(&self) {
        let mut state = self.state();
        state.until = None;
        if std::mem::replace(&mut state.told, false) {
            tracing::info!("object store of the archive available again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn down() -> Result<(), ObjectArchiveError> {
        Err(ObjectArchiveError::Unavailable("down".to_owned()))
    }

    #[tokio::test(start_paused = true)]
    async fn after_failure_one_request_probes_and_its_success_admits_all() {
        let silence = Silence::new(Duration::from_secs(3_600));
        assert_eq!(silence.ask(down()).await, down().await);
        let refused = silence.ask(async { Ok::<(), ObjectArchiveError>(()) }).await;
        assert!(refused.is_err(), "a request right after a failure is refused");
        silence.state().until = Some(Instant::now());
        assert_eq!(silence.ask(async { Ok(7) }).await, Ok(7));
        assert_eq!(silence.ask(async { Ok(8) }).await, Ok(8));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_fail_at_once_while_a_probe_hangs() {
        let silence = std::sync::Arc::new(Silence::new(Duration::from_secs(3_600)));
        let waiting = std::sync::Arc::clone(&silence);
        let slow = tokio::spawn(async move {
            waiting
                .ask(async {
                    tokio::time::sleep(Duration::from_secs(9)).await;
                    Ok(1)
                })
                .await
        });
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(silence.ask(async { Ok(2) }).await.is_err());
        assert_eq!(slow.await.unwrap(), Ok(1), "a running request gets its answer");
        assert_eq!(silence.ask(async { Ok(3) }).await, Ok(3));
    }

    #[tokio::test]
    async fn missing_object_does_not_count_as_silence() {
        let silence = Silence::new(Duration::from_secs(3_600));
        let missing = || async { Err::<(), _>(ObjectArchiveError::Missing { name: "x".to_owned() }) };
        assert_eq!(silence.ask(missing()).await, missing().await);
        assert_eq!(silence.ask(missing()).await, missing().await);
    }
}
