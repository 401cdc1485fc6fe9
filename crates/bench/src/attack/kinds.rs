//! The list of attacks with their names and rates.

use std::str::FromStr;

macro_rules! attacks {
    ($($variant:ident, $key:literal, $title:literal, $act:literal, $per_second:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Attack { $($variant,)* }

        impl Attack {
            /// Every attack, in the order of the report.
            pub const ALL: &'static [Attack] = &[$(Attack::$variant,)*];

            /// Identifier of the attack in report keys and on the command line.
            pub const fn key(self) -> &'static str {
                match self { $(Attack::$variant => $key,)* }
            }

            pub const fn title(self) -> &'static str {
                match self { $(Attack::$variant => $title,)* }
            }

            /// The unit in which the report counts this attack's actions.
            pub const fn act(self) -> &'static str {
                match self { $(Attack::$variant => $act,)* }
            }

            /// Upper bound on actions per second, summed over all attackers.
            pub const fn per_second(self) -> u64 {
                match self { $(Attack::$variant => $per_second,)* }
            }
        }
    };
}

attacks! {
    SlowLoris, "slow_loris", "slow-loris", "bytes trickled", 5_000;
    NeverReading, "never_reading", "never-reading sockets", "messages of 16 kB to them", 200;
    OneByteFrames, "one_byte_frames", "frames of one byte", "frames", 50_000;
    GiantFrames, "giant_frames", "giant frames", "frames of 500 kB, or declared as 1 GiB", 100;
    ReconnectStorm, "reconnect_storm", "reconnect storm", "connects with hello", 2_000;
    LogInFlood, "log_in_flood", "log-in flood", "log-ins tried", 500;
    ConnectionsOfOneUser, "connections_of_one_user", "connections of one user", "connects with hello", 2_000;
    PingFlood, "ping_flood", "ping flood", "pings", 50_000;
    GuessedIds, "guessed_ids", "guessed conversation ids", "frames and calls", 10_000;
    BadTokens, "bad_tokens", "bad tokens", "hellos and calls", 5_000;
}

impl FromStr for Attack {
    type Err = String;

    fn from_str(text: &str) -> Result<Attack, String> {
        let spelled = text.replace('-', "_");
        let found = Attack::ALL.iter().copied().find(|attack| attack.key() == spelled);
        found.ok_or_else(|| {
            let names: Vec<&str> = Attack::ALL.iter().map(|attack| attack.key()).collect();
            format!("no such attack; there are {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attack_parses_from_its_name() {
        for attack in Attack::ALL {
            assert_eq!(attack.key().parse(), Ok(*attack));
            assert_eq!(attack.key().replace('_', "-").parse(), Ok(*attack));
        }
        assert!("siege".parse::<Attack>().unwrap_err().contains("slow_loris"));
    }
}
