//! A commit listener that records everything the store publishes.

use bluetick_core::ports::{CommitListener, Committed, CommittedChange, ReadStateMoved};
use bluetick_core::{ConversationId, Revocations, Seq, UserId};
use parking_lot::Mutex;

/// A published message or change.
#[derive(Clone, Debug)]
pub enum Published {
    Message(Committed),
    Change(CommittedChange),
}

impl Published {
    /// Returns the conversation of the event, or `None` for an event about a user.
    fn conversation(&self) -> Option<ConversationId> {
        match self {
            Published::Message(committed) => Some(committed.message.conversation),
            Published::Change(CommittedChange::ReadState(moved)) => Some(moved.conversation),
            Published::Change(
                CommittedChange::Joined { conversation, .. }
                | CommittedChange::PreferencesChanged { conversation, .. },
            ) => Some(*conversation),
            Published::Change(CommittedChange::Revoked { .. } | CommittedChange::ResyncRequired { .. }) => {
                None
            }
        }
    }
}

#[derive(Default)]
pub struct Recorder(Mutex<Vec<Published>>);

impl CommitListener for Recorder {
    fn committed(&self, batch: Vec<Committed>) {
        self.extend(batch.into_iter().map(Published::Message));
    }

    fn changed(&self, batch: Vec<CommittedChange>) {
        self.extend(batch.into_iter().map(Published::Change));
    }
}

impl Recorder {
    fn extend(&self, published: impl Iterator<Item = Published>) {
        self.0.lock().extend(published);
    }

    /// Returns the messages and changes of a conversation in the order of publication.
    pub fn everything(&self, conversation: ConversationId) -> Vec<Published> {
        let all = self.0.lock();
        all.iter().filter(|published| published.conversation() == Some(conversation)).cloned().collect()
    }

    pub fn heard(&self, conversation: ConversationId) -> Vec<Committed> {
        let messages = self.everything(conversation).into_iter().filter_map(|published| match published {
            Published::Message(committed) => Some(committed),
            Published::Change(_) => None,
        });
        messages.collect()
    }

    pub fn heard_seqs(&self, conversation: ConversationId) -> Vec<Seq> {
        self.heard(conversation).iter().map(|committed| committed.message.seq).collect()
    }

    pub fn changes(&self, conversation: ConversationId) -> Vec<CommittedChange> {
        let changes = self.everything(conversation).into_iter().filter_map(|published| match published {
            Published::Message(_) => None,
            Published::Change(change) => Some(change),
        });
        changes.collect()
    }

    pub fn moves(&self, conversation: ConversationId) -> Vec<ReadStateMoved> {
        let moves = self.changes(conversation).into_iter().filter_map(|change| match change {
            CommittedChange::ReadState(moved) => Some(moved),
            _ => None,
        });
        moves.collect()
    }

    pub fn revocations(&self) -> Vec<(UserId, Revocations)> {
        let all = self.0.lock();
        let revoked = all.iter().filter_map(|published| match published {
            Published::Change(CommittedChange::Revoked { user, revocations }) => {
                Some((user.clone(), revocations.clone()))
            }
            _ => None,
        });
        revoked.collect()
    }

    /// Returns the users for whom the store published `CommittedChange::ResyncRequired`.
    pub fn overlooked(&self) -> Vec<UserId> {
        let all = self.0.lock();
        let users = all.iter().filter_map(|published| match published {
            Published::Change(CommittedChange::ResyncRequired { user }) => Some(user.clone()),
            _ => None,
        });
        users.collect()
    }

    pub fn preferred(&self, conversation: ConversationId) -> Vec<UserId> {
        let preferred = self.changes(conversation).into_iter().filter_map(|change| match change {
            CommittedChange::PreferencesChanged { user, .. } => Some(user),
            _ => None,
        });
        preferred.collect()
    }
}
