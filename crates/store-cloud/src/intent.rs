//! A change of members that is decided and not carried out yet: what stands in the room's row meanwhile, the notices it comes
//! with, and whose rows it changes. Who carries it out is in [`changes`](crate::changes).

use std::sync::Arc;

use bluetick_core::notice::Notice;
use bluetick_core::{
    ContentType, ConversationId, Member, Members, Message, MessageId, Role, Seq, StoreError, Timestamp,
    UserId,
};
use serde::{Deserialize, Serialize};

use crate::cells::Cell;

/// A change of members that is decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Intent {
    pub actor: String,
    pub at: i64,
    /// The latest activity of the conversation, the notices included.
    pub last_at: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joining: Vec<Joining>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaving: Option<Leaving>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Joining {
    pub user: String,
    pub seq: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Leaving {
    pub user: String,
    pub seq: u64,
    pub heir: Option<String>,
}

impl Intent {
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("an intent holds strings and numbers only")
    }

    pub fn from_text(text: &str) -> Result<Intent, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The notices it comes with, in order.
    pub fn notices(&self, id: ConversationId) -> Result<Vec<Cell>, StoreError> {
        let actor = user(&self.actor)?;
        let joining = self.joining.iter().map(|joining| {
            let notice = Notice::MemberAdded { by: &self.actor, user_id: &joining.user };
            Ok(self.notice_cell(id, joining.seq, &actor, &notice, None))
        });
        let leaving = self.leaving.iter().map(|leaving| {
            let departed = user(&leaving.user)?;
            let notice = Notice::departure(&actor, &departed);
            Ok(self.notice_cell(id, leaving.seq, &actor, &notice, Some(departed.clone())))
        });
        joining.chain(leaving).collect()
    }

    fn notice_cell(
        &self,
        conversation: ConversationId,
        seq: u64,
        actor: &UserId,
        notice: &Notice<'_>,
        departed: Option<UserId>,
    ) -> Cell {
        let (seq, at) = (Seq::new(seq), Timestamp::from_millis(self.at));
        let message = Message {
            conversation,
            seq,
            message_id: MessageId::of_notice(seq),
            sender: actor.clone(),
            receiver: None,
            content_type: ContentType::System,
            content: Arc::from(notice.content()),
            timestamp: at,
            received_at: at,
        };
        let last_at = Some(Timestamp::from_millis(self.last_at));
        Cell { message: Arc::new(message), last_at, departed, cold: None }
    }

    pub fn move_notice(&mut self, index: usize, seq: Seq) {
        match self.joining.get_mut(index) {
            Some(joining) => joining.seq = seq.get(),
            None => {
                if let Some(leaving) = &mut self.leaving {
                    leaving.seq = seq.get();
                }
            }
        }
    }

    /// Whose rows change, and to what; `None` where somebody leaves.
    pub fn changes(&self, members: &Members) -> Result<Vec<(UserId, Option<Member>)>, StoreError> {
        let mut changes = Vec::new();
        for joining in &self.joining {
            let user = user(&joining.user)?;
            let member = Member { user: user.clone(), role: Role::Member, joined_seq: Seq::new(joining.seq) };
            changes.push((user, Some(member)));
        }
        if let Some(leaving) = &self.leaving {
            changes.push((user(&leaving.user)?, None));
            if let Some(heir) = &leaving.heir {
                let heir = user(heir)?;
                let member = members.get(&heir).map(|member| Member { role: Role::Admin, ..member.clone() });
                changes.push((heir, member));
            }
        }
        Ok(changes)
    }
}

pub(crate) fn user(text: &str) -> Result<UserId, StoreError> {
    UserId::from_stored(text).map_err(|_| StoreError::Damaged("a user id in an intent".into()))
}
