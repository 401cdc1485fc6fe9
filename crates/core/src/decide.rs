//! Pure decision functions: they turn a command and the current state into the facts to store, so
//! that every store adapter decides alike.
//!
//! An adapter calls them when it writes, stores the facts atomically, and only then makes them
//! visible.

use std::sync::Arc;

use crate::members::MembershipChange;
use crate::notice::Notice;
use crate::ports::{AddMembers, Append, Creation, NewConversation, RemoveMember};
use crate::{
    ContentType, Conversation, ConversationId, ConversationKind, Member, Members, Message, MessageId,
    Refusal, Role, Seq, Timestamp, UserId,
};

/// The facts of a new conversation, before an adapter stores them.
#[derive(Clone, Debug)]
pub struct InitialState {
    pub conversation: Conversation,
    pub members: Members,
    /// The `group_created` notice at seq 1; `None` for direct conversations.
    pub notice: Option<Message>,
}

/// Decides the initial state of a conversation. A group starts with a notice at seq 1.
pub fn initial_state(new: &NewConversation) -> InitialState {
    let (title, members, notice) = match &new.creation {
        Creation::Direct { peer } => (None, Members::direct(new.created_by.clone(), peer.clone()), None),
        Creation::Group { title, members } => {
            let members = Members::founding(&new.created_by, members);
            let notice = Notice::GroupCreated {
                by: new.created_by.as_str(),
                title: title.as_str(),
                member_count: members.len(),
            };
            let notice = notice_message(new.id, Seq::FIRST, &new.created_by, &notice, new.created_at);
            (Some(title.clone()), members, Some(notice))
        }
    };
    let conversation = Conversation {
        id: new.id,
        title,
        created_by: new.created_by.clone(),
        created_at: new.created_at,
        head: if notice.is_some() { Seq::FIRST } else { Seq::ZERO },
        last_at: new.created_at,
    };
    InitialState { conversation, members, notice }
}

/// A membership change and the notice that announces it.
pub type ChangeWithNotice = (MembershipChange, Message);

/// Decides which users join, each with a notice at its own seq from `head` + 1 on. `head` is the
/// highest allocated seq. Returns an empty list when all users are members already. Fails like
/// [`Members::plan_addition`].
pub fn add_members(add: &AddMembers, members: &Members, head: Seq) -> Result<Vec<ChangeWithNotice>, Refusal> {
    let kind = add.conversation.kind();
    let joining = members.plan_addition(kind, &add.actor, &add.users, add.member_limit)?;
    let noted = joining.into_iter().zip(head.next().get()..).map(|(user, seq)| {
        let seq = Seq::new(seq);
        let notice = Notice::MemberAdded { by: add.actor.as_str(), user_id: user.as_str() };
        let message = notice_message(add.conversation, seq, &add.actor, &notice, add.at);
        (MembershipChange::Joined(Member { user, role: Role::Member, joined_seq: seq }), message)
    });
    Ok(noted.collect())
}

/// Decides the removal of a member, with a notice at `head` + 1. Fails like
/// [`Members::plan_removal`].
pub fn remove_member(
    remove: &RemoveMember,
    members: &Members,
    head: Seq,
) -> Result<ChangeWithNotice, Refusal> {
    let kind = remove.conversation.kind();
    let new_admin = members.plan_removal(kind, &remove.actor, &remove.user)?;
    let notice = Notice::departure(&remove.actor, &remove.user);
    let message = notice_message(remove.conversation, head.next(), &remove.actor, &notice, remove.at);
    Ok((MembershipChange::Left { user: remove.user.clone(), new_admin }, message))
}

/// Builds the message that an append becomes at `seq`.
pub fn place(append: Append, members: &Members, seq: Seq) -> Message {
    let receiver = match append.conversation.kind() {
        ConversationKind::Direct => members.peer_of(&append.sender).cloned(),
        ConversationKind::Group => None,
    };
    Message {
        conversation: append.conversation,
        seq,
        message_id: append.message_id,
        sender: append.sender,
        receiver,
        content_type: append.content_type,
        content: append.content,
        timestamp: append.timestamp,
        received_at: append.received_at,
    }
}

/// Returns whether a resend has the same content as the message stored under its id. It ignores the
/// timestamp, because the sender's clock may change between attempts.
pub fn same_message(stored: &Message, append: &Append) -> bool {
    stored.content == append.content && stored.content_type == append.content_type
}

fn notice_message(
    conversation: ConversationId,
    seq: Seq,
    actor: &UserId,
    notice: &Notice<'_>,
    at: Timestamp,
) -> Message {
    Message {
        conversation,
        seq,
        message_id: MessageId::of_notice(seq),
        sender: actor.clone(),
        receiver: None,
        content_type: ContentType::System,
        content: Arc::from(notice.content()),
        timestamp: at,
        received_at: at,
    }
}
