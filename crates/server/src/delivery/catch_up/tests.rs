//! Tests the transition from backlog to live under different orders of events.

use bluetick_core::ports::Appended;
use bluetick_core::{ContentType, Message, Timestamp};
use bluetick_wire::frame::{encode_ack, encode_message};
use prometheus_client::metrics::gauge::Gauge;

use super::*;

fn chat() -> ConversationId {
    ConversationId::group([1; 15])
}

fn me() -> UserId {
    "me".parse().unwrap()
}

fn message(seq: u64, mine: bool) -> Message {
    Message {
        conversation: chat(),
        seq: Seq::new(seq),
        message_id: format!("m{seq}").parse().unwrap(),
        sender: if mine { me() } else { "other".parse().unwrap() },
        receiver: None,
        content_type: ContentType::Text,
        content: "x".into(),
        timestamp: Timestamp::default(),
        received_at: Timestamp::default(),
    }
}

fn ack(seq: u64, duplicate: bool) -> EncodedFrame {
    let appended = Appended { seq: Seq::new(seq), received_at: Timestamp::default(), duplicate };
    EncodedFrame::from(encode_ack(chat(), &message(seq, true).message_id, &appended))
}

fn page(after: Seq, head: u64, limit: u64, mine: impl Fn(u64) -> bool) -> Page {
    let last = head.min(after.get() + limit);
    let messages = (after.get() + 1..=last).map(|seq| message(seq, mine(seq))).collect();
    Page { messages, next_before: None, next_after: None, head: Seq::new(head) }
}

fn after(after: u64, head: u64) -> Behind {
    Behind { conversation: chat(), after: Seq::new(after), head: Seq::new(head), unacknowledged: false }
}

/// A session and the frames it was sent.
struct BacklogDevice {
    outbox: ConnectionOutbox,
    catch_up: CatchUp,
}

impl BacklogDevice {
    fn new() -> BacklogDevice {
        BacklogDevice { outbox: ConnectionOutbox::new(1 << 20, Gauge::default()), catch_up: CatchUp::new() }
    }

    /// The fan-out delivers a message.
    fn fan_out(&self, seq: u64, mine: bool) {
        let unstored = mine.then(|| UnstoredFrame::Ack(ack(seq, false)));
        let is_active = self.catch_up.is_active();
        if !is_active || self.catch_up.admit_live(chat(), Seq::new(seq), unstored.as_ref()) {
            let frame = unstored.map(UnstoredFrame::into_frame);
            self.outbox
                .push(frame.unwrap_or_else(|| EncodedFrame::from(encode_message(&message(seq, mine)))));
        }
    }

    /// The fan-out delivers the notice that the user has left.
    fn fan_out_leave(&self, seq: u64) {
        let notice = EncodedFrame::from(encode_message(&message(seq, false)));
        let unstored = UnstoredFrame::LeaveNotice(notice.clone());
        if !self.catch_up.is_active() || self.catch_up.admit_live(chat(), Seq::new(seq), Some(&unstored)) {
            self.outbox.push(notice);
        }
    }

    fn push_page(&self, page: &Page, pending_sends: &[MessageId], most: usize) -> PageOutcome {
        self.catch_up.push_page(&self.outbox, chat(), &me(), page, pending_sends, most)
    }

    fn begin(&self, after: &[Behind], positions: &[Position]) -> Vec<BacklogRange> {
        let missed = Missed { behind: after.to_vec(), gone: Vec::new() };
        self.catch_up.begin(&self.outbox, &missed, positions)
    }

    fn finish(&self) {
        self.catch_up.finish(&self.outbox);
    }

    /// The received frames in short form: `a5` for an ack, `m5` for a message, `d5` for the ack of
    /// a duplicate, `b5-9` for a backlog frame, `gone` for a group the user is not in, `.` for
    /// `caught_up`.
    fn received(&self) -> Vec<String> {
        let frames = self.outbox.taken();
        frames.iter().map(|frame| short(frame.text())).collect()
    }
}

fn short(frame: &str) -> String {
    let frame: serde_json::Value = serde_json::from_str(frame).unwrap();
    match frame["type"].as_str().unwrap() {
        "message" => format!("m{}", frame["seq"]),
        "ack" if frame["duplicate"] == true => format!("d{}", frame["seq"]),
        "ack" => format!("a{}", frame["seq"]),
        "backlog" => format!("b{}-{}", frame["next_after_seq"], frame["head_seq"]),
        "gone" => "gone".into(),
        _ => ".".into(),
    }
}

