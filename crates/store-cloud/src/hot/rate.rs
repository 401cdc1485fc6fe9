//! How busy a conversation is, from the seqs that pass by: two of them and the time between are the rate of all nodes
//! together. No counter and no request.
//!
//! Busier counts at once, calmer after a while: being spread too far costs readers little, and each change is an epoch that
//! is never forgotten.

use std::collections::VecDeque;
use std::time::Duration;

use bluetick_core::Seq;
use tokio::time::Instant;

/// One partition takes 1,000 writes a second; this much is asked of it.
pub const WRITES_PER_PARTITION: u64 = 800;

/// The shortest time over which a rate is taken.
const WINDOW: Duration = Duration::from_millis(250);

/// A conversation that was so busy lately may be so again.
pub const COOLING: Duration = Duration::from_secs(600);

/// A conversation that hovers about a border stays above it: what is needed is less only when it is less by so much, in
/// percent.
const SLACK_PERCENT: u64 = 25;

/// Of one conversation, on one node.
#[derive(Debug)]
pub struct Meter {
    since: Instant,
    begin: (Seq, Instant),
    /// Of what passed by since `begin`.
    highest: Option<Seq>,
    /// Writes a second in the last two windows, the newer one first.
    rates: [u64; 2],
    /// When how many partitions would have done, slack included: falling numbers at rising moments, so that the first one is
    /// the most of the whole time and the list is short.
    needs: VecDeque<(Instant, u16)>,
    asked: Option<u16>,
    waiting: u64,
}

impl Meter {
    pub fn new(seq: Seq, at: Instant) -> Meter {
        Meter {
            since: at,
            begin: (seq, at),
            highest: None,
            rates: [0; 2],
            needs: VecDeque::new(),
            asked: None,
            waiting: 0,
        }
    }

    /// Somebody knows better than what was measured.
    pub fn ask_for(&mut self, partitions: Option<u16>) {
        self.asked = partitions;
    }

    /// A message has come to this node and is not stored yet (1), or is (-1).
    pub fn waits(&mut self, more: i64) {
        self.waiting = self.waiting.saturating_add_signed(more);
    }

    /// A place was handed out, to this node or to another. Latecomers do no harm.
    pub fn saw(&mut self, seq: Seq, at: Instant) {
        if self.begin.0 == Seq::ZERO {
            self.begin = (seq, at);
        }
        self.highest = self.highest.max(Some(seq));
        let (begin, began) = self.begin;
        let past = at.saturating_duration_since(began);
        let Some(highest) = self.highest else { return };
        if past < WINDOW {
            return;
        }
        self.begin = (highest, at);
        self.highest = None;
        // All of them below: the counter was set back, and what it says begins here.
        if highest < begin {
            return;
        }
        let millis = u64::try_from(past.as_millis()).unwrap_or(u64::MAX);
        let rate = highest.distance_from(begin).saturating_mul(1_000) / millis;
        // Partitions that take no more slow everybody down, so places are handed out no faster than they take them. What
        // waits tells the rest: it should be worked off within a second.
        let rate = rate.saturating_add(self.waiting);
        self.rates = [rate, self.rates[0]];
        let need = partitions_for(rate.saturating_mul(100 + SLACK_PERCENT) / 100);
        while self.needs.back().is_some_and(|(_, less)| *less <= need) {
            self.needs.pop_back();
        }
        self.needs.push_back((at, need));
        while self.needs.front().is_some_and(|(then, _)| at.saturating_duration_since(*then) > COOLING) {
            self.needs.pop_front();
        }
    }

    /// Writes a second that it takes, or would, lately and for two windows at least: a burst of a moment is no rate.
    pub fn rate(&self) -> u64 {
        self.rates[0].min(self.rates[1])
    }

    /// Over how many partitions the conversation should be spread, which is over `current` now.
    pub fn wanted(&self, current: u16, at: Instant) -> u16 {
        if let Some(asked) = self.asked {
            return asked;
        }
        // A second's worth of a partition that waits is no burst of a moment.
        let needed = partitions_for(self.rate().max(self.waiting));
        if needed > current {
            return needed;
        }
        // Whoever has not watched for as long cannot know how busy it was.
        if at.saturating_duration_since(self.since) < COOLING {
            return current;
        }
        let lately = |(then, _): &&(Instant, u16)| at.saturating_duration_since(*then) <= COOLING;
        self.needs.iter().find(lately).map_or(1, |(_, need)| *need).min(current)
    }

    /// It may be seen in a moment that more partitions are needed: then little is decided about what comes later.
    pub fn is_unsure(&self, current: u16) -> bool {
        self.asked.is_none() && partitions_for(self.rates[0].max(self.waiting.saturating_mul(4))) > current
    }

    /// Nothing is lost when it is forgotten.
    pub fn is_quiet(&self, at: Instant) -> bool {
        self.asked.is_none() && self.waiting == 0 && at.saturating_duration_since(self.begin.1) > COOLING
    }
}

