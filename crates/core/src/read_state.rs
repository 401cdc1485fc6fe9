//! A member's read state in a conversation (how far its devices received and read), and the
//! member's preferences.
//!
//! Invariant: every seq here only increases, and none exceeds the head. Receipts are idempotent and
//! commute, so devices can repeat, lose and reorder them.

use crate::{ReadState, ReceiptKind, Seq};

/// A member's own preferences for one conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    pub muted: bool,
    pub pinned: bool,
    pub archived: bool,
    /// Other members do not see reads while this is set. The next read after it is cleared also
    /// shows the earlier ones.
    pub hides_reads: bool,
}

/// A partial update of [`Preferences`]. `None` keeps the current value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreferenceChange {
    pub muted: Option<bool>,
    pub pinned: Option<bool>,
    pub archived: Option<bool>,
    pub hides_reads: Option<bool>,
}

impl PreferenceChange {
    pub fn applied_to(self, before: Preferences) -> Preferences {
        Preferences {
            muted: self.muted.unwrap_or(before.muted),
            pinned: self.pinned.unwrap_or(before.pinned),
            archived: self.archived.unwrap_or(before.archived),
            hides_reads: self.hides_reads.unwrap_or(before.hides_reads),
        }
    }
}

/// A member's full read state in one conversation, with the member's preferences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberState {
    pub delivered: Seq,
    pub read: Seq,
    /// The part of `read` that other members see: all of it, unless the member hides reads.
    pub shown_read: Seq,
    /// Every message up to here was acknowledged by a device or sent by the member. Messages above
    /// are pending, even when a reply implies that the member read them: the reply may come from
    /// another device.
    pub acknowledged: Seq,
    /// The highest seq that the member sent.
    pub sent: Seq,
    pub preferences: Preferences,
}

impl MemberState {
    /// Applies a receipt of a device, clamped to `head`. A read receipt implies delivery.
    pub fn apply_receipt(&mut self, kind: ReceiptKind, seq: Seq, head: Seq) {
        let seq = seq.min(head);
        if kind == ReceiptKind::Read {
            self.move_read(seq);
        }
        self.delivered = self.delivered.max(seq);
        self.acknowledged = self.acknowledged.max(seq);
    }

    /// Applies a message that the member sent at `seq`: the member has read everything before it.
    /// Returns whether the read state that other members see advances past a message of someone
    /// else.
    pub fn reply(&mut self, seq: Seq) -> bool {
        let before = seq.previous();
        // The member has already read or sent everything up to the higher of the two.
        let news = before > self.read.max(self.sent) && !self.preferences.hides_reads;
        let undelivered = before > self.delivered.max(self.sent);
        self.move_read(before);
        self.delivered = self.delivered.max(before);
        self.sent = self.sent.max(seq);
        if self.acknowledged == before {
            self.acknowledged = seq;
        }
        news || undelivered
    }

    fn move_read(&mut self, seq: Seq) {
        self.read = self.read.max(seq);
        self.delivered = self.delivered.max(self.read);
        if !self.preferences.hides_reads {
            self.shown_read = self.shown_read.max(seq);
        }
    }

    /// Raises each seq to the maximum of both; keeps the preferences. Returns whether any seq
    /// changed.
    pub fn advance(&mut self, other: &MemberState) -> bool {
        let before = *self;
        self.delivered = self.delivered.max(other.delivered);
        self.read = self.read.max(other.read);
        self.shown_read = self.shown_read.max(other.shown_read);
        self.acknowledged = self.acknowledged.max(other.acknowledged);
        self.sent = self.sent.max(other.sent);
        *self != before
    }

    /// Returns the read state that the member itself sees.
    pub fn own(&self) -> ReadState {
        ReadState { delivered: self.delivered, read: self.read }
    }

    /// Returns the read state that other members see.
    pub fn shown(&self) -> ReadState {
        ReadState { delivered: self.delivered, read: self.shown_read }
    }

    /// Returns the read state that counts for the ticks of other members. Messages from before
    /// `joined` count as read, so their ticks never wait for a later member.
    pub fn shown_since(&self, joined: Seq) -> ReadState {
        let floor = joined.previous();
        let ReadState { delivered, read } = self.shown();
        ReadState { delivered: delivered.max(floor), read: read.max(floor) }
    }

    /// Returns the seq above which visible messages are unread.
    pub fn read_since(&self, joined: Seq) -> Seq {
        self.read.max(joined.previous())
    }

    /// Returns the number of unread messages: sent by others, without notices and voids. `notices`
    /// is the number of notices and voids above [`MemberState::read_since`], up to `head`.
    pub fn unread(&self, joined: Seq, head: Seq, notices: u64) -> u64 {
        let from = self.read_since(joined);
        // A sent message moves `read` to the seq before it, so the member's own message can only be
        // the next one.
        let own = u64::from(self.sent > from);
        head.distance_from(from).saturating_sub(notices + own)
    }

