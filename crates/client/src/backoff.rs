//! Reconnect backoff: how long to wait before the next connection attempt.

use std::time::Duration;

use bluetick_types::Random;

use crate::wire::codes::CloseCode;

/// Reconnect backoff settings. The defaults suit interactive clients; tests use shorter pauses.
#[derive(Clone, Copy, Debug)]
pub struct ReconnectSettings {
    /// Upper bound of the first pause. The bound doubles with each failed attempt.
    pub first_pause: Duration,
    /// Largest value of the doubling bound.
    pub longest_pause: Duration,
    /// A connection that lasted at least this long resets the backoff.
    pub lasting: Duration,
}

impl Default for ReconnectSettings {
    fn default() -> ReconnectSettings {
        ReconnectSettings {
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
            lasting: Duration::from_secs(20),
        }
    }
}

/// Minimum pause after a close code that an early reconnect would repeat. The pause is random
/// between one and two times this value.
const LONG_PAUSE: Duration = Duration::from_secs(30);
/// Minimum and random spread of the first pause after a restart without a `come_back` hint: 0.5 to
/// 3 s, as the contract says.
const RESTART_PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(2_500));
/// Upper bound on the pause that a server may request. It limits the effect of a wrong hint.
const MOST_HINT: Duration = Duration::from_secs(300);

/// How the last connection ended, as input for the next pause.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ending {
    pub code: Option<CloseCode>,
    /// The pause that the server requested with `come_back`.
    pub hint: Option<Duration>,
    /// Time from the hello to the end. Zero if no hello was sent.
    pub lasted: Duration,
}

/// Computes reconnect pauses and counts failed attempts.
pub struct Backoff {
    settings: ReconnectSettings,
    attempt: u32,
}

impl Backoff {
    pub fn new(settings: ReconnectSettings) -> Backoff {
        Backoff { settings, attempt: 0 }
    }

    /// Returns the pause before the next attempt. Adds jitter, so that clients disconnected
    /// together do not reconnect together.
    pub fn pause(&mut self, ending: Ending, random: &dyn Random) -> Duration {
        if ending.lasted >= self.settings.lasting {
            self.attempt = 0;
        }
        if let Some(hint) = ending.hint {
            // The server already spreads its clients, so add no jitter.
            self.attempt = self.attempt.max(1);
            return hint.min(MOST_HINT);
        }
        let attempt = self.attempt;
        self.attempt = attempt.saturating_add(1);
        match ending.code {
            Some(CloseCode::RESTARTING) if attempt == 0 => {
                RESTART_PAUSE.0 + RESTART_PAUSE.1.mul_f64(chance(random))
            }
            Some(code) if code.asks_for_a_long_pause() => LONG_PAUSE + LONG_PAUSE.mul_f64(chance(random)),
            _ => growing(self.settings.first_pause, self.settings.longest_pause, attempt, random),
        }
    }
}

/// Exponential backoff with full jitter: uniform between zero and a bound that doubles with
/// `attempt` up to `longest`.
pub fn growing(first: Duration, longest: Duration, attempt: u32, random: &dyn Random) -> Duration {
    let bound = first.saturating_mul(1 << attempt.min(20)).min(longest);
    bound.mul_f64(chance(random))
}

/// A uniformly distributed number in [0, 1).
pub fn chance(random: &dyn Random) -> f64 {
    let mut bytes = [0; 4];
    random.fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the same byte every time.
    struct Loaded(u8);

    impl Random for Loaded {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    /// Randomness that always returns the highest value.
    const HIGH: Loaded = Loaded(255);

    fn ended(code: u16) -> Ending {
        Ending { code: Some(CloseCode(code)), ..Ending::default() }
    }

    fn pauses(endings: &[Ending]) -> Vec<u128> {
        let mut backoff = Backoff::new(ReconnectSettings::default());
        let to_ten = |pause: Duration| (pause.as_millis() + 5) / 10 * 10;
        endings.iter().map(|ending| to_ten(backoff.pause(*ending, &HIGH))).collect()
    }

    #[test]
    fn backoff_bound_doubles_to_30_seconds_with_full_jitter() {
        assert_eq!(
            pauses(&[Ending::default(); 8]),
            [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
        );
        let mut backoff = Backoff::new(ReconnectSettings::default());
        assert_eq!(backoff.pause(Ending::default(), &Loaded(0)), Duration::ZERO);
    }

    #[test]
    fn only_a_lasting_connection_resets_the_backoff() {
        let short = Ending { lasted: Duration::from_secs(19), ..Ending::default() };
        let long = Ending { lasted: Duration::from_secs(20), ..Ending::default() };
        assert_eq!(pauses(&[short, short, long]), [500, 1_000, 500]);
    }

    #[test]
    fn backoff_follows_the_server_hint_exactly() {
        let hinted = Ending { hint: Some(Duration::from_millis(1_730)), ..ended(1012) };
        let mut backoff = Backoff::new(ReconnectSettings::default());
        assert_eq!(backoff.pause(hinted, &HIGH), Duration::from_millis(1_730));
    }

    #[test]
    fn restart_without_hint_waits_half_a_second_to_three() {
        assert_eq!(pauses(&[ended(1012)]), [3_000]);
        let mut backoff = Backoff::new(ReconnectSettings::default());
        assert_eq!(backoff.pause(ended(1012), &Loaded(0)), Duration::from_millis(500));
    }

    #[test]
    fn close_codes_that_a_quick_reconnect_would_repeat_wait_long() {
        for code in [4400, 4409, 4429] {
            assert!(pauses(&[ended(code)])[0] >= 30_000, "{code}");
        }
    }
}
