//! The size of a run, read from the environment.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub seed: u64,
    pub clients: usize,
    pub conversations: usize,
    pub seconds: u64,
    pub kills: u32,
}

impl Sizes {
    pub fn from_environment() -> Sizes {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let sizes = Sizes {
            seed: given("SEED").unwrap_or(now),
            clients: given("CLIENTS").unwrap_or(50),
            conversations: given("CONVERSATIONS").unwrap_or(20),
            seconds: given("SECONDS").unwrap_or(10),
            kills: given("KILLS").unwrap_or(4),
        };
        assert!(sizes.clients >= 10 && sizes.conversations >= 5, "the run is too small: {sizes:?}");
        assert!(sizes.conversations <= sizes.clients, "too few users for the conversations: {sizes:?}");
        sizes
    }

    /// One in five users has two devices.
    pub fn users(&self) -> usize {
        self.clients * 5 / 6
    }
}

fn given<T: FromStr>(name: &str) -> Option<T> {
    let name = format!("BLUETICK_CHAOS_{name}");
    let text = std::env::var(&name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// Prints the environment variables that repeat the run.
impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sizes { seed, clients, conversations, seconds, kills } = self;
        write!(
            f,
            "BLUETICK_CHAOS_SEED={seed} BLUETICK_CHAOS_CLIENTS={clients} BLUETICK_CHAOS_CONVERSATIONS={conversations} \
             BLUETICK_CHAOS_SECONDS={seconds} BLUETICK_CHAOS_KILLS={kills}"
        )
    }
}
