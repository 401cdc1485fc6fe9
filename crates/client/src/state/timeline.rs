//! The loaded messages of one conversation: a contiguous run in seq order, each message once. It
//! makes no requests.

use std::collections::VecDeque;
use std::sync::Arc;

use bluetick_types::Seq;

use crate::wire::bodies::{Message, Page};

/// A contiguous run of messages, voids included.
#[derive(Default)]
pub struct Timeline {
    messages: VecDeque<Arc<Message>>,
    /// Whether a message or a page was added. If not, both ends are unknown.
    loaded: bool,
    /// Whether the run starts at the first visible message.
    reaches_start: bool,
    /// Whether the run ends at the head, so that the next message can be appended.
    reaches_head: bool,
    /// The highest seq received, even if the message was not added. A page fetched meanwhile may
    /// not include it.
    heard: Seq,
    /// Increases with every change, so that readers can detect one.
    pub revision: u64,
    /// Value of the state's use counter at the last use, for LRU eviction.
    pub touched: u64,
}

/// The range that a run of messages covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The first loaded seq; 0 if nothing is loaded.
    pub from_seq: Seq,
    /// The last loaded seq; 0 if nothing is loaded.
    pub to_seq: Seq,
    /// Whether the run starts at the first message that the user can see.
    pub reaches_start: bool,
    /// Whether the run ends at the head. If `false`, newer messages exist that are not loaded.
    pub reaches_head: bool,
}

/// The result of [`Timeline::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimelineUpdate {
    /// The message was appended.
    Appended,
    /// The message is already present, or does not continue this run.
    Passed,
}

impl Timeline {
    /// Rebuilds a run from stored messages in seq order. After a gap, drops everything below the
    /// gap.
    pub fn restored(messages: Vec<Message>, first_seq: Seq) -> Timeline {
        let mut timeline = Timeline::default();
        for message in messages {
            let message = Arc::new(message);
            if timeline.messages.back().is_some_and(|last| message.seq <= last.seq) {
                continue;
            }
            if timeline.messages.back().is_some_and(|last| message.seq != last.seq.next()) {
                timeline.messages.clear();
            }
            timeline.messages.push_back(message);
        }
        timeline.loaded = !timeline.messages.is_empty();
        timeline.reaches_head = timeline.loaded;
        timeline.reaches_start = timeline.messages.front().is_some_and(|first| first.seq <= first_seq);
        timeline
    }

    /// Drops all messages and returns to the unloaded state.
    pub fn begin_anew(&mut self) {
        let Timeline { revision, touched, heard, .. } = *self;
        *self = Timeline { revision: revision + 1, touched, heard, ..Timeline::default() };
    }

    pub fn is_loaded(&self) -> bool {
        self.loaded
    }

    pub fn window(&self) -> Window {
        Window {
            from_seq: self.messages.front().map_or(Seq::ZERO, |first| first.seq),
            to_seq: self.messages.back().map_or(Seq::ZERO, |last| last.seq),
            reaches_start: self.reaches_start,
            reaches_head: self.reaches_head,
        }
    }

    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> + ExactSizeIterator {
        self.messages.iter()
    }

    /// The messages in (after, up_to]. `None` unless all of them are loaded.
    pub fn between(&self, after: Seq, up_to: Seq) -> Option<impl Iterator<Item = &Arc<Message>>> {
        let first = self.messages.front()?.seq;
        if after.next() < first || up_to > self.messages.back()?.seq {
            return None;
        }
        let skip = usize::try_from(after.next().distance_from(first)).ok()?;
        let take = usize::try_from(up_to.distance_from(after)).ok()?;
        Some(self.messages.iter().skip(skip).take(take))
    }

