//! Who is in a conversation, from which place on and up to which: what lies outside is shown to nobody.

use std::collections::BTreeSet;

use bluetick_core::{ConversationId, UserId};
use serde_json::Value;

use super::{Auditor, Guarantee, Moment, Seen};

/// What is known of somebody and a conversation.
#[derive(Default)]
pub struct Membership {
    /// In it from its beginning on, and for good.
    is_founder: bool,
    /// How many invitations may still be carried out: those under way, and those that got no answer.
    open_invitations: u32,
    /// When it was last asked for, or answered: before either it may not have been carried out.
    last_invitation: Moment,
    /// Nobody has asked for it to be let in since it was taken out for sure.
    is_out: bool,
    /// All places it was ever shown.
    shown: BTreeSet<u64>,
}

/// Somebody came or went, as a notice says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    Joined(UserId),
    Left(UserId),
}

impl Seen {
    pub fn notice(&self) -> Option<Notice> {
        if self.content_type != "system" {
            return None;
        }
        let said: Value = serde_json::from_str(&self.content).ok()?;
        let user = said["user_id"].as_str()?.parse().ok()?;
        match said["event"].as_str()? {
            "member_added" => Some(Notice::Joined(user)),
            "member_removed" | "member_left" => Some(Notice::Left(user)),
            _ => None,
        }
    }
}

impl Auditor {
    fn membership(&mut self, id: ConversationId, user: &UserId) -> &mut Membership {
        self.members.entry((id, user.clone())).or_default()
    }

    pub fn founded(&mut self, id: ConversationId, user: &UserId) {
        self.known(id);
        self.membership(id, user).is_founder = true;
    }

    pub fn is_founder(&self, id: ConversationId, user: &UserId) -> bool {
        self.members.get(&(id, user.clone())).is_some_and(|membership| membership.is_founder)
    }

    /// Somebody asks for this person to be let in.
    pub fn invites(&mut self, id: ConversationId, user: &UserId) {
        let now = self.moment();
        let membership = self.membership(id, user);
        membership.open_invitations += 1;
        membership.last_invitation = now;
        membership.is_out = false;
    }

    /// What became of the invitation is known.
    pub fn invitation_was_answered(&mut self, id: ConversationId, user: &UserId) {
        let now = self.moment();
        let membership = self.membership(id, user);
        membership.open_invitations = membership.open_invitations.saturating_sub(1);
        membership.last_invitation = now;
    }

    /// Somebody asks for this person to be taken out, perhaps itself.
    pub fn removes(&mut self, id: ConversationId, user: &UserId) -> Moment {
        self.starts_again(id, user);
        self.moment()
    }

    /// The answer was that it is out.
    pub fn removed(&mut self, id: ConversationId, user: &UserId, begun: Moment) {
        let membership = self.membership(id, user);
        if membership.open_invitations == 0 && membership.last_invitation < begun {
            membership.is_out = true;
        }
    }

    /// Whether somebody who asks now may be answered.
    pub fn may_see(&self, id: ConversationId, user: &UserId) -> bool {
        let membership = self.members.get(&(id, user.clone()));
        membership.is_some_and(|membership| membership.was_let_in() && !membership.is_out)
    }

    /// Whether it may have been in it at some time: what it was sent then may be on its way for long.
    pub fn was_let_in(&self, id: ConversationId, user: &UserId) -> bool {
        self.members.get(&(id, user.clone())).is_some_and(Membership::was_let_in)
    }

    /// Somebody was shown what is in a place. Whether it was in the conversation then is found out in the end.
    pub fn showed(&mut self, id: ConversationId, user: &UserId, seq: u64, seen: &Seen) {
        self.membership(id, user).shown.insert(seq);
        self.saw(id, seq, seen);
    }

    /// The places from which on and up to which somebody is in the conversation, by the notices in it.
    fn spells(&self, id: ConversationId, user: &UserId) -> Vec<(u64, Option<u64>)> {
        if self.is_founder(id, user) {
            return vec![(1, None)];
        }
        let mut spells: Vec<(u64, Option<u64>)> = Vec::new();
        let Some(known) = self.conversations.get(&id) else { return spells };
        for (seq, notice) in known.cells.iter().filter_map(|(seq, seen)| Some((*seq, seen.notice()?))) {
            match (notice, spells.last_mut()) {
                (Notice::Joined(who), None | Some((_, Some(_)))) if who == *user => spells.push((seq, None)),
                (Notice::Left(who), Some((_, end @ None))) if who == *user => *end = Some(seq),
                _ => {}
            }
        }
        spells
    }

