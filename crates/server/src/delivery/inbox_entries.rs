//! The worker that pushes changed inbox entries. It handles them one by one in queue order, so the
//! newest state arrives last.

use std::sync::Arc;

use bluetick_core::Chat;
use bluetick_core::chat::ChatError;
use bluetick_wire::frame::{encode_conversation, encode_presence};
use bluetick_wire::http::PresenceBody;
use tokio::sync::mpsc;

use super::changes::{EntryChanged, InboxChangeReason};
use super::presence::push_presence;
use super::{EncodedFrame, PresenceDirectory, Sessions, catch_panics};
use crate::metrics::Metrics;

/// Capacity of the queue of changed inbox entries. The largest expected burst is a new group with
/// thousands of connected members. Entries beyond the capacity are dropped, and their devices show
/// the change only after the next inbox read.
pub(super) const QUEUED_ENTRIES: usize = 16_384;

/// Reads changed inbox entries from the store and pushes them to the user's devices.
pub(super) struct EntryPublisher {
    pub changed: mpsc::Receiver<EntryChanged>,
    pub sessions: Arc<Sessions>,
    pub presence_directory: PresenceDirectory,
    pub chat: Chat,
    pub metrics: Arc<Metrics>,
}

impl EntryPublisher {
    pub async fn run(mut self) {
        while let Some(changed) = self.changed.recv().await {
            let conversation = changed.conversation;
            let published = async {
                if let Err(error) = self.publish(changed).await {
                    // Most likely the user has left the conversation.
                    tracing::debug!(%conversation, %error, "inbox entry could not be published");
                }
            };
            catch_panics("inbox entries", published).await;
        }
    }

    async fn publish(
        &self,
        EntryChanged { conversation, user, cause }: EntryChanged,
    ) -> Result<(), ChatError> {
        if !self.sessions.is_online(&user) {
            return Ok(());
        }
        let entry = self.chat.inbox_entry(&user, conversation).await?;
        let presence = match &entry.peer {
            Some(peer) => {
                let profile = self.chat.profile(peer).await?;
                let online = self.presence_directory.is_online(peer).await;
                if cause == InboxChangeReason::FirstMessage && entry.conversation.created_by == user {
                    // The creator already has the inbox entry. Presence is announced from the first
                    // message on, so the peer may have connected or disconnected unseen since the
                    // creator opened the conversation.
                    if !profile.hides_presence {
                        push_presence(
                            &self.sessions,
                            &self.metrics,
                            &[user],
                            encode_presence(peer, online, &profile),
                        );
                    }
                    return Ok(());
                }
                Some(PresenceBody::new(peer, online, &profile))
            }
            None => None,
        };
        let frame = EncodedFrame::from(encode_conversation(&entry, presence));
        let mut pushes = 0;
        self.sessions.each_of(&user, &mut |session| {
            session.outbox.push(frame.clone());
            pushes += 1;
        });
        self.metrics.pushes.inc_by(pushes);
        Ok(())
    }
}