    /// Returns the seq before the first pending message, or `None` when a device acknowledged
    /// everything.
    pub fn pending_after(&self, joined: Seq, head: Seq) -> Option<Seq> {
        let after = self.acknowledged.max(joined.previous());
        (after < head).then_some(after)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seq(value: u64) -> Seq {
        Seq::new(value)
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Receipt(bool, u64),
        Reply,
        OthersWrite(u64),
        Hide(bool),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (any::<bool>(), 0..80u64).prop_map(|(read, seq)| Step::Receipt(read, seq)),
            Just(Step::Reply),
            (1..5u64).prop_map(Step::OthersWrite),
            any::<bool>().prop_map(Step::Hide),
        ];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn receipts_only_advance_stop_at_the_head_and_read_implies_delivered(steps in steps()) {
            let (mut member_state, mut head, mut own) = (MemberState::default(), Seq::ZERO, Vec::new());
            for step in steps {
                let before = member_state;
                match step {
                    Step::Receipt(read, seq) => {
                        let kind = if read { ReceiptKind::Read } else { ReceiptKind::Delivered };
                        member_state.apply_receipt(kind, Seq::new(seq), head);
                        prop_assert!(member_state.own().delivered >= Seq::new(seq).min(head));
                    }
                    Step::Reply => {
                        head = head.next();
                        own.push(head);
                        member_state.reply(head);
                        prop_assert!(member_state.read >= head.previous());
                    }
                    Step::OthersWrite(count) => head = head.plus(count),
                    Step::Hide(hides) => member_state.preferences.hides_reads = hides,
                }
                let mut merged = before;
                merged.advance(&member_state);
                merged.preferences = member_state.preferences;
                prop_assert_eq!(merged, member_state, "a seq decreased");
                prop_assert!(member_state.read <= member_state.delivered && member_state.delivered <= head);
                prop_assert!(member_state.shown_read <= member_state.read && member_state.acknowledged <= head);
                if member_state.preferences.hides_reads && before.preferences.hides_reads {
                    prop_assert_eq!(member_state.shown_read, before.shown_read);
                }
                let unread = (member_state.read.get() + 1..=head.get()).filter(|seq| !own.contains(&Seq::new(*seq)));
                prop_assert_eq!(member_state.unread(Seq::FIRST, head, 0), unread.count() as u64);
            }
        }

        #[test]
        fn receipts_commute_and_are_idempotent(
            marks in prop::collection::vec((any::<bool>(), 0..50u64), 0..20), seed: u64
        ) {
            let apply = |marks: &[(bool, u64)]| {
                let mut member_state = MemberState::default();
                for (read, at) in marks {
                    member_state.apply_receipt(if *read { ReceiptKind::Read } else { ReceiptKind::Delivered }, seq(*at), seq(30));
                }
                member_state
            };
            let mut shuffled = marks.clone();
            shuffled.extend(marks.iter().copied().take(5));
            shuffled.sort_by_key(|(read, at)| (at ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(*read));
            prop_assert_eq!(apply(&marks), apply(&shuffled));
        }
    }

    #[test]
    fn reply_reads_everything_before_it_and_not_itself() {
        let mut member_state = MemberState::default();
        assert!(member_state.reply(seq(5)));
        assert_eq!(member_state.own(), ReadState { delivered: seq(4), read: seq(4) });
        assert_eq!(member_state.unread(Seq::FIRST, seq(5), 0), 0);
        assert_eq!(member_state.unread(Seq::FIRST, seq(8), 0), 3);
    }

    #[test]
    fn consecutive_own_messages_do_not_change_the_shown_read_state() {
        let mut member_state = MemberState::default();
        assert!(!member_state.reply(seq(1)));
        assert!(!member_state.reply(seq(2)));
        assert!(member_state.reply(seq(4)), "seq 3 belongs to another user");
        assert_eq!(
            member_state.pending_after(Seq::FIRST, seq(4)),
            Some(seq(2)),
            "no device has acknowledged seq 3"
        );
    }

    #[test]
    fn hidden_reads_keep_the_shown_read_state() {
        let mut member_state = MemberState::default();
        member_state.apply_receipt(ReceiptKind::Read, seq(3), seq(9));
        member_state.preferences.hides_reads = true;
        member_state.apply_receipt(ReceiptKind::Read, seq(7), seq(9));
        assert_eq!(member_state.shown(), ReadState { delivered: seq(7), read: seq(3) });
        assert_eq!(member_state.own(), ReadState { delivered: seq(7), read: seq(7) });
        member_state.preferences.hides_reads = false;
        member_state.apply_receipt(ReceiptKind::Read, seq(8), seq(9));
        assert_eq!(member_state.shown().read, seq(8));
    }

    #[test]
    fn late_member_has_no_unread_or_pending_from_before_joining() {
        let member_state = MemberState::default();
        assert_eq!(member_state.unread(seq(10), seq(12), 1), 2);
        assert_eq!(member_state.pending_after(seq(10), seq(12)), Some(seq(9)));
        assert_eq!(member_state.shown_since(seq(10)).read, seq(9));
    }
}