#[test]
fn live_messages_wait_for_the_backlog_and_own_acks_keep_seq_order() {
    let device = BacklogDevice::new();
    assert_eq!(device.begin(&[after(1, 3)], &[]).len(), 1);
    device.fan_out(4, true);
    device.fan_out(5, false);
    assert_eq!(device.received(), [""; 0]);
    let outcome = device.push_page(&page(Seq::new(1), 5, 100, |seq| seq == 4), &[], 100);
    assert_eq!((outcome.pushed, outcome.next_step), (4, NextStep::Live));
    device.fan_out(6, false);
    device.finish();
    device.fan_out(7, true);
    assert_eq!(device.received(), ["m2", "m3", "a4", "m5", "m6", ".", "a7"]);
}

#[test]
fn conversations_without_backlog_go_live_when_backlogs_are_known() {
    let device = BacklogDevice::new();
    let elsewhere = ConversationId::group([2; 15]);
    assert!(!device.catch_up.admit_live(elsewhere, Seq::new(9), None));
    let missing = device.begin(&[after(1, 3)], &[]);
    // A message that arrived earlier becomes a backlog that starts directly below it.
    let reported = BacklogRange { conversation: elsewhere, after: Seq::new(8), head: Seq::new(9) };
    assert_eq!(missing[1], reported);
    assert!(device.catch_up.admit_live(ConversationId::group([3; 15]), Seq::new(5), None));
}

#[test]
fn late_fan_out_is_skipped_up_to_the_claimed_position() {
    let device = BacklogDevice::new();
    device.fan_out(5, false);
    device.fan_out(6, false);
    let position = Position { conversation: chat(), seq: Seq::new(5) };
    let missing = device.begin(&[], &[position]);
    assert_eq!(missing, [BacklogRange { conversation: chat(), after: Seq::new(5), head: Seq::new(6) }]);
    // A claimed position above the head does not suppress new messages.
    let device = BacklogDevice::new();
    device.fan_out(5, false);
    let forged = Position { conversation: chat(), seq: Seq::new(500) };
    assert_eq!(device.begin(&[], &[forged])[0].after, Seq::new(5));
}

#[test]
fn long_backlog_is_cut_with_a_backlog_frame_and_continues_live() {
    let device = BacklogDevice::new();
    device.begin(&[after(0, 9)], &[]);
    device.fan_out(10, true);
    let outcome = device.push_page(&page(Seq::ZERO, 9, 3, |_| false), &[], 3);
    assert_eq!((outcome.pushed, outcome.next_step), (3, NextStep::Live));
    // Seq 10 is covered by the backlog frame, so its second report is suppressed. Seq 11 is live.
    device.fan_out(10, false);
    device.fan_out(11, false);
    device.finish();
    assert_eq!(device.received(), ["m1", "m2", "m3", "b3-10", "a10", "m11", "."]);
}

#[test]
fn skipped_conversation_gets_a_backlog_frame() {
    let device = BacklogDevice::new();
    let missing = device.begin(&[after(4, 9)], &[]);
    device.catch_up.skip_to_paging(&device.outbox, missing[0]);
    device.finish();
    device.fan_out(10, false);
    assert_eq!(device.received(), ["b4-9", ".", "m10"]);
}

#[test]
fn resend_ack_is_sent_after_its_backlog_message() {
    let device = BacklogDevice::new();
    device.begin(&[after(1, 3)], &[]);
    let again = |seq| device.catch_up.admit_repeated_ack(chat(), Seq::new(seq), &ack(seq, true));
    assert!(again(1), "the device already has seq 1");
    assert!(!again(2));
    assert_eq!(device.catch_up.held_frames(), 1);
    device.push_page(&page(Seq::new(1), 3, 100, |seq| seq == 2), &[], 100);
    assert_eq!(device.catch_up.held_frames(), 0);
    assert!(again(3));
    assert_eq!(device.received(), ["m2", "d2", "m3"]);
}

#[test]
fn resend_ack_without_backlog_is_sent_when_backlogs_are_known() {
    let device = BacklogDevice::new();
    assert!(!device.catch_up.admit_repeated_ack(chat(), Seq::new(2), &ack(2, true)));
    assert_eq!(device.begin(&[], &[]), []);
    device.finish();
    assert_eq!(device.received(), ["d2", "."]);
}

