//! Selects the messages of the next segment: which are old enough, and when a segment is full.

use bluetick_core::Timestamp;

use crate::ArchiveSettings;

/// Raw bytes at which a segment is closed before it has all its messages. Bounds the memory for one
/// segment. A smaller value makes more objects, and more requests per run.
const SEGMENT_RAW_BYTES: usize = 8 << 20;
/// Upper bound on a configured duration, in milliseconds: a thousand centuries. Above it, adding a
/// duration to a timestamp could overflow.
const MAX_MILLIS: i64 = 3_155_760_000_000_000;

/// Converts a configured duration. Saturates.
pub fn millis(seconds: u64) -> i64 {
    i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX).min(MAX_MILLIS)
}

/// Which messages are old enough to move.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub now: Timestamp,
    pub age_seconds: u64,
    /// Messages received before this time are old.
    pub before: Timestamp,
    pub segment_messages: u64,
    /// A segment that is not full moves when its first message was received before this time.
    /// `None`: at once.
    pub partial_before: Option<Timestamp>,
}

impl Rules {
    /// Creates the rules of a run that starts now. `partial` also moves messages that do not fill a
    /// segment.
    pub fn new(settings: &ArchiveSettings, now: Timestamp, partial: bool) -> Rules {
        let ago = |seconds: u64| Timestamp::from_millis(now.millis().saturating_sub(millis(seconds)));
        let patience = settings.age_seconds.saturating_add(settings.patience_seconds);
        Rules {
            now,
            age_seconds: settings.age_seconds,
            before: ago(settings.age_seconds),
            segment_messages: settings.segment_messages.max(1),
            partial_before: (!partial).then(|| ago(patience)),
        }
    }

    /// Returns the age of a message that was received at this time.
    pub fn age_of(&self, received_at: Timestamp) -> Age {
        match received_at {
            at if at > self.now => Age::Unknown,
            at if at < self.before => Age::Old,
            _ => Age::Young,
        }
    }
}

/// The age of a row, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    Old,
    Young,
    /// The row is a void, or a server received it while its clock was ahead. The row counts as old
    /// if the next row with a known age is old.
    Unknown,
}

/// Collects the rows of one segment, oldest first.
pub struct Selection<T> {
    rules: Rules,
    rows: Vec<T>,
    messages: u64,
    bytes: usize,
    /// The number of rows that are known to be old.
    old: usize,
    is_closed: bool,
}

impl<T> Selection<T> {
    pub fn new(rules: Rules) -> Selection<T> {
        Selection { rules, rows: Vec::new(), messages: 0, bytes: 0, old: 0, is_closed: false }
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Ends the segment before an archived row: a segment holds consecutive seqs.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Adds the next row, which is not [`Age::Young`]. A closed segment takes no row, but an old
    /// one proves that the last rows of the segment are old. Returns whether later rows can still
    /// change the result.
    pub fn add(&mut self, age: Age, messages: u64, bytes: usize, row: impl FnOnce() -> T) -> bool {
        if !self.is_closed {
            self.messages += messages;
            self.bytes += bytes;
            self.rows.push(row());
            self.is_closed = self.messages >= self.rules.segment_messages || self.bytes >= SEGMENT_RAW_BYTES;
        }
        if age == Age::Old {
            self.old = self.rows.len();
        }
        !self.is_closed || self.old < self.rows.len()
    }

    /// Returns the old rows, and whether they make a full segment.
    pub fn finish(mut self) -> (Vec<T>, bool) {
        let is_full = self.is_closed && self.old == self.rows.len();
        self.rows.truncate(self.old);
        (self.rows, is_full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection() -> Selection<u64> {
        let settings = ArchiveSettings { segment_messages: 3, ..ArchiveSettings::default() };
        Selection::new(Rules::new(&settings, Timestamp::from_millis(1 << 40), false))
    }

    #[test]
    fn rows_of_unknown_age_stay_hot_unless_an_old_row_follows() {
        let mut waiting = selection();
        assert!(waiting.add(Age::Old, 1, 1, || 1));
        assert!(waiting.add(Age::Unknown, 1, 1, || 2));
        assert_eq!(waiting.finish(), (vec![1], false));

        let mut proven = selection();
        for (seq, age) in [(1, Age::Old), (2, Age::Unknown), (3, Age::Unknown)] {
            assert!(proven.add(age, 1, 1, || seq));
        }
        assert!(!proven.add(Age::Old, 1, 1, || 4), "the old row ends the search");
        assert_eq!(proven.finish(), (vec![1, 2, 3], true));
    }

    #[test]
    fn segment_ends_at_its_message_limit() {
        let mut full = selection();
        assert!(full.add(Age::Old, 2, 1, || 1));
        assert!(!full.add(Age::Old, 2, 1, || 2));
        assert_eq!(full.finish(), (vec![1, 2], true));
    }

    #[test]
    fn huge_duration_saturates_at_max_millis() {
        assert_eq!(millis(u64::MAX), MAX_MILLIS);
        assert_eq!(millis(90), 90_000);
    }
}
