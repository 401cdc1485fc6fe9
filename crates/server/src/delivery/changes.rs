//! Delivers changes other than messages (read states, inbox entries) to connected devices. Nothing
//! here waits: the workers do what needs the store or can be batched.

use std::sync::Arc;

use bluetick_core::ports::{Committed, CommittedChange, ReadStateMoved};
use bluetick_core::{ContentType, ConversationId, ConversationKind, Seq, UserId};
use bluetick_wire::frame::encode_status;
use tokio::sync::mpsc;

use super::messages::each_member;
use super::receipts::ReceiptBatches;
use super::{EncodedFrame, SessionId, Sessions, WebSocketSession};
use crate::metrics::{Dropped, Metrics};

/// Largest number of members of a conversation in which each receipt goes to all members
/// immediately. Above it, receipts are batched and go to recent senders only. A larger value
/// multiplies the frames per message.
pub(super) const SMALL_GROUP: usize = 16;

/// An inbox entry that the user's devices must show anew.
#[derive(Debug)]
pub(super) struct EntryChanged {
    pub conversation: ConversationId,
    pub user: UserId,
    pub cause: InboxChangeReason,
}

/// Why an inbox entry changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InboxChangeReason {
    /// The user joined, or changed a preference.
    Changed,
    /// The first message of a direct conversation. The entry is new to every member but the
    /// creator, who gets the peer's presence instead.
    FirstMessage,
}

/// Pushes changes to sessions or hands them to the workers.
pub(super) struct Changes {
    pub sessions: Arc<Sessions>,
    pub metrics: Arc<Metrics>,
    pub receipt_batches: Arc<ReceiptBatches>,
    /// If the queue is full, the entry is dropped; the client finds it in the inbox.
    pub entries: mpsc::Sender<EntryChanged>,
}

impl Changes {
    pub fn publish(&self, change: CommittedChange) {
        match change {
            CommittedChange::ReadState(moved) => self.publish_read_state(moved),
            CommittedChange::Joined { conversation, user }
            | CommittedChange::PreferencesChanged { conversation, user } => {
                self.entry_changed(EntryChanged { conversation, user, cause: InboxChangeReason::Changed });
            }
            // `Hub::changed` has already handled these.
            CommittedChange::Revoked { .. } | CommittedChange::ResyncRequired { .. } => {}
        }
    }

    /// Queues the inbox entries of a direct conversation at its first message, because the peer's
    /// inbox lists the conversation from then on.
    pub fn publish_first_message(&self, Committed { message, members, .. }: &Committed) {
        let conversation = message.conversation;
        let is_first = message.seq == Seq::FIRST && message.content_type != ContentType::Void;
        if is_first && conversation.kind() == ConversationKind::Direct {
            for member in members.iter() {
                let user = member.user.clone();
                self.entry_changed(EntryChanged {
                    conversation,
                    user,
                    cause: InboxChangeReason::FirstMessage,
                });
            }
        }
    }

    fn publish_read_state(&self, moved: ReadStateMoved) {
        let mut pushes = self.publish_to_own_devices(&moved);
        if let Some(shown) = moved.shown {
            if moved.members.len() <= SMALL_GROUP && !self.receipt_batches.is_batching(moved.conversation) {
                let frame = EncodedFrame::from(encode_status(moved.conversation, &moved.user, shown, None));
                let mut was_refused = false;
                each_member(
                    &self.sessions,
                    &moved.members,
                    |member| member.user != moved.user,
                    &mut |session| match session.outbox.push_ephemeral(frame.clone()) {
                        true => pushes += 1,
                        false => was_refused = true,
                    },
                );
                // A busy outbox refuses ticks so that messages come first. Batch the ticks, as in
                // large groups.
                if was_refused {
                    self.receipt_batches.add(moved.conversation, moved.user, shown, moved.members);
                }
            } else {
                self.receipt_batches.add(moved.conversation, moved.user, shown, moved.members);
            }
        }
        self.metrics.statuses_pushed(pushes);
    }

    /// Pushes the user's own read state to all its devices but the one that sent the receipt.
    /// Returns the number of pushes.
    fn publish_to_own_devices(&self, moved: &ReadStateMoved) -> u64 {
        let mut frame: Option<EncodedFrame> = None;
        let mut pushes = 0;
        self.sessions.each_of(&moved.user, &mut |session: &WebSocketSession| {
            if moved.origin.map(SessionId::from) == Some(session.id) {
                return;
            }
            let encode = || {
                EncodedFrame::from(encode_status(moved.conversation, &moved.user, moved.own, moved.unread))
            };
            session.outbox.push(frame.get_or_insert_with(encode).clone());
            pushes += 1;
        });
        pushes
    }