/// Seen under load: the ack of a new message overtook the ack of an earlier resend.
#[test]
fn early_live_message_does_not_let_a_resend_ack_pass() {
    let device = BacklogDevice::new();
    device.fan_out(4, true);
    assert!(!device.catch_up.admit_repeated_ack(chat(), Seq::new(2), &ack(2, true)));
    device.begin(&[after(0, 3)], &[Position { conversation: chat(), seq: Seq::ZERO }]);
    device.push_page(&page(Seq::ZERO, 4, 100, |seq| seq % 2 == 0), &[], 100);
    device.finish();
    assert_eq!(device.received(), ["m1", "m2", "d2", "m3", "a4", "."]);
}

#[test]
fn backlog_stops_at_an_own_message_until_its_ack_arrives() {
    let device = BacklogDevice::new();
    device.begin(&[after(1, 2)], &[]);
    let id = message(3, true).message_id;
    device.catch_up.send_begins(chat(), &id);
    let shown = page(Seq::new(1), 3, 100, |seq| seq == 3);
    let pending_sends = device.catch_up.pending_sends(chat());
    let outcome = device.push_page(&shown, &pending_sends, 100);
    assert_eq!((outcome.pushed, outcome.up_to, outcome.next_step), (1, Seq::new(2), NextStep::AckPending));
    device.fan_out(3, true);
    device.catch_up.send_ends(chat(), &id);
    assert_eq!(
        device.push_page(&shown, &device.catch_up.pending_sends(chat()), 100).next_step,
        NextStep::Live
    );
    assert_eq!(device.received(), ["m2", "a3"]);
}

#[test]
fn late_report_of_a_backlog_message_is_suppressed() {
    let device = BacklogDevice::new();
    device.begin(&[after(1, 2)], &[]);
    device.push_page(&page(Seq::new(1), 4, 100, |_| false), &[], 100);
    device.fan_out(3, false);
    device.finish();
    assert!(device.catch_up.is_active());
    device.fan_out(4, false);
    device.fan_out(5, false);
    assert!(!device.catch_up.is_active());
    assert_eq!(device.received(), ["m2", "m3", "m4", ".", "m5"]);
}

#[tokio::test(start_paused = true)]
async fn duplicate_suppression_ends_after_its_window() {
    let device = BacklogDevice::new();
    device.begin(&[after(1, 2)], &[]);
    device.push_page(&page(Seq::new(1), 2, 100, |_| false), &[], 100);
    device.finish();
    tokio::time::advance(DUPLICATE_WINDOW).await;
    assert!(device.catch_up.admit_live(ConversationId::group([2; 15]), Seq::FIRST, None));
    assert!(!device.catch_up.is_active());
}

#[test]
fn abandoned_backlog_sends_held_frames_then_gone_then_live_messages() {
    let device = BacklogDevice::new();
    device.begin(&[after(1, 3)], &[]);
    device.fan_out_leave(4);
    device.catch_up.abandon(&device.outbox, chat());
    device.fan_out(8, false);
    device.finish();
    assert_eq!(device.received(), ["m4", "gone", "m8", "."]);
}

#[test]
fn leave_notice_below_the_claimed_position_is_suppressed() {
    let gone = Missed { behind: Vec::new(), gone: vec![chat()] };
    let position = Position { conversation: chat(), seq: Seq::new(7) };
    let device = BacklogDevice::new();
    // The user left at seq 4, rejoined, was a member at seq 7 and left again.
    device.fan_out_leave(4);
    assert_eq!(device.catch_up.begin(&device.outbox, &gone, &[position]), []);
    device.fan_out_leave(4);
    device.finish();
    device.fan_out_leave(4);
    device.fan_out_leave(8);
    device.fan_out(9, false);
    assert_eq!(device.received(), [".", "m8", "m9"]);
    assert_eq!(device.catch_up.held_frames(), 0);
    // A claimed position above the head does not suppress new messages.
    let forged = Position { conversation: chat(), seq: Seq::new(500) };
    let device = BacklogDevice::new();
    device.catch_up.begin(&device.outbox, &gone, &[forged]);
    device.fan_out(9, false);
    device.finish();
    device.fan_out(10, false);
    assert_eq!(device.received(), ["m9", ".", "m10"]);
}

/// A random generator without other state, so that the seed determines the whole run.
struct RandomGenerator(u64);

impl RandomGenerator {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A store that returns messages before it reports them, a fan-out that lags behind the reports,
/// and a device that catches up and sends concurrently.
struct Simulation {
    device: BacklogDevice,
    random: RandomGenerator,
    /// For each seq from 1 on: whether the device sent the message.
    mine: Vec<bool>,
    reported: usize,
    fanned_out: usize,
    answered: usize,
}

impl Simulation {
    fn is_mine(&self, seq: u64) -> bool {
        self.mine[usize::try_from(seq).unwrap() - 1]
    }

