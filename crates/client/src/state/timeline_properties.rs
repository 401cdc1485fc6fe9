//! Property test of `Timeline`: in any order of pushes, pages and evictions, the run has no gap and
//! no duplicate, and its two end flags are correct.

use std::sync::Arc;

use bluetick_types::Seq;
use proptest::prelude::*;

use super::test_support::said;
use super::timeline::Timeline;
use crate::wire::bodies::Page;

/// An event that affects the timeline of a connected device.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Other users write this many messages; their pushes are in flight.
    Write(u64),
    /// The next push arrives, if one is in flight.
    Hear,
    /// The client requests a page. The server reads at once; the answer arrives later.
    Ask(Which),
    /// The answer arrives, if one is in flight.
    Answer,
    DropOldest(usize),
    DropNewest(usize),
}

#[derive(Clone, Copy, Debug)]
enum Which {
    Newest,
    Older,
    Newer,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let which = prop_oneof![Just(Which::Newest), Just(Which::Older), Just(Which::Newer)];
    let step = prop_oneof![
        3 => (1..4u64).prop_map(Step::Write),
        6 => Just(Step::Hear),
        3 => which.prop_map(Step::Ask),
        3 => Just(Step::Answer),
        1 => (0..20usize).prop_map(Step::DropOldest),
        1 => (0..20usize).prop_map(Step::DropNewest),
    ];
    prop::collection::vec(step, 1..80)
}

struct World {
    head: u64,
    /// The highest seq pushed to the device.
    heard: u64,
    page_messages: u64,
    /// An answer in flight, with the end of the run that it was requested for.
    answer: Option<(Which, Seq, Page)>,
    timeline: Timeline,
}

impl World {
    fn page(&self, first: u64, last: u64, newest_first: bool) -> Page {
        let mut messages: Vec<_> = (first..=last).map(|seq| said(seq, "bob")).collect();
        if newest_first {
            messages.reverse();
        }
        Page {
            messages,
            next_before_seq: (first > 1).then(|| Seq::new(first)),
            next_after_seq: (last < self.head).then(|| Seq::new(last)),
            head_seq: Seq::new(self.head),
        }
    }

    fn ask(&mut self, which: Which) {
        let (window, many) = (self.timeline.window(), self.page_messages);
        let is_empty = self.timeline.messages().len() == 0;
        let (edge, page) = match which {
            Which::Newest => {
                (Seq::ZERO, self.page(self.head.saturating_sub(many - 1).max(1), self.head, true))
            }
            // A client pages only from a loaded message.
            Which::Older | Which::Newer if is_empty => return,
            Which::Older => {
                let last = window.from_seq.get() - 1;
                (window.from_seq, self.page(last.saturating_sub(many - 1).max(1), last, true))
            }
            Which::Newer => {
                let first = window.to_seq.get() + 1;
                (window.to_seq, self.page(first, (first + many - 1).min(self.head), false))
            }
        };
        self.answer = Some((which, edge, page));
    }

    fn take_answer(&mut self) {
        let Some((which, edge, page)) = self.answer.take() else { return };
        let window = self.timeline.window();
        match which {
            Which::Newest => self.timeline.add_newest(page),
            // Drop an answer whose end of the run has changed meanwhile.
            Which::Older if window.from_seq == edge => self.timeline.add_older(page),
            Which::Newer if window.to_seq == edge => self.timeline.add_newer(page),
            Which::Older | Which::Newer => {}
        }
    }

    fn hear(&mut self) {
        if self.heard < self.head {
            self.heard += 1;
            self.timeline.take(&Arc::new(said(self.heard, "bob")), Seq::FIRST);
        }
    }

    fn seqs(&self) -> Vec<u64> {
        self.timeline.messages().map(|message| message.seq.get()).collect()
    }

    fn check(&self) {
        let seqs = self.seqs();
        assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "a gap or a duplicate in {seqs:?}");
        for message in self.timeline.messages() {
            assert_eq!(**message, said(message.seq.get(), "bob"));
        }
        let window = self.timeline.window();
        if let (Some(first), Some(last)) = (seqs.first(), seqs.last()) {
            assert!(!window.reaches_start || *first == 1, "it begins with {first}, which is not the start");
            // A message that is neither loaded nor in flight would never arrive.
            assert!(
                !window.reaches_head || *last >= self.heard,
                "the timeline ends with {last}, but {} messages were received",
                self.heard
            );
        }
    }
}

proptest! {
    #[test]
    fn timeline_stays_contiguous_and_can_be_completed(
        steps in steps(), head in 0..30u64, unheard in 0..5u64, page_messages in 1..8u64,
    ) {
        let heard = head.saturating_sub(unheard);
        let mut world = World { head, heard, page_messages, answer: None, timeline: Timeline::default() };
        for step in steps {
            match step {
                Step::Write(count) => world.head += count,
                Step::Hear => world.hear(),
                Step::Ask(which) if world.answer.is_none() && world.head > 0 => world.ask(which),
                Step::Ask(_) => {}
                Step::Answer => world.take_answer(),
                Step::DropOldest(most) => world.timeline.drop_oldest(most),
                Step::DropNewest(most) => world.timeline.drop_newest(most),
            }
            world.check();
        }
        // Finally, deliver everything and page until all messages are loaded.
        world.take_answer();
        while world.heard < world.head {
            world.hear();
            world.check();
        }
        if world.head > 0 && world.timeline.messages().len() == 0 {
            world.ask(Which::Newest);
            world.take_answer();
        }
        for which in [Which::Newer, Which::Older] {
            // Each page adds at least one message.
            for _ in 0..=world.head {
                let window = world.timeline.window();
                let is_there = match which {
                    Which::Newer => window.reaches_head,
                    _ => window.reaches_start,
                };
                if is_there || world.head == 0 {
                    break;
                }
                world.ask(which);
                world.take_answer();
                world.check();
            }
        }
        prop_assert_eq!(world.seqs(), (1..=world.head).collect::<Vec<_>>());
    }
}
