//! Creating conversations and changing their members.

use crate::chat::{Chat, ChatError};
use crate::ports::{AddMembers, Creation, NewConversation, OpenedConversation, RemoveMember};
use crate::{ConversationId, ConversationWithMembers, Refusal, Title, UserId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidConversation {
    #[error("a direct conversation needs another user as its peer")]
    WithOneself,
    #[error("name at least one user")]
    NobodyNamed,
    #[error("at most {limit} users can be added in one call")]
    TooManyAtOnce { limit: usize },
}

impl Chat {
    pub async fn open_direct(&self, user: &UserId, peer: UserId) -> Result<OpenedConversation, ChatError> {
        if *user == peer {
            return Err(InvalidConversation::WithOneself.into());
        }
        self.require_known(user, std::slice::from_ref(&peer)).await?;
        let id = ConversationId::direct(user, &peer);
        self.open(user, id, Creation::Direct { peer }).await
    }

    pub async fn open_group(
        &self,
        user: &UserId,
        title: Title,
        members: Vec<UserId>,
    ) -> Result<OpenedConversation, ChatError> {
        let limit = self.rules.max_group_members;
        let others =
            members.iter().filter(|member| *member != user).collect::<std::collections::HashSet<_>>();
        if others.len() + 1 > limit {
            return Err(Refusal::GroupFull { limit }.into());
        }
        self.require_known(user, &members).await?;
        let mut bits = [0; 15];
        self.random.fill(&mut bits);
        self.open(user, ConversationId::group(bits), Creation::Group { title, members }).await
    }

    async fn open(
        &self,
        user: &UserId,
        id: ConversationId,
        creation: Creation,
    ) -> Result<OpenedConversation, ChatError> {
        let new = NewConversation { id, creation, created_by: user.clone(), created_at: self.clock.now() };
        Ok(self.store.open_conversation(new).await?)
    }

    pub async fn conversation(
        &self,
        reader: &UserId,
        id: ConversationId,
    ) -> Result<ConversationWithMembers, ChatError> {
        Ok(self.store.conversation(id, reader).await?)
    }

    pub async fn add_members(
        &self,
        actor: &UserId,
        conversation: ConversationId,
        users: Vec<UserId>,
    ) -> Result<ConversationWithMembers, ChatError> {
        let limit = self.rules.max_members_per_call;
        if users.is_empty() {
            return Err(InvalidConversation::NobodyNamed.into());
        }
        if users.len() > limit {
            return Err(InvalidConversation::TooManyAtOnce { limit }.into());
        }
        self.require_known(actor, &users).await?;
        let add = AddMembers {
            conversation,
            actor: actor.clone(),
            users,
            member_limit: self.rules.max_group_members,
            at: self.clock.now(),
        };
        Ok(self.store.add_members(add).await?)
    }

    pub async fn remove_member(
        &self,
        actor: &UserId,
        conversation: ConversationId,
        user: UserId,
    ) -> Result<ConversationWithMembers, ChatError> {
        self.keep_name(&user).await?;
        let remove = RemoveMember { conversation, actor: actor.clone(), user, at: self.clock.now() };
        Ok(self.store.remove_member(remove).await?)
    }
}