    fn entry_changed(&self, changed: EntryChanged) {
        if self.sessions.is_online(&changed.user) && self.entries.try_send(changed).is_err() {
            self.metrics.dropped(Dropped::Conversation, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::{Members, ReadState, TokenFacts};
    use prometheus_client::metrics::gauge::Gauge;

    use bluetick_core::ports::CommitListener;
    use bluetick_wire::CloseCode;

    use super::*;
    use crate::delivery::{ConnectionOutbox, Hub};

    #[test]
    fn resync_required_closes_all_sessions_of_the_user_only() {
        let hub = Hub::new(Metrics::new());
        let [phone, laptop, other] = ["alice", "alice", "bob"].map(|name| {
            let (outbox, sessions) = (ConnectionOutbox::new(1_000, Gauge::default()), hub.sessions());
            sessions
                .register(sessions.next_id(), name.parse().unwrap(), TokenFacts::default(), outbox, 2)
                .unwrap()
        });
        hub.changed(vec![CommittedChange::ResyncRequired { user: "alice".parse().unwrap() }]);
        let endings = [&phone, &laptop, &other].map(|registration| registration.session.ending());
        assert_eq!(endings, [Some(CloseCode::InternalError), Some(CloseCode::InternalError), None]);
    }

    #[test]
    fn receipts_are_batched_when_an_outbox_is_busy() {
        let (sessions, metrics) = (Arc::new(Sessions::default()), Metrics::new());
        let (entries, _waiting) = mpsc::channel(2);
        let receipt_batches = Arc::new(ReceiptBatches::new(Arc::clone(&metrics)));
        let changes = Changes {
            sessions: Arc::clone(&sessions),
            metrics: Arc::clone(&metrics),
            receipt_batches: Arc::clone(&receipt_batches),
            entries,
        };
        let outbox = ConnectionOutbox::new(8_000, Gauge::default());
        let (alice, bob): (UserId, UserId) = ("alice".parse().unwrap(), "bob".parse().unwrap());
        let phone =
            sessions.register(sessions.next_id(), alice.clone(), TokenFacts::default(), outbox, 1).unwrap();
        let conversation = ConversationId::direct(&alice, &bob);
        let members = Arc::new(Members::direct(alice.clone(), bob.clone()));
        let moved = |seq| ReadStateMoved {
            conversation,
            user: bob.clone(),
            own: ReadState { delivered: Seq::new(seq), read: Seq::ZERO },
            shown: Some(ReadState { delivered: Seq::new(seq), read: Seq::ZERO }),
            unread: None,
            members: Arc::clone(&members),
            origin: None,
        };
        changes.publish(CommittedChange::ReadState(moved(1)));
        assert!(!receipt_batches.is_batching(conversation), "published immediately");
        phone.session.outbox.push(EncodedFrame::from("m".repeat(2_000)));
        changes.publish(CommittedChange::ReadState(moved(2)));
        assert!(receipt_batches.is_batching(conversation), "batched");
    }

    #[test]
    fn inbox_entries_are_queued_for_connected_users_and_dropped_when_the_queue_is_full() {
        let (sessions, metrics) = (Arc::new(Sessions::default()), Metrics::new());
        let (entries, mut waiting) = mpsc::channel(2);
        let receipt_batches = Arc::new(ReceiptBatches::new(Arc::clone(&metrics)));
        let changes = Changes {
            sessions: Arc::clone(&sessions),
            metrics: Arc::clone(&metrics),
            receipt_batches,
            entries,
        };
        let outbox = ConnectionOutbox::new(1_000, Gauge::default());
        let _phone = sessions
            .register(sessions.next_id(), "alice".parse().unwrap(), TokenFacts::default(), outbox, 1)
            .unwrap();
        for name in ["bob", "alice", "alice", "alice"] {
            let conversation = ConversationId::group([1; 15]);
            changes.publish(CommittedChange::Joined { conversation, user: name.parse().unwrap() });
        }
        let shown = [waiting.try_recv(), waiting.try_recv()].map(|changed| changed.unwrap().user);
        assert!(shown.iter().all(|user| user.as_str() == "alice") && waiting.try_recv().is_err());
        let text = metrics.encode(&Default::default(), None);
        assert!(text.contains(r#"bluetick_drops_total{what="conversation_frame"} 1"#), "{text}");
    }
}
