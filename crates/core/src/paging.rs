//! Cuts history into pages that prove their own completeness.
//!
//! Seqs are contiguous, so a page is a range of seqs. The request, the reader's first visible seq
//! and the head determine that range. An adapter calls [`PageRequest::window`] for the range to
//! read, then [`Page::new`] with the messages, which rejects a page with a gap.

use std::ops::RangeInclusive;

use crate::{ConversationId, Message, Seq, UserId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFrom {
    /// Newest first, starting at the head.
    Newest,
    /// Newest first, starting just below this seq.
    Before(Seq),
    /// Oldest first, starting just above this seq.
    After(Seq),
}

/// The maximum number of entries on a page, from 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimit(u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limit must be between 1 and 100")]
pub struct InvalidLimit;

impl PageLimit {
    /// The limit of a request without one, in entries. The API documents it, so a change alters the
    /// pages of such clients.
    pub const DEFAULT: PageLimit = PageLimit(20);
    /// The highest limit, in entries. It bounds the work of one request.
    pub const MAX: PageLimit = PageLimit(100);

    pub const fn get(self) -> u64 {
        self.0 as u64
    }

    pub const fn count(self) -> usize {
        self.0 as usize
    }
}

impl TryFrom<i64> for PageLimit {
    type Error = InvalidLimit;

    fn try_from(limit: i64) -> Result<PageLimit, InvalidLimit> {
        match u8::try_from(limit) {
            Ok(limit @ 1..=100) => Ok(PageLimit(limit)),
            _ => Err(InvalidLimit),
        }
    }
}

/// A request for a page of a conversation, limited to what `reader` may see.
#[derive(Clone, Debug)]
pub struct PageRequest {
    pub conversation: ConversationId,
    pub reader: UserId,
    pub from: PageFrom,
    pub limit: PageLimit,
}

impl PageRequest {
    /// Returns the seqs on this page, or an empty range when there are none.
    pub fn window(&self, first_visible: Seq, head: Seq) -> RangeInclusive<Seq> {
        let span = self.limit.get() - 1;
        match self.from {
            PageFrom::Newest => head.minus(span).max(first_visible)..=head,
            PageFrom::Before(before) => {
                let last = before.previous().min(head);
                last.minus(span).max(first_visible)..=last
            }
            PageFrom::After(after) => {
                let first = after.next().max(first_visible);
                first..=first.plus(span).min(head)
            }
        }
    }

    fn newest_first(&self) -> bool {
        !matches!(self.from, PageFrom::After(_))
    }
}

/// A page of messages with contiguous seqs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Newest first; oldest first for [`PageFrom::After`].
    pub messages: Vec<Message>,
    /// The cursor for the next older page ([`PageFrom::Before`]), or `None` if there is none.
    pub next_before: Option<Seq>,
    /// The cursor for the next newer page ([`PageFrom::After`]), or `None` if there is none.
    pub next_after: Option<Seq>,
    pub head: Seq,
}

/// A gap: the store has no message at this seq, although the page covers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no message where seq {0} should be")]
pub struct Gap(pub Seq);

impl Page {
    /// Builds a page. `oldest_first` must contain each seq of the request's window exactly once, in
    /// ascending order.
    ///
    /// Returns a [`Gap`] with the first missing seq otherwise.
    pub fn new(
        request: &PageRequest,
        first_visible: Seq,
        head: Seq,
        oldest_first: Vec<Message>,
    ) -> Result<Page, Gap> {
        let window = request.window(first_visible, head);
        let mut expected = *window.start();
        for message in &oldest_first {
            if message.seq != expected {
                return Err(Gap(expected));
            }
            expected = expected.next();
        }
        if expected <= *window.end() {
            return Err(Gap(expected));
        }
        let next_before = (*window.start() > first_visible && first_visible <= head)
            .then(|| (*window.start()).min(head.next()));
        let next_after = (*window.end() < head).then(|| (*window.end()).max(first_visible.previous()));
        let mut messages = oldest_first;
        if request.newest_first() {
            messages.reverse();
        }
        Ok(Page { messages, next_before, next_after, head })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ContentType, MessageId, Timestamp};

    fn request(from: PageFrom, limit: i64) -> PageRequest {
        PageRequest {
            conversation: ConversationId::group([7; 15]),
            reader: "alice".parse().unwrap(),
            from,
            limit: limit.try_into().unwrap(),
        }
    }