    /// Appends a pushed or fetched message if it continues the run. An unloaded timeline starts
    /// with it.
    pub fn take(&mut self, message: &Arc<Message>, first_seq: Seq) -> TimelineUpdate {
        self.heard = self.heard.max(message.seq);
        match self.messages.back() {
            // The first message starts the run. Older messages can be fetched as a page.
            None if !self.loaded => {
                self.loaded = true;
                self.reaches_head = true;
                self.reaches_start = message.seq <= first_seq;
            }
            None if self.reaches_head && message.seq <= first_seq.max(Seq::FIRST) => {}
            Some(last) if self.reaches_head && message.seq == last.seq.next() => {}
            _ => return TimelineUpdate::Passed,
        }
        self.messages.push_back(Arc::clone(message));
        self.revision += 1;
        TimelineUpdate::Appended
    }

    /// Adds the newest page, newest first. Replaces the run if the page does not connect to it.
    pub fn add_newest(&mut self, page: Page) {
        let Page { mut messages, next_before_seq, .. } = page;
        messages.reverse();
        let (own, of_page) = (self.window(), (messages.first(), messages.last()));
        let joins = match of_page {
            (Some(first), Some(last)) => {
                self.reaches_head
                    && !self.messages.is_empty()
                    && first.seq <= own.to_seq.next()
                    && own.from_seq <= last.seq.next()
            }
            _ => false,
        };
        if !joins {
            self.messages.clear();
        }
        if !joins || of_page.0.is_some_and(|first| first.seq < own.from_seq) {
            self.reaches_start = next_before_seq.is_none();
        }
        let (older, rest): (Vec<Message>, Vec<Message>) =
            messages.into_iter().partition(|message| joins && message.seq < own.from_seq);
        let newer = rest.into_iter().filter(|message| !joins || message.seq > own.to_seq);
        self.messages.extend(newer.map(Arc::new));
        older.into_iter().rev().for_each(|message| self.messages.push_front(Arc::new(message)));
        self.loaded = true;
        self.reaches_head = self.messages.back().is_none_or(|last| last.seq >= self.heard);
        self.revision += 1;
    }

    /// Adds a page requested with `before_seq` of the first message, newest first. Skips messages
    /// that do not connect.
    pub fn add_older(&mut self, page: Page) {
        for message in page.messages {
            let fits = self.messages.front().is_some_and(|first| message.seq.next() == first.seq);
            if fits {
                self.messages.push_front(Arc::new(message));
            }
        }
        self.reaches_start = page.next_before_seq.is_none();
        self.revision += 1;
    }

    /// Adds a page requested with `after_seq` of the last message, oldest first. Skips messages
    /// that do not connect.
    pub fn add_newer(&mut self, page: Page) {
        for message in page.messages {
            let fits = self.messages.back().is_some_and(|last| message.seq == last.seq.next());
            if fits {
                self.messages.push_back(Arc::new(message));
            }
        }
        let last = self.messages.back().map_or(Seq::ZERO, |last| last.seq);
        self.reaches_head = page.next_after_seq.is_none() && last >= page.head_seq.max(self.heard);
        self.revision += 1;
    }

    /// Drops the oldest messages above `most`.
    pub fn drop_oldest(&mut self, most: usize) {
        let surplus = self.messages.len().saturating_sub(most);
        if surplus > 0 {
            self.messages.drain(..surplus);
            self.reaches_start = false;
            self.revision += 1;
        }
    }

