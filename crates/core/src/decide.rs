//! From a command and the state it meets to the facts that follow: pure, so that every adapter decides alike.
//!
//! An adapter calls these at the moment of writing, stores the facts together, and only then shows them.

use std::sync::Arc;

use crate::members::MembershipChange;
use crate::notice::Notice;
use crate::ports::{AddMembers, Append, Creation, NewConversation, RemoveMember};
use crate::{
    ContentType, Conversation, ConversationId, ConversationKind, Member, Members, Message, MessageId,
    Refusal, Role, Seq, Timestamp, UserId,
};

/// A conversation that is about to exist.
#[derive(Clone, Debug)]
pub struct Founding {
    pub conversation: Conversation,
    pub members: Members,
    /// Groups start with one.
    pub notice: Option<Message>,
}

pub fn found(new: &NewConversation) -> Founding {
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
    Founding { conversation, members, notice }
}

/// One change of membership and the notice that tells of it.
pub type NotedChange = (MembershipChange, Message);

/// `head` is the newest place taken so far. Empty when all of them are in already.
pub fn add_members(add: &AddMembers, members: &Members, head: Seq) -> Result<Vec<NotedChange>, Refusal> {
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

pub fn remove_member(remove: &RemoveMember, members: &Members, head: Seq) -> Result<NotedChange, Refusal> {
    let kind = remove.conversation.kind();
    let new_admin = members.plan_removal(kind, &remove.actor, &remove.user)?;
    let notice = Notice::departure(&remove.actor, &remove.user);
    let message = notice_message(remove.conversation, head.next(), &remove.actor, &notice, remove.at);
    Ok((MembershipChange::Left { user: remove.user.clone(), new_admin }, message))
}

/// The message an append becomes at `seq`.
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

/// Whether the message stored under the same id says the same. The sender's clock may have moved between attempts.
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