    fn message(seq: Seq) -> Message {
        Message {
            conversation: ConversationId::group([7; 15]),
            seq,
            message_id: MessageId::of_notice(seq),
            sender: "bob".parse().unwrap(),
            receiver: None,
            content_type: ContentType::Text,
            content: "hi".into(),
            timestamp: Timestamp::default(),
            received_at: Timestamp::default(),
        }
    }

    fn page(from: PageFrom, limit: i64, first_visible: u64, head: u64) -> Page {
        let (first_visible, head) = (Seq::new(first_visible), Seq::new(head));
        let request = request(from, limit);
        let window = request.window(first_visible, head);
        let stored = (window.start().get()..=window.end().get()).map(|seq| message(Seq::new(seq))).collect();
        Page::new(&request, first_visible, head, stored).unwrap()
    }

    fn seqs(page: &Page) -> Vec<u64> {
        page.messages.iter().map(|message| message.seq.get()).collect()
    }

    #[test]
    fn newest_page_of_20_in_500_messages_is_481_to_500_with_cursor_481() {
        let page = page(PageFrom::Newest, 20, 1, 500);
        assert_eq!(seqs(&page), (481..=500).rev().collect::<Vec<_>>());
        assert_eq!((page.next_before, page.next_after), (Some(Seq::new(481)), None));
    }

    #[test]
    fn empty_conversation_has_one_empty_page_in_every_direction() {
        for from in [PageFrom::Newest, PageFrom::Before(Seq::new(9)), PageFrom::After(Seq::ZERO)] {
            let page = page(from, 20, 1, 0);
            assert_eq!(seqs(&page), Vec::<u64>::new());
            assert_eq!((page.next_before, page.next_after, page.head), (None, None, Seq::ZERO));
        }
    }

    #[test]
    fn page_below_the_first_message_is_empty_and_has_a_newer_cursor() {
        let page = page(PageFrom::Before(Seq::FIRST), 20, 1, 5);
        assert_eq!(seqs(&page), Vec::<u64>::new());
        assert_eq!((page.next_before, page.next_after), (None, Some(Seq::ZERO)));
    }

    #[test]
    fn page_above_the_head_is_empty_and_has_an_older_cursor() {
        let page = page(PageFrom::After(Seq::new(5)), 20, 1, 5);
        assert_eq!((page.next_before, page.next_after), (Some(Seq::new(6)), None));
        let page = self::page(PageFrom::After(Seq::new(99)), 20, 1, 5);
        assert_eq!((seqs(&page), page.next_before), (vec![], Some(Seq::new(6))));
    }

    #[test]
    fn late_member_sees_no_message_from_before_joining() {
        let page = page(PageFrom::Newest, 20, 8, 10);
        assert_eq!(seqs(&page), [10, 9, 8]);
        assert_eq!(page.next_before, None);
        let page = self::page(PageFrom::After(Seq::ZERO), 2, 8, 10);
        assert_eq!(seqs(&page), [8, 9]);
        assert_eq!((page.next_before, page.next_after), (None, Some(Seq::new(9))));
    }

    #[test]
    fn gap_in_a_page_is_an_error() {
        let request = request(PageFrom::Newest, 3);
        let stored = vec![message(Seq::new(3)), message(Seq::new(5))];
        assert_eq!(Page::new(&request, Seq::FIRST, Seq::new(5), stored), Err(Gap(Seq::new(4))));
        let stored = vec![message(Seq::new(3)), message(Seq::new(4))];
        assert_eq!(Page::new(&request, Seq::FIRST, Seq::new(5), stored), Err(Gap(Seq::new(5))));
    }

    proptest! {
        #[test]
        fn paging_in_either_direction_returns_every_visible_message_once(
            head in 0u64..300, first_visible in 1u64..300, limit in 1i64..=100,
        ) {
            let everything: Vec<u64> = (first_visible..=head).collect();

            let mut upward = Vec::new();
            let mut cursor = Some(Seq::ZERO);
            while let Some(after) = cursor {
                let page = page(PageFrom::After(after), limit, first_visible, head);
                upward.extend(seqs(&page));
                cursor = page.next_after;
            }
            prop_assert_eq!(&upward, &everything);

            let mut downward = Vec::new();
            let mut from = PageFrom::Newest;
            loop {
                let page = page(from, limit, first_visible, head);
                downward.extend(seqs(&page));
                match page.next_before {
                    Some(before) => from = PageFrom::Before(before),
                    None => break,
                }
            }
            downward.reverse();
            prop_assert_eq!(&downward, &everything);
        }
    }
}