    /// Drops the newest messages above `most`. `add_newer` loads them again.
    pub fn drop_newest(&mut self, most: usize) {
        if self.messages.len() > most {
            self.messages.truncate(most);
            self.reaches_head = false;
            self.revision += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::said;
    use super::*;

    fn page(seqs: std::ops::RangeInclusive<u64>, head: u64) -> Page {
        Page {
            next_before_seq: (*seqs.start() > 1).then(|| Seq::new(*seqs.start())),
            next_after_seq: (*seqs.end() < head).then(|| Seq::new(*seqs.end())),
            messages: seqs.rev().map(|seq| said(seq, "bob")).collect(),
            head_seq: Seq::new(head),
        }
    }

    fn seqs(timeline: &Timeline) -> Vec<u64> {
        timeline.messages().map(|message| message.seq.get()).collect()
    }

    fn newest(seqs: std::ops::RangeInclusive<u64>) -> Timeline {
        let mut timeline = Timeline::default();
        let head = *seqs.end();
        timeline.add_newest(page(seqs, head));
        timeline
    }

    fn take(timeline: &mut Timeline, seq: u64) -> TimelineUpdate {
        timeline.take(&Arc::new(said(seq, "bob")), Seq::FIRST)
    }

    #[test]
    fn timeline_appends_only_the_next_seq_once() {
        let mut timeline = newest(5..=7);
        assert_eq!(take(&mut timeline, 9), TimelineUpdate::Passed);
        assert_eq!(take(&mut timeline, 8), TimelineUpdate::Appended);
        assert_eq!(take(&mut timeline, 8), TimelineUpdate::Passed);
        assert_eq!(take(&mut timeline, 6), TimelineUpdate::Passed);
        assert_eq!(seqs(&timeline), [5, 6, 7, 8]);
    }

    #[test]
    fn newest_page_joins_or_replaces_the_timeline() {
        let mut timeline = newest(5..=7);
        timeline.add_newest(page(7..=9, 9));
        assert_eq!(seqs(&timeline), [5, 6, 7, 8, 9]);
        timeline.add_newest(page(20..=22, 22));
        assert_eq!(seqs(&timeline), [20, 21, 22]);
    }

    #[test]
    fn messages_pushed_before_the_first_page_stay() {
        let mut timeline = Timeline::default();
        take(&mut timeline, 8);
        take(&mut timeline, 9);
        timeline.add_newest(page(3..=7, 7));
        assert_eq!(seqs(&timeline), [3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn older_pages_are_prepended_until_the_start() {
        let mut timeline = newest(5..=7);
        timeline.add_older(page(2..=4, 7));
        assert!(!timeline.window().reaches_start);
        timeline.add_older(page(1..=1, 7));
        assert_eq!((seqs(&timeline), timeline.window().reaches_start), (vec![1, 2, 3, 4, 5, 6, 7], true));
    }

    #[test]
    fn timeline_cut_at_its_newest_end_rejects_new_messages_until_joined() {
        let mut timeline = newest(1..=9);
        timeline.drop_newest(4);
        assert_eq!(take(&mut timeline, 10), TimelineUpdate::Passed);
        assert_eq!(
            take(&mut timeline, 5),
            TimelineUpdate::Passed,
            "a late message does not show that none follows"
        );
        let mut newer = page(5..=10, 10);
        newer.messages.reverse();
        timeline.add_newer(newer);
        assert_eq!(take(&mut timeline, 11), TimelineUpdate::Appended);
        assert_eq!(timeline.window().to_seq, Seq::new(11));
    }

    #[test]
    fn messages_skipped_during_a_page_request_are_fetched_later() {
        let mut timeline = newest(1..=9);
        timeline.drop_newest(4);
        let mut newer = page(5..=9, 9);
        newer.messages.reverse();
        assert_eq!(take(&mut timeline, 10), TimelineUpdate::Passed);
        timeline.add_newer(newer);
        assert!(!timeline.window().reaches_head, "message 10 was received and is not in the timeline");
        timeline.add_newer(page(10..=10, 10));
        assert_eq!((seqs(&timeline).len(), timeline.window().reaches_head), (10, true));
    }

    #[test]
    fn range_is_reported_only_when_complete() {
        let timeline = newest(5..=9);
        let between = |after, up_to| {
            let found = timeline.between(Seq::new(after), Seq::new(up_to))?;
            Some(found.map(|message| message.seq.get()).collect::<Vec<_>>())
        };
        assert_eq!(between(4, 6), Some(vec![5, 6]));
        assert_eq!(between(8, 9), Some(vec![9]));
        assert_eq!((between(3, 6), between(6, 10)), (None, None));
    }

    #[test]
    fn stored_timeline_with_a_gap_restores_its_newest_part() {
        let kept = [2, 3, 5, 6].map(|seq| said(seq, "bob")).to_vec();
        assert_eq!(seqs(&Timeline::restored(kept, Seq::FIRST)), [5, 6]);
    }
}
