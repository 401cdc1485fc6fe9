//! Checks ticks: they only move forward, read implies delivered, none passes the head, and a
//! receipt or reply explains each one.

use std::collections::{BTreeMap, BTreeSet};

use bluetick_core::{ConversationId, UserId};

use super::{Auditor, Guarantee};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadState {
    pub delivered: u64,
    pub read: u64,
}

impl ReadState {
    pub fn further(self, other: ReadState) -> ReadState {
        ReadState { delivered: self.delivered.max(other.delivered), read: self.read.max(other.read) }
    }

    fn is_behind(self, other: ReadState) -> bool {
        self.delivered < other.delivered || self.read < other.read
    }
}

/// The read states of the members of a conversation.
pub type ReadStates = BTreeMap<UserId, ReadState>;

#[derive(Default)]
pub struct TickAudit {
    /// The maximum that any device of the user has reported, recorded before the receipt is sent.
    said: BTreeMap<(ConversationId, UserId), ReadState>,
    /// The last read state that each observer received of a user.
    told: BTreeMap<(String, ConversationId, UserId), ReadState>,
    /// The maximum that any observer received.
    furthest: BTreeMap<ConversationId, ReadStates>,
    /// Users who were removed at least once. Their read state restarts when they are added again.
    start_again: BTreeSet<(ConversationId, UserId)>,
}

impl Auditor {
    /// Records that a device is about to send a receipt.
    pub fn says(&mut self, id: ConversationId, user: &UserId, said: ReadState) {
        let before = self.ticks.said.entry((id, user.clone())).or_default();
        *before = before.further(ReadState { delivered: said.delivered.max(said.read), ..said });
    }

    /// Records that the user may be removed from now on, so its read state may restart.
    pub fn starts_again(&mut self, id: ConversationId, user: &UserId) {
        self.ticks.start_again.insert((id, user.clone()));
    }

    pub fn has_started_again(&self, id: ConversationId, user: &UserId) -> bool {
        self.ticks.start_again.contains(&(id, user.clone()))
    }

    /// Returns the read states that a request sent from now on must reach: a published read state
    /// is durable.
    pub fn told_so_far(&self, id: ConversationId) -> ReadStates {
        self.ticks.furthest.get(&id).cloned().unwrap_or_default()
    }

    /// Checks an answer that `observer` received. `before` holds the read states published before
    /// the request.
    pub fn answered(
        &mut self,
        observer: &str,
        id: ConversationId,
        user: &UserId,
        before: &ReadStates,
        now: ReadState,
    ) {
        let before = before.get(user).copied().unwrap_or_default();
        if now.is_behind(before) && !self.has_started_again(id, user) {
            let what = format!(
                "{observer} requested the status of {user} and got {now:?}; an earlier one was {before:?}"
            );
            return self.find(Guarantee::TicksForward, Some(id), what);
        }
        self.told(observer, id, user, now);
    }

    /// Records that `observer` received a read state, and checks it. An observer receives events in
    /// order: a device across its connections, or a client that sends one request at a time.
    pub fn told(&mut self, observer: &str, id: ConversationId, user: &UserId, now: ReadState) {
        if now.read > now.delivered {
            let what = format!(
                "{observer} received a status of {user} with read {} above delivered {}",
                now.read, now.delivered
            );
            return self.find(Guarantee::TicksForward, Some(id), what);
        }
        let key = (observer.to_owned(), id, user.clone());
        let before = self.ticks.told.insert(key, now).unwrap_or_default();
        if now.is_behind(before) && !self.has_started_again(id, user) {
            let what = format!("{observer} received {before:?} and then {now:?} for {user}");
            return self.find(Guarantee::TicksForward, Some(id), what);
        }
        let furthest = self.ticks.furthest.entry(id).or_default().entry(user.clone()).or_default();
        *furthest = furthest.further(now);
        self.claim(id, now.delivered);
        self.account_for(observer, id, user, now);
    }