/// At least one.
pub fn partitions_for(rate: u64) -> u16 {
    u16::try_from(rate.div_ceil(WRITES_PER_PARTITION).max(1)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Watched {
        meter: Meter,
        seq: u64,
        at: Instant,
    }

    impl Watched {
        fn new() -> Watched {
            let at = Instant::now();
            Watched { meter: Meter::new(Seq::new(1), at), seq: 1, at }
        }

        /// This node sees one place in ten.
        fn write(&mut self, per_second: u64, seconds: u64) {
            for _ in 0..seconds * 100 {
                self.at += Duration::from_millis(10);
                self.seq += per_second / 100;
                self.meter.saw(Seq::new(self.seq), self.at);
            }
        }

        fn wanted(&self, current: u16) -> u16 {
            self.meter.wanted(current, self.at)
        }
    }

    #[test]
    fn a_partition_is_added_for_every_800_writes_a_second() {
        let needs = [0, 1, 800, 801, 4_000, 4_001, u64::MAX].map(partitions_for);
        assert_eq!(needs, [1, 1, 1, 2, 5, 6, u16::MAX]);
    }

    #[test]
    fn a_few_of_the_places_give_the_rate_of_all() {
        let mut watched = Watched::new();
        watched.write(4_000, 2);
        assert_eq!(watched.meter.rate(), 4_000);
        assert_eq!(watched.wanted(1), 5);
    }

    #[test]
    fn what_waits_counts_so_that_a_partition_that_takes_no_more_does_not_hide_the_rate() {
        let mut watched = Watched::new();
        watched.meter.waits(800);
        watched.write(1_000, 2);
        assert_eq!(watched.wanted(1), 3);
        watched.meter.waits(-800);
        watched.write(1_000, 2);
        assert_eq!(watched.meter.rate(), 1_000);
    }

    #[test]
    fn a_seconds_worth_that_waits_counts_at_once_and_a_part_of_it_makes_unsure() {
        let mut watched = Watched::new();
        watched.write(100, 1);
        assert!(!watched.meter.is_unsure(1));
        watched.meter.waits(500);
        assert_eq!((watched.wanted(1), watched.meter.is_unsure(1)), (1, true));
        watched.meter.waits(1_500);
        assert_eq!(watched.wanted(1), 3);
    }

    #[test]
    fn it_grows_while_the_traffic_grows() {
        let mut watched = Watched::new();
        let mut current = 1;
        let mut all = vec![];
        for rate in [400, 1_000, 2_000, 4_000, 8_000] {
            watched.write(rate, 2);
            current = watched.wanted(current);
            all.push(current);
        }
        assert_eq!(all, [1, 2, 3, 5, 10]);
    }

    #[test]
    fn a_burst_of_a_moment_is_no_rate() {
        let mut watched = Watched::new();
        watched.write(100, 5);
        watched.seq += 600;
        watched.write(100, 5);
        assert_eq!(watched.wanted(1), 1);
    }

    #[test]
    fn one_spike_does_not_keep_a_conversation_spread() {
        let mut watched = Watched::new();
        watched.write(8_000, 3);
        assert_eq!(watched.wanted(1), 10);
        watched.write(1_000, 500);
        assert_eq!(watched.wanted(10), 10, "it may come back");
        watched.write(1_000, 200);
        assert_eq!(watched.wanted(10), 2);
        watched.at += COOLING * 2;
        assert_eq!(watched.wanted(10), 1, "nobody wrote at all");
    }

    #[test]
    fn a_rate_about_a_border_does_not_go_up_and_down() {
        let mut watched = Watched::new();
        let (mut current, mut changes) = (1, 0);
        for hour in 0..10 {
            for rate in [1_500, 1_700] {
                watched.write(rate + hour, 900);
                let wanted = watched.wanted(current);
                changes += usize::from(wanted != current);
                current = wanted;
            }
        }
        assert_eq!((current, changes), (3, 2));
    }

    #[test]
    fn who_has_not_watched_for_long_takes_nothing_back() {
        let mut watched = Watched::new();
        watched.write(10, 30);
        assert_eq!(watched.wanted(5), 5);
    }

    #[test]
    fn a_counter_that_was_set_back_is_no_rate() {
        let mut watched = Watched::new();
        watched.write(100, 5);
        watched.seq -= 300;
        watched.write(100, 1);
        watched.write(100, 5);
        assert_eq!(watched.meter.rate(), 100);
        assert_eq!(watched.wanted(1), 1);
    }

    #[test]
    fn a_latecomer_changes_nothing() {
        let mut watched = Watched::new();
        watched.write(4_000, 2);
        for _ in 0..100 {
            watched.write(4_000, 1);
            watched.meter.saw(Seq::new(3), watched.at);
        }
        assert_eq!(watched.meter.rate(), 4_000);
    }

    #[test]
    fn what_is_remembered_stays_short() {
        let mut watched = Watched::new();
        for round in 0..1_000 {
            watched.write(100 * (1 + round * 7_919 % 97), 1);
        }
        assert!(watched.meter.needs.len() <= 16);
    }
}
