//! Properties of paging, receipts and ticks for any history and any order of events, tested through
//! the public API.

use bluetick_core::{
    ContentType, ConversationId, MemberState, Message, MessageId, Page, PageFrom, PageLimit, PageRequest,
    ReadState, ReceiptKind, Seq, Timestamp, UserId, tick_state,
};
use proptest::prelude::*;

fn user(name: &str) -> UserId {
    name.parse().expect("a good name")
}

fn message(seq: Seq) -> Message {
    Message {
        conversation: ConversationId::group([1; 15]),
        seq,
        message_id: MessageId::from_stored(&seq.to_string()),
        sender: user("alice"),
        receiver: None,
        content_type: ContentType::Text,
        content: "hey".into(),
        timestamp: Timestamp::from_millis(0),
        received_at: Timestamp::from_millis(0),
    }
}

/// Builds the page that a store returns when its newest message is at `head`.
fn page(from: PageFrom, limit: i64, first_visible: u64, head: u64) -> Page {
    let limit = PageLimit::try_from(limit).expect("within bounds");
    let request =
        PageRequest { conversation: ConversationId::group([1; 15]), reader: user("alice"), from, limit };
    let (first_visible, head) = (Seq::new(first_visible), Seq::new(head));
    let window = request.window(first_visible, head);
    let there = (window.start().get()..=window.end().get()).map(Seq::new).map(message).collect();
    Page::new(&request, first_visible, head, there).expect("the window has a message for every seq")
}

fn seqs(page: &Page) -> Vec<u64> {
    page.messages.iter().map(|message| message.seq.get()).collect()
}

proptest! {
    #[test]
    fn pages_around_any_cursor_cover_the_history_without_overlap(
        head in 0u64..400,
        first_visible in 1u64..200,
        cut in 1u64..420,
        limits in prop::collection::vec(1i64..=100, 1..8),
    ) {
        let mut limits = limits.into_iter().cycle();
        let mut limit = || limits.next().expect("a cycle never ends");
        let mut met = Vec::new();
        let mut below = Some(Seq::new(cut));
        while let Some(before) = below {
            let page = page(PageFrom::Before(before), limit(), first_visible, head);
            met.extend(seqs(&page));
            // From a seq above the head, the first step leads to the head. Every other step leads
            // downward.
            prop_assert!(page.next_before.is_none_or(|next| next < before));
            below = page.next_before;
        }
        met.reverse();
        let mut above = Some(Seq::new(cut - 1));
        while let Some(after) = above {
            let page = page(PageFrom::After(after), limit(), first_visible, head);
            met.extend(seqs(&page));
            prop_assert!(page.next_after.is_none_or(|next| next > after));
            above = page.next_after;
        }
        prop_assert_eq!(met, (first_visible..=head).collect::<Vec<_>>());
    }

    #[test]
    fn paging_during_writes_returns_every_message_once(
        first_visible in 1u64..50,
        written in prop::collection::vec(0u64..40, 1..30),
        limit in 1i64..=50,
    ) {
        // The number of messages stored between two pages.
        let mut written = written.into_iter();
        let mut head = written.next().unwrap_or_default();
        let begun_at = head;
        let (mut from, mut met) = (PageFrom::Newest, Vec::new());
        loop {
            let page = page(from, limit, first_visible, head);
            met.extend(seqs(&page));
            head += written.next().unwrap_or_default();
            match page.next_before {
                Some(before) => from = PageFrom::Before(before),
                None => break,
            }
        }
        met.reverse();
        prop_assert_eq!(&met, &(first_visible..=begun_at).collect::<Vec<_>>());
        // Then page upward, while further messages are stored.
        let mut after = Some(Seq::new(begun_at));
        while let Some(cursor) = after {
            let page = page(PageFrom::After(cursor), limit, first_visible, head);
            met.extend(seqs(&page));
            after = page.next_after;
        }
        prop_assert_eq!(met, (first_visible..=head).collect::<Vec<_>>());
    }
}

/// An event in a group.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A receipt of a member's device. Receipts may repeat or arrive late.
    Receipt {
        member: usize,
        read: bool,
        seq: u64,
    },
    /// A message of a member.
    Write {
        member: usize,
    },
    Hide {
        member: usize,
        hides: bool,
    },
    /// A client receives an earlier read state of a member again.
    HearAgain {
        member: usize,
        moment: prop::sample::Index,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let member = 0..4usize;
    let step = prop_oneof![
        6 => (member.clone(), any::<bool>(), 0..60u64)
            .prop_map(|(member, read, seq)| Step::Receipt { member, read, seq }),
        3 => member.clone().prop_map(|member| Step::Write { member }),
        1 => (member.clone(), any::<bool>()).prop_map(|(member, hides)| Step::Hide { member, hides }),
        2 => (member, any::<prop::sample::Index>())
            .prop_map(|(member, moment)| Step::HearAgain { member, moment }),
    ];
    prop::collection::vec(step, 1..80)
}

/// The lowest read state of all other members, as their own states show it.
fn furthest_behind(receivers: &[MemberState]) -> ReadState {
    let shown = || receivers.iter().map(|member_state| member_state.shown_since(Seq::FIRST));
    ReadState {
        delivered: shown().map(|shown| shown.delivered).min().unwrap_or_default(),
        read: shown().map(|shown| shown.read).min().unwrap_or_default(),
    }
}

proptest! {
    #[test]
    fn ticks_never_move_backward_for_any_order_of_events(steps in steps()) {
        let mut head = Seq::new(20);
        // The first member is the sender, whose ticks are checked.
        let mut member_states = [MemberState::default(); 4];
        let mut history = vec![member_states];
        for step in steps {
            let before = member_states;
            match step {
                Step::Receipt { member, read, seq } => {
                    let kind = if read { ReceiptKind::Read } else { ReceiptKind::Delivered };
                    member_states[member].apply_receipt(kind, Seq::new(seq), head);
                }
                Step::Write { member } => {
                    head = head.next();
                    member_states[member].reply(head);
                }
                Step::Hide { member, hides } => member_states[member].preferences.hides_reads = hides,
                Step::HearAgain { member, moment } => {
                    let old = moment.get(&history)[member];
                    prop_assert!(!member_states[member].advance(&old), "old news moved something");
                }
            }
            for (now, then) in member_states.iter().zip(&before) {
                prop_assert!(now.read <= now.delivered && now.delivered <= head);
                prop_assert!(now.read >= then.read && now.delivered >= then.delivered);
                prop_assert!(now.shown_read >= then.shown_read && now.shown_read <= now.read);
            }
            let (then, now) = (furthest_behind(&before[1..]), furthest_behind(&member_states[1..]));
            for seq in (1..=head.get()).map(Seq::new) {
                prop_assert!(tick_state(seq, now) >= tick_state(seq, then), "the tick of {} went back", seq);
            }
            history.push(member_states);
        }
    }
}
