//! The messages of one conversation that are here: each once, in the order of seq, without a hole. It fetches nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use bluetick_core::Seq;

use crate::wire::bodies::{Message, Page};

/// A contiguous run of messages.
#[derive(Default)]
pub struct Timeline {
    messages: VecDeque<Arc<Message>>,
    /// Something is known about where the run begins and ends.
    loaded: bool,
    reaches_start: bool,
    /// Whatever comes in belongs behind the last one here.
    reaches_head: bool,
    /// The newest message that came in, be it passed over: a page that was on its way meanwhile may not know of it.
    heard: Seq,
    /// Moves on with every change, so that a reader can see that there was one.
    pub revision: u64,
    /// When somebody last looked at it, by the count of all looks.
    pub touched: u64,
}

/// Where a run begins and ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The first seq that is here; 0 when there is none.
    pub from_seq: Seq,
    pub to_seq: Seq,
    pub reaches_start: bool,
    pub reaches_head: bool,
}

/// What became of a message that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is now the last one here.
    Appended,
    /// It is here already, or not part of this run.
    Passed,
}

impl Timeline {
    /// A run that was kept from an earlier life. Only its newest part without a hole is taken.
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

    /// Lets go of everything, as if nothing had been looked for.
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

    /// Exactly those in (after, up_to]; `None` unless all of them are here.
    pub fn between(&self, after: Seq, up_to: Seq) -> Option<impl Iterator<Item = &Arc<Message>>> {
        let first = self.messages.front()?.seq;
        if after.next() < first || up_to > self.messages.back()?.seq {
            return None;
        }
        let skip = usize::try_from(after.next().distance_from(first)).ok()?;
        let take = usize::try_from(up_to.distance_from(after)).ok()?;
        Some(self.messages.iter().skip(skip).take(take))
    }

    /// A message that was pushed or fetched in order.
    pub fn take(&mut self, message: &Arc<Message>, first_seq: Seq) -> Taken {
        self.heard = self.heard.max(message.seq);
        match self.messages.back() {
            // The run begins with what is first heard of; what lies before is a page away.
            None if !self.loaded => {
                self.loaded = true;
                self.reaches_head = true;
                self.reaches_start = message.seq <= first_seq;
            }
            None if self.reaches_head && message.seq <= first_seq.max(Seq::FIRST) => {}
            Some(last) if self.reaches_head && message.seq == last.seq.next() => {}
            _ => return Taken::Passed,
        }
        self.messages.push_back(Arc::clone(message));
        self.revision += 1;
        Taken::Appended
    }

    /// Joins the newest page to what is here, or starts over with it where it does not reach back that far.
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

    /// The page that was asked for with `before_seq` of the first one here.
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

    /// The page that was asked for with `after_seq` of the last one here.
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

    /// Lets go of the oldest ones above so many.
    pub fn drop_oldest(&mut self, most: usize) {
        let surplus = self.messages.len().saturating_sub(most);
        if surplus > 0 {
            self.messages.drain(..surplus);
            self.reaches_start = false;
            self.revision += 1;
        }
    }

    /// Lets go of the newest ones above so many; they come back with `add_newer`.
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

    fn take(timeline: &mut Timeline, seq: u64) -> Taken {
        timeline.take(&Arc::new(said(seq, "bob")), Seq::FIRST)
    }

    #[test]
    fn only_the_next_message_is_appended_and_only_once() {
        let mut timeline = newest(5..=7);
        assert_eq!(take(&mut timeline, 9), Taken::Passed);
        assert_eq!(take(&mut timeline, 8), Taken::Appended);
        assert_eq!(take(&mut timeline, 8), Taken::Passed);
        assert_eq!(take(&mut timeline, 6), Taken::Passed);
        assert_eq!(seqs(&timeline), [5, 6, 7, 8]);
    }

    #[test]
    fn a_newest_page_joins_what_is_here_or_replaces_it() {
        let mut timeline = newest(5..=7);
        timeline.add_newest(page(7..=9, 9));
        assert_eq!(seqs(&timeline), [5, 6, 7, 8, 9]);
        timeline.add_newest(page(20..=22, 22));
        assert_eq!(seqs(&timeline), [20, 21, 22]);
    }

    #[test]
    fn what_was_pushed_while_the_first_page_was_on_its_way_stays() {
        let mut timeline = Timeline::default();
        take(&mut timeline, 8);
        take(&mut timeline, 9);
        timeline.add_newest(page(3..=7, 7));
        assert_eq!(seqs(&timeline), [3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn older_pages_go_in_front_until_the_start() {
        let mut timeline = newest(5..=7);
        timeline.add_older(page(2..=4, 7));
        assert!(!timeline.window().reaches_start);
        timeline.add_older(page(1..=1, 7));
        assert_eq!((seqs(&timeline), timeline.window().reaches_start), (vec![1, 2, 3, 4, 5, 6, 7], true));
    }

    #[test]
    fn a_run_cut_at_its_newest_end_takes_no_new_message_until_it_is_joined_again() {
        let mut timeline = newest(1..=9);
        timeline.drop_newest(4);
        assert_eq!(take(&mut timeline, 10), Taken::Passed);
        assert_eq!(take(&mut timeline, 5), Taken::Passed, "a late one is no proof that nothing follows");
        let mut newer = page(5..=10, 10);
        newer.messages.reverse();
        timeline.add_newer(newer);
        assert_eq!(take(&mut timeline, 11), Taken::Appended);
        assert_eq!(timeline.window().to_seq, Seq::new(11));
    }

    #[test]
    fn what_was_passed_over_while_a_page_was_on_its_way_is_still_to_be_fetched() {
        let mut timeline = newest(1..=9);
        timeline.drop_newest(4);
        let mut newer = page(5..=9, 9);
        newer.messages.reverse();
        assert_eq!(take(&mut timeline, 10), Taken::Passed);
        timeline.add_newer(newer);
        assert!(!timeline.window().reaches_head, "10 was heard of and is not here");
        timeline.add_newer(page(10..=10, 10));
        assert_eq!((seqs(&timeline).len(), timeline.window().reaches_head), (10, true));
    }

    #[test]
    fn a_range_is_told_only_when_all_of_it_is_here() {
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
    fn of_a_run_with_a_hole_the_newest_part_is_restored() {
        let kept = [2, 3, 5, 6].map(|seq| said(seq, "bob")).to_vec();
        assert_eq!(seqs(&Timeline::restored(kept, Seq::FIRST)), [5, 6]);
    }
}