    /// A delivered tick implies a stored message. If no client has seen that seq yet, record a
    /// claim for `whole_history` to check.
    fn claim(&mut self, id: ConversationId, tick: u64) {
        let now = self.moment();
        let known = self.known(id);
        if tick > 0 && !known.cells.contains_key(&tick) {
            known.claims.entry(tick).or_insert(now);
        }
    }

    /// Checks that a receipt of a device or a message of the user explains the read state. If the
    /// user has a message whose seq is unknown, that message must turn out to be at the next seq.
    fn account_for(&mut self, observer: &str, id: ConversationId, user: &UserId, now: ReadState) {
        let said = self.ticks.said.get(&(id, user.clone())).copied().unwrap_or_default();
        let own = self.own_newest(id, user).saturating_sub(1);
        let most = said.further(ReadState { delivered: own, read: own });
        let is_on_its_way = self.has_message_on_its_way(id, user);
        let moment = self.moment();
        for (now, most) in [(now.delivered, most.delivered), (now.read, most.read)] {
            if now <= most {
                continue;
            }
            let known = self.known(id);
            if is_on_its_way && !known.cells.contains_key(&(now + 1)) {
                known.owed.entry(now + 1).or_insert_with(|| (user.clone(), moment));
                continue;
            }
            let what = format!(
                "{observer} received {now} for {user}, above {most}, the highest that its devices reported"
            );
            return self.find(Guarantee::DeliveredByDevice, Some(id), what);
        }
    }

    fn has_message_on_its_way(&self, id: ConversationId, user: &UserId) -> bool {
        let Some(known) = self.conversations.get(&id) else { return false };
        let own = known
            .attempts
            .range((user.clone(), String::new())..)
            .take_while(|((sender, _), _)| sender == user);
        own.into_iter().any(|(attempt, _)| !known.places.contains_key(attempt))
    }

    /// Returns the highest known seq of a message of this user.
    fn own_newest(&self, id: ConversationId, user: &UserId) -> u64 {
        let Some(known) = self.conversations.get(&id) else { return 0 };
        let own =
            known.places.range((user.clone(), String::new())..).take_while(|((sender, _), _)| sender == user);
        own.map(|(_, seq)| *seq).max().unwrap_or(0)
    }

