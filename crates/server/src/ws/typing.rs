//! Handles `typing` frames: forwards them at a limited rate if the user is a member.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bluetick_core::chat::ChatError;
use bluetick_core::ports::Ephemeral;
use bluetick_core::{ConversationId, ConversationKind, ConversationWithMembers, Seq};
use bluetick_wire::frame::TypingFrame;

use super::running_futures::RunningFutures;
use super::session_loop::SessionLoop;
use crate::delivery::Throttle;
use crate::metrics::Dropped;
use crate::problem::Problem;

/// Minimum interval between two forwarded frames of one connection and conversation. A shorter one
/// costs more membership reads and pushes.
const FRAME_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum number of conversations in which one connection may type within [`FRAME_INTERVAL`]. It
/// bounds memory per connection. Frames beyond it are dropped.
const MAX_CONVERSATIONS: usize = 64;

/// Maximum number of frames of one connection that wait for a membership read. It bounds the load
/// on the store. Frames beyond it are dropped.
const MAX_PENDING_READS: usize = 8;

type MembersFuture = Pin<Box<dyn Future<Output = TypingMembersResult> + Send>>;
pub(super) type TypingMembersResult = (ConversationId, Result<ConversationWithMembers, ChatError>);

/// The typing state of one connection: its rate limit and its running membership reads.
pub(super) struct TypingRequests {
    throttle: Throttle<ConversationId>,
    pending: RunningFutures<MembersFuture>,
}

impl TypingRequests {
    pub fn new() -> TypingRequests {
        TypingRequests {
            throttle: Throttle::new(FRAME_INTERVAL, MAX_CONVERSATIONS),
            pending: RunningFutures::none(),
        }
    }

    /// Polls for the members of a conversation in which the user is typing. Pending while no read
    /// runs.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<TypingMembersResult> {
        self.pending.poll(cx)
    }

    /// Frees unused memory. Called on an idle connection.
    pub fn free_unused(&mut self) {
        self.pending.free_unused();
    }
}

impl SessionLoop {
    pub fn typing(&mut self, frame: &TypingFrame<'_>) {
        let Some(conversation) = frame.conversation() else {
            self.answer(Problem::no_such_conversation(), None);
            return;
        };
        if self.typing.pending.len() >= MAX_PENDING_READS {
            self.app.metrics.dropped(Dropped::Ephemeral, 1);
        } else if self.typing.throttle.allows(conversation) {
            let (app, session) = (Arc::clone(&self.app), Arc::clone(&self.session));
            let members =
                async move { (conversation, app.chat.conversation(&session.user, conversation).await) };
            self.typing.pending.push(Box::pin(members));
        }
    }

    pub fn typing_members(&mut self, (conversation, members): TypingMembersResult) {
        match members {
            // The peer does not see the conversation before its first message.
            Ok(view)
                if view.conversation.kind() == ConversationKind::Direct
                    && view.conversation.head == Seq::ZERO => {}
            Ok(view) => {
                let user = &self.session.user;
                if self.app.hub.typing(&view, user) {
                    let (user, members) = (user.clone(), view.members);
                    self.app.presence_directory.send_ephemeral(Ephemeral::Typing {
                        conversation,
                        user,
                        members,
                    });
                }
            }
            Err(error) => self.answer_in(Some(conversation), error.into()),
        }
    }
}
