//! Handles `typing` frames: forwards them at a limited rate if the user is a member.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bluetick_core::chat::ChatError;
use bluetick_core::ports::Ephemeral;
use bluetick_core::{ConversationId, ConversationKind, ConversationView, Seq};
use bluetick_wire::frame::TypingFrame;

use super::flights::Flights;
use super::session::Connection;
use crate::hub::Paces;
use crate::metrics::Dropped;
use crate::problem::Problem;

/// Minimum interval between two forwarded frames of one connection and conversation. A shorter one
/// costs more membership reads and pushes.
const PACE: Duration = Duration::from_secs(2);

/// Maximum number of conversations in which one connection may type within [`PACE`]. Frames beyond
/// it are dropped.
const MOST_CONVERSATIONS: usize = 64;

/// Maximum number of frames of one connection that wait for a membership read. Frames beyond it are
/// dropped.
const MOST_ASKED: usize = 8;

type Asking = Pin<Box<dyn Future<Output = Members> + Send>>;
pub(super) type Members = (ConversationId, Result<ConversationView, ChatError>);

/// The typing state of one connection: its rate limit and its running membership reads.
pub(super) struct Typing {
    paces: Paces<ConversationId>,
    asking: Flights<Asking>,
}

impl Typing {
    pub fn new() -> Typing {
        Typing { paces: Paces::new(PACE, MOST_CONVERSATIONS), asking: Flights::none() }
    }

    /// Polls for the members of a conversation in which the user is typing. Pending while no read
    /// runs.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Members> {
        self.asking.poll(cx)
    }

    /// Frees unused memory. Called on an idle connection.
    pub fn rest(&mut self) {
        self.asking.rest();
    }
}

impl Connection {
    pub fn typing(&mut self, frame: &TypingFrame<'_>) {
        let Some(conversation) = frame.conversation() else {
            self.answer(Problem::no_such_conversation(), None);
            return;
        };
        if self.typing.asking.len() >= MOST_ASKED {
            self.app.metrics.dropped(Dropped::Ephemeral, 1);
        } else if self.typing.paces.allows(conversation) {
            let (app, session) = (Arc::clone(&self.app), Arc::clone(&self.session));
            let members =
                async move { (conversation, app.chat.conversation(&session.user, conversation).await) };
            self.typing.asking.push(Box::pin(members));
        }
    }

    pub fn typing_members(&mut self, (conversation, members): Members) {
        match members {
            // The peer does not see the conversation before its first message.
            Ok(view)
                if view.conversation.kind() == ConversationKind::Direct
                    && view.conversation.head == Seq::ZERO => {}
            Ok(view) => {
                let user = &self.session.user;
                if self.app.hub.typing(&view, user) {
                    let (user, members) = (user.clone(), view.members);
                    self.app.whereabouts.send_ephemeral(Ephemeral::Typing { conversation, user, members });
                }
            }
            Err(error) => self.answer_in(Some(conversation), error.into()),
        }
    }
}