    /// The place at which somebody came who is in it now, all of it being known.
    pub fn joined(&self, id: ConversationId, user: &UserId) -> Option<u64> {
        match self.spells(id, user).last() {
            Some((joined, None)) => Some(*joined),
            _ => None,
        }
    }

    /// What those who came later are in, all of it being known.
    pub fn joined_later(&self, user: &UserId) -> Vec<ConversationId> {
        let later = self.conversations().into_iter().filter(|id| !self.is_founder(*id, user));
        later.filter(|id| self.joined(*id, user).is_some()).collect()
    }

    /// In the end, when all of every conversation is known: nobody was shown a place outside of its time in it.
    pub fn who_was_shown_what(&mut self) {
        let found = self.members.iter().find_map(|((id, user), membership)| {
            let spells = self.spells(*id, user);
            let is_inside =
                |seq: u64| spells.iter().any(|(from, to)| *from <= seq && to.is_none_or(|to| seq <= to));
            let outside = membership.shown.iter().find(|seq| !is_inside(**seq))?;
            Some((*id, format!("{user} was shown {outside} and was in the conversation at {spells:?}")))
        });
        if let Some((id, what)) = found {
            self.find(Guarantee::Private, Some(id), what);
        }
    }

    /// All that somebody can read in the end who came later: from its coming on, and at least up to a head that was known
    /// when it began to read.
    pub fn history_since_joining(
        &mut self,
        id: ConversationId,
        user: &UserId,
        history: &[(u64, Seen)],
        head: u64,
    ) {
        let Some(joined) = self.joined(id, user) else { return };
        for (expected, (seq, seen)) in (joined..).zip(history) {
            if *seq != expected {
                let what =
                    format!("{user} is in it from {joined} on and reads {seq} where {expected} belongs");
                return self.find(Guarantee::Dense, Some(id), what);
            }
            self.showed(id, user, *seq, seen);
        }
        let last = history.last().map_or(0, |(seq, _)| *seq);
        if last < head {
            let what = format!("{user} is in it from {joined} on and reads up to {last} of {head}");
            self.find(Guarantee::NoLoss, Some(id), what);
        }
    }
}

impl Membership {
    fn was_let_in(&self) -> bool {
        self.is_founder || self.last_invitation > Moment::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::town::person;

    fn notice(event: &str, user: &UserId) -> Seen {
        Seen {
            sender: "p0".to_owned(),
            message_id: event.to_owned(),
            content: format!(r#"{{"event":"{event}","by":"p0","user_id":"{user}"}}"#),
            content_type: "system".to_owned(),
        }
    }

    /// A group of one, into which another comes at 2 and from which it is taken at 4.
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
    fn what_was_said_after_somebody_was_taken_out_is_shown_to_it_by_mistake_only() {
        for (seq, is_wrong) in [(1, true), (2, false), (4, false), (5, true)] {
            let (mut auditor, id, guest) = visited();
            let seen = auditor.known(id).cells[&seq].clone();
            auditor.showed(id, &guest, seq, &seen);
            auditor.who_was_shown_what();
            assert_eq!(auditor.finding().is_some(), is_wrong, "{seq}: {:?}", auditor.finding());
        }
    }

    #[test]
    fn whoever_comes_back_has_to_read_everything_from_then_on() {
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
    fn nobody_is_out_for_sure_while_an_invitation_may_still_be_carried_out() {
        let (mut auditor, id, guest) = visited();
        let begun = auditor.removes(id, &guest);
        auditor.removed(id, &guest, begun);
        assert!(auditor.may_see(id, &guest), "nobody knows what became of the invitation");
        auditor.invitation_was_answered(id, &guest);
        auditor.removed(id, &guest, begun);
        assert!(auditor.may_see(id, &guest), "it may have been carried out after the removal");
        let begun = auditor.removes(id, &guest);
        auditor.removed(id, &guest, begun);
        assert!(!auditor.may_see(id, &guest) && auditor.was_let_in(id, &guest));
        auditor.invites(id, &guest);
        assert!(auditor.may_see(id, &guest));
    }
}
