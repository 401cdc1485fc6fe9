//! The worker that pushes changed inbox entries. It handles them one by one in queue order, so the
//! newest state arrives last.

use std::sync::Arc;

use bluetick_core::Chat;
use bluetick_core::chat::ChatError;
use bluetick_wire::frame::{encode_conversation, encode_presence};
use bluetick_wire::http::PresenceBody;
use tokio::sync::mpsc;

use super::changes::{Cause, EntryChanged};
use super::presence::tell;
use super::{Frame, Sessions, Whereabouts, guarded};
use crate::metrics::Metrics;

/// Capacity of the queue of changed inbox entries. The largest expected burst is a new group with
/// thousands of connected members. Entries beyond the capacity are dropped.
pub(super) const WAITING_ENTRIES: usize = 16_384;

/// Reads changed inbox entries from the store and pushes them to the user's devices.
pub(super) struct Shower {
    pub changed: mpsc::Receiver<EntryChanged>,
    pub sessions: Arc<Sessions>,
    pub whereabouts: Whereabouts,
    pub chat: Chat,
    pub metrics: Arc<Metrics>,
}

impl Shower {
    pub async fn run(mut self) {
        while let Some(changed) = self.changed.recv().await {
            let conversation = changed.conversation;
            let shown = async {
                if let Err(error) = self.show(changed).await {
                    // Most likely the user has left the conversation.
                    tracing::debug!(%conversation, %error, "a line of the inbox could not be shown");
                }
            };
            guarded("inbox entries", shown).await;
        }
    }

    async fn show(&self, EntryChanged { conversation, user, cause }: EntryChanged) -> Result<(), ChatError> {
        if !self.sessions.is_online(&user) {
            return Ok(());
        }
        let entry = self.chat.inbox_entry(&user, conversation).await?;
        let presence = match &entry.peer {
            Some(peer) => {
                let profile = self.chat.profile(peer).await?;
                let online = self.whereabouts.is_online(peer).await;
                if cause == Cause::FirstMessage && entry.conversation.created_by == user {
                    // The creator already has the inbox entry. Presence is announced from the first
                    // message on, so the peer may have connected or disconnected unseen since the
                    // creator opened the conversation.
                    if !profile.hides_presence {
                        tell(&self.sessions, &self.metrics, &[user], encode_presence(peer, online, &profile));
                    }
                    return Ok(());
                }
                Some(PresenceBody::new(peer, online, &profile))
            }
            None => None,
        };
        let frame = Frame::from(encode_conversation(&entry, presence));
        let mut pushes = 0;
        self.sessions.each_of(&user, &mut |session| {
            session.outbox.push(frame.clone());
            pushes += 1;
        });
        self.metrics.pushes.inc_by(pushes);
        Ok(())
    }
}