    /// Returns whether only the user's own messages lie between two read states. The server does
    /// not publish that a sender has read its own message.
    pub fn are_alike(&self, id: ConversationId, user: &UserId, knows: ReadState, is: ReadState) -> bool {
        let Some(known) = self.conversations.get(&id) else { return knows == is };
        let reaches = |knows: u64, is: u64| {
            let is_own = |seq| {
                known.cells.get(&seq).is_some_and(|seen| seen.is_sent() && seen.sender == user.as_str())
            };
            knows <= is && (knows + 1..=is).all(is_own)
        };
        reaches(knows.delivered, is.delivered) && reaches(knows.read, is.read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::ReceivedMessage;
    use crate::cluster::person;

    fn group() -> (Auditor, ConversationId) {
        let id = ConversationId::group([7; 15]);
        let mut auditor = Auditor::default();
        (0..3).for_each(|number| auditor.founded(id, &person(number)));
        (auditor, id)
    }

    fn stores(auditor: &mut Auditor, id: ConversationId, sender: usize, seq: u64) {
        let message_id = format!("m{seq}");
        auditor.attempted(id, &person(sender), &message_id, "text");
        auditor.acknowledged(id, &person(sender), &message_id, seq);
    }

    fn to(delivered: u64, read: u64) -> ReadState {
        ReadState { delivered, read }
    }

    fn guarantee(auditor: &Auditor) -> Option<Guarantee> {
        auditor.finding().map(|finding| finding.guarantee)
    }

    /// Reads the whole history; the first user sent every message.
    fn reads_all(auditor: &mut Auditor, id: ConversationId, head: u64) {
        let begun = auditor.begins_to_read(id);
        let seen = |seq| ReceivedMessage {
            sender: "p0".to_owned(),
            message_id: format!("m{seq}"),
            content: "text".to_owned(),
            content_type: "text".to_owned(),
        };
        let history: Vec<_> = (1..=head).map(|seq| (seq, seen(seq))).collect();
        auditor.whole_history(id, &history, begun);
    }

    #[test]
    fn tick_above_every_message_is_found_even_if_a_device_claimed_it() {
        let (mut auditor, id) = group();
        stores(&mut auditor, id, 0, 1);
        auditor.says(id, &person(1), to(5, 5));
        auditor.told("somebody", id, &person(1), to(3, 3));
        assert_eq!(guarantee(&auditor), None, "2 and 3 may be stored without having been received");
        (2..=4).for_each(|seq| stores(&mut auditor, id, 0, seq));
        reads_all(&mut auditor, id, 4);
        assert_eq!(guarantee(&auditor), Some(Guarantee::TicksForward), "they had not been sent");
    }

    #[test]
    fn tick_above_the_last_message_is_found_at_the_end() {
        let (mut auditor, id) = group();
        stores(&mut auditor, id, 0, 1);
        auditor.says(id, &person(1), to(5, 5));
        auditor.told("somebody", id, &person(1), to(2, 2));
        reads_all(&mut auditor, id, 1);
        assert_eq!(guarantee(&auditor), Some(Guarantee::TicksForward));
    }

    #[test]
    fn tick_below_messages_in_flight_is_accepted() {
        let (mut auditor, id) = group();
        auditor.attempted(id, &person(0), "m2", "text");
        auditor.says(id, &person(1), to(5, 5));
        auditor.told("somebody", id, &person(1), to(1, 1));
        // Seq 1, below the message that was in flight, is filled later.
        (1..=2).for_each(|seq| stores(&mut auditor, id, 0, seq));
        reads_all(&mut auditor, id, 2);
        assert!(auditor.finding().is_none(), "{:?}", auditor.finding());
    }

    #[test]
    fn message_without_seq_explains_only_the_tick_just_below_it() {
        let (mut auditor, id) = group();
        (1..=3).for_each(|seq| stores(&mut auditor, id, 0, seq));
        auditor.attempted(id, &person(1), "on its way", "text");
        auditor.told("somebody", id, &person(1), to(3, 3));
        assert!(auditor.finding().is_none(), "the read state may be 4: {:?}", auditor.finding());
        auditor.told("somebody else", id, &person(1), to(2, 2));
        assert_eq!(guarantee(&auditor), Some(Guarantee::DeliveredByDevice), "seq 3 is not its own message");
    }

    #[test]
    fn tick_is_found_when_another_message_has_the_expected_seq() {
        let (mut auditor, id) = group();
        stores(&mut auditor, id, 0, 1);
        auditor.attempted(id, &person(1), "on its way", "text");
        auditor.told("somebody", id, &person(1), to(1, 1));
        stores(&mut auditor, id, 0, 2);
        assert_eq!(guarantee(&auditor), Some(Guarantee::DeliveredByDevice));
    }

    #[test]
    fn stale_status_answer_is_found() {
        let (mut auditor, id) = group();
        (1..=3).for_each(|seq| stores(&mut auditor, id, 0, seq));
        auditor.says(id, &person(1), to(3, 0));
        auditor.told("somebody", id, &person(1), to(3, 0));
        let before = auditor.told_so_far(id);
        auditor.answered("somebody else", id, &person(1), &before, to(2, 0));
        assert_eq!(guarantee(&auditor), Some(Guarantee::TicksForward));
    }

    #[test]
    fn read_states_are_equal_when_only_own_messages_lie_between() {
        let (mut auditor, id) = group();
        [0, 1, 1, 0].into_iter().zip(1..).for_each(|(sender, seq)| stores(&mut auditor, id, sender, seq));
        assert!(auditor.are_alike(id, &person(1), to(1, 1), to(3, 3)));
        assert!(!auditor.are_alike(id, &person(1), to(1, 1), to(4, 3)), "seq 4 belongs to another user");
        assert!(
            !auditor.are_alike(id, &person(1), to(4, 4), to(3, 3)),
            "a read state above the head is a violation"
        );
    }
}
