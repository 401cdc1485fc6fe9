//! Checks membership: a user receives only the seqs between joining and leaving.

use std::collections::BTreeSet;

use bluetick_core::{ConversationId, UserId};
use serde_json::Value;

use super::{Auditor, Guarantee, Moment, ReceivedMessage};

/// State of a user in a conversation.
#[derive(Default)]
pub struct MembershipAudit {
    /// Member from the creation of the conversation; never removed.
    is_founder: bool,
    /// Number of invitations that may still take effect: in flight or unanswered.
    open_invitations: u32,
    /// When the latest invitation was sent or answered. A removal that began earlier may precede
    /// the invitation's effect.
    last_invitation: Moment,
    /// The user is certainly removed, and no invitation was sent since.
    is_out: bool,
    /// All seqs that the user received.
    shown: BTreeSet<u64>,
}

/// A membership change, as parsed from a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipNotice {
    Joined(UserId),
    Left(UserId),
}

impl ReceivedMessage {
    pub fn notice(&self) -> Option<MembershipNotice> {
        if self.content_type != "system" {
            return None;
        }
        let said: Value = serde_json::from_str(&self.content).ok()?;
        let user = said["user_id"].as_str()?.parse().ok()?;
        match said["event"].as_str()? {
            "member_added" => Some(MembershipNotice::Joined(user)),
            "member_removed" | "member_left" => Some(MembershipNotice::Left(user)),
            _ => None,
        }
    }
}

impl Auditor {
    fn membership(&mut self, id: ConversationId, user: &UserId) -> &mut MembershipAudit {
        self.members.entry((id, user.clone())).or_default()
    }

    pub fn founded(&mut self, id: ConversationId, user: &UserId) {
        self.known(id);
        self.membership(id, user).is_founder = true;
    }

    pub fn is_founder(&self, id: ConversationId, user: &UserId) -> bool {
        self.members.get(&(id, user.clone())).is_some_and(|membership| membership.is_founder)
    }

    /// Records that a client is about to add the user.
    pub fn invites(&mut self, id: ConversationId, user: &UserId) {
        let now = self.moment();
        let membership = self.membership(id, user);
        membership.open_invitations += 1;
        membership.last_invitation = now;
        membership.is_out = false;
    }

    /// Records that an invitation was answered, whether accepted or refused.
    pub fn invitation_was_answered(&mut self, id: ConversationId, user: &UserId) {
        let now = self.moment();
        let membership = self.membership(id, user);
        membership.open_invitations = membership.open_invitations.saturating_sub(1);
        membership.last_invitation = now;
    }

    /// Records that a client is about to remove the user or that the user is about to leave.
    pub fn removes(&mut self, id: ConversationId, user: &UserId) -> Moment {
        self.starts_again(id, user);
        self.moment()
    }

    /// Records that a removal was confirmed. The user counts as removed only if no invitation was
    /// open or newer than `begun`.
    pub fn removed(&mut self, id: ConversationId, user: &UserId, begun: Moment) {
        let membership = self.membership(id, user);
        if membership.open_invitations == 0 && membership.last_invitation < begun {
            membership.is_out = true;
        }
    }

    /// Returns whether the server may answer a request of the user now.
    pub fn may_see(&self, id: ConversationId, user: &UserId) -> bool {
        let membership = self.members.get(&(id, user.clone()));
        membership.is_some_and(|membership| membership.was_let_in() && !membership.is_out)
    }

    /// Returns whether the user may have been a member at any time. Messages sent during that time
    /// may arrive much later.
    pub fn was_let_in(&self, id: ConversationId, user: &UserId) -> bool {
        self.members.get(&(id, user.clone())).is_some_and(MembershipAudit::was_let_in)
    }

    /// Records that a user received a message. `who_was_shown_what` checks at the end whether the
    /// user was a member at that seq.
    pub fn showed(&mut self, id: ConversationId, user: &UserId, seq: u64, seen: &ReceivedMessage) {
        self.membership(id, user).shown.insert(seq);
        self.saw(id, seq, seen);
    }

    /// Returns the seq ranges in which the user is a member, according to the notices.
    fn spells(&self, id: ConversationId, user: &UserId) -> Vec<(u64, Option<u64>)> {
        if self.is_founder(id, user) {
            return vec![(1, None)];
        }
        let mut spells: Vec<(u64, Option<u64>)> = Vec::new();
        let Some(known) = self.conversations.get(&id) else { return spells };
        for (seq, notice) in known.cells.iter().filter_map(|(seq, seen)| Some((*seq, seen.notice()?))) {
            match (notice, spells.last_mut()) {
                (MembershipNotice::Joined(who), None | Some((_, Some(_)))) if who == *user => {
                    spells.push((seq, None))
                }
                (MembershipNotice::Left(who), Some((_, end @ None))) if who == *user => *end = Some(seq),
                _ => {}
            }
        }
        spells
    }

    /// Returns the seq at which a current member last joined. Requires that all messages are known.
    pub fn joined(&self, id: ConversationId, user: &UserId) -> Option<u64> {
        match self.spells(id, user).last() {
            Some((joined, None)) => Some(*joined),
            _ => None,
        }
    }