    fn head(&self) -> u64 {
        self.mine.len() as u64
    }

    fn fan_out_through(&mut self, end: usize) {
        while self.fanned_out < end {
            self.fanned_out += 1;
            self.device.fan_out(self.fanned_out as u64, self.mine[self.fanned_out - 1]);
        }
    }

    fn random_event(&mut self) {
        match self.random.below(6) {
            // Stop sending at some point, so that the run ends.
            0 | 1 if self.mine.len() < 40 => {
                let mine = self.random.below(2) == 0;
                let id = message(self.head() + 1, mine).message_id;
                if mine {
                    self.device.catch_up.send_begins(chat(), &id);
                }
                self.mine.push(mine);
            }
            0..=3 => self.reported = (self.reported + 1).min(self.mine.len()),
            4 => self.fan_out_through((self.fanned_out + 1).min(self.reported)),
            _ => {
                if self.answered < self.reported {
                    self.answered += 1;
                    self.device.catch_up.send_ends(chat(), &message(self.answered as u64, true).message_id);
                }
            }
        }
    }

    fn random_events(&mut self) {
        for _ in 0..self.random.below(8) {
            self.random_event();
        }
    }

    /// Returns the final state and the frames the device received, with at most `most` messages in
    /// the backlog.
    fn run(seed: u64, most: usize) -> (Simulation, Vec<String>) {
        let before = 5;
        let mut world = Simulation {
            device: BacklogDevice::new(),
            random: RandomGenerator(seed),
            mine: vec![false; before],
            reported: before,
            fanned_out: 3,
            answered: before,
        };
        world.random_events();
        let after = after(1, world.head());
        world.random_events();
        world.fan_out_through(world.reported);
        world.device.begin(&[after], &[]);
        let (mut after, mut left) = (Seq::new(1), most);
        loop {
            world.random_events();
            let limit = (1 + world.random.below(4)).min(left as u64);
            let page = page(after, world.head(), limit, |seq| world.is_mine(seq));
            world.random_events();
            let pending_sends = world.device.catch_up.pending_sends(chat());
            world.random_events();
            world.fan_out_through(world.reported);
            world.random_events();
            let outcome = world.device.push_page(&page, &pending_sends, left);
            after = outcome.up_to;
            left -= outcome.pushed;
            if outcome.next_step == NextStep::Live {
                break;
            }
        }
        world.random_events();
        world.device.finish();
        for _ in 0..20 {
            world.random_event();
        }
        world.reported = world.mine.len();
        world.fan_out_through(world.reported);
        let received = world.device.received().into_iter().filter(|received| received != ".").collect();
        (world, received)
    }

    fn expected(&self, from: u64, through: u64) -> Vec<String> {
        let place = |seq| if self.is_mine(seq) { format!("a{seq}") } else { format!("m{seq}") };
        (from..=through).map(place).collect()
    }
}

#[test]
fn random_event_order_delivers_every_seq_once_and_in_order() {
    for seed in 0..4_000 {
        let (world, received) = Simulation::run(seed, usize::MAX);
        assert_eq!(received, world.expected(2, world.head()), "seed {seed}");
    }
}

#[test]
fn random_event_order_with_a_cut_backlog_skips_only_the_announced_range() {
    let mut cut = 0;
    for seed in 0..4_000 {
        let (world, received) = Simulation::run(seed, 6);
        let Some(at) = received.iter().position(|received| received.starts_with('b')) else {
            assert_eq!(received, world.expected(2, world.head()), "seed {seed}");
            continue;
        };
        cut += 1;
        let (last, head) = received[at][1..].split_once('-').unwrap();
        let (last, head): (u64, u64) = (last.parse().unwrap(), head.parse().unwrap());
        assert_eq!(received[..at], world.expected(2, last), "seed {seed}");
        let (late, live): (Vec<String>, Vec<String>) = received[at + 1..]
            .iter()
            .cloned()
            .partition(|received| received[1..].parse::<u64>().unwrap() <= head);
        let acks = world.expected(last + 1, head).into_iter().filter(|place| place.starts_with('a'));
        assert_eq!(late, acks.collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(live, world.expected(head + 1, world.head()), "seed {seed}");
    }
    assert!(cut > 1_000, "only {cut} were cut");
}