    /// Returns the conversations in which the user is a member but not a founder. Requires that all
    /// messages are known.
    pub fn joined_later(&self, user: &UserId) -> Vec<ConversationId> {
        let later = self.conversations().into_iter().filter(|id| !self.is_founder(*id, user));
        later.filter(|id| self.joined(*id, user).is_some()).collect()
    }

    /// Final check: no user received a seq outside of its membership. Requires that all messages
    /// are known.
    pub fn who_was_shown_what(&mut self) {
        let found = self.members.iter().find_map(|((id, user), membership)| {
            let spells = self.spells(*id, user);
            let is_inside =
                |seq: u64| spells.iter().any(|(from, to)| *from <= seq && to.is_none_or(|to| seq <= to));
            let outside = membership.shown.iter().find(|seq| !is_inside(**seq))?;
            Some((*id, format!("{user} received {outside} and was a member at {spells:?}")))
        });
        if let Some((id, what)) = found {
            self.find(Guarantee::Private, Some(id), what);
        }
    }

    /// Checks the history of a member who joined later. It must start at the join and reach at
    /// least `head`, which was known before the read began.
    pub fn history_since_joining(
        &mut self,
        id: ConversationId,
        user: &UserId,
        history: &[(u64, ReceivedMessage)],
        head: u64,
    ) {
        let Some(joined) = self.joined(id, user) else { return };
        for (expected, (seq, seen)) in (joined..).zip(history) {
            if *seq != expected {
                let what =
                    format!("{user} is a member from {joined} on and reads {seq} instead of {expected}");
                return self.find(Guarantee::Dense, Some(id), what);
            }
            self.showed(id, user, *seq, seen);
        }
        let last = history.last().map_or(0, |(seq, _)| *seq);
        if last < head {
            let what = format!("{user} is a member from {joined} on and reads up to {last} of {head}");
            self.find(Guarantee::NoLoss, Some(id), what);
        }
    }
}

impl MembershipAudit {
    fn was_let_in(&self) -> bool {
        self.is_founder || self.last_invitation > Moment::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::person;

    fn notice(event: &str, user: &UserId) -> ReceivedMessage {
        ReceivedMessage {
            sender: "p0".to_owned(),
            message_id: event.to_owned(),
            content: format!(r#"{{"event":"{event}","by":"p0","user_id":"{user}"}}"#),
            content_type: "system".to_owned(),
        }
    }

    /// A group with a founder. A guest joins at seq 2 and is removed at seq 4.
    fn visited() -> (Auditor, ConversationId, UserId) {
        let (id, guest, mut auditor) = (ConversationId::group([7; 15]), person(1), Auditor::default());
        auditor.founded(id, &person(0));
        auditor.invites(id, &guest);
        auditor.saw(id, 1, &notice("group_created", &person(0)));
        auditor.saw(id, 2, &notice("member_added", &guest));
        auditor.saw(id, 3, &notice("member_added", &person(2)));
        auditor.saw(id, 4, &notice("member_removed", &guest));
        auditor.saw(id, 5, &notice("member_left", &person(2)));
        (auditor, id, guest)
    }

    #[test]
    fn message_after_a_removal_shown_to_the_removed_member_is_a_violation() {
        for (seq, is_wrong) in [(1, true), (2, false), (4, false), (5, true)] {
            let (mut auditor, id, guest) = visited();
            let seen = auditor.known(id).cells[&seq].clone();
            auditor.showed(id, &guest, seq, &seen);
            auditor.who_was_shown_what();
            assert_eq!(auditor.finding().is_some(), is_wrong, "{seq}: {:?}", auditor.finding());
        }
    }

    #[test]
    fn returning_member_must_read_everything_since_the_return() {
        let (mut auditor, id, guest) = visited();
        assert_eq!(auditor.joined(id, &guest), None);
        let back = notice("member_added", &guest);
        auditor.saw(id, 6, &back);
        auditor.saw(id, 7, &notice("member_added", &person(2)));
        assert_eq!(auditor.joined(id, &guest), Some(6));
        let head = auditor.known_head(id);
        auditor.history_since_joining(id, &guest, &[(6, back)], head);
        assert!(auditor.finding().is_some(), "7 is missing");
    }

    #[test]
    fn membership_is_uncertain_while_an_invitation_is_pending() {
        let (mut auditor, id, guest) = visited();
        let begun = auditor.removes(id, &guest);
        auditor.removed(id, &guest, begun);
        assert!(auditor.may_see(id, &guest), "the outcome of the invitation is unknown");
        auditor.invitation_was_answered(id, &guest);
        auditor.removed(id, &guest, begun);
        assert!(auditor.may_see(id, &guest), "the invitation may have been applied after the removal");
        let begun = auditor.removes(id, &guest);
        auditor.removed(id, &guest, begun);
        assert!(!auditor.may_see(id, &guest) && auditor.was_let_in(id, &guest));
        auditor.invites(id, &guest);
        assert!(auditor.may_see(id, &guest));
    }
}
