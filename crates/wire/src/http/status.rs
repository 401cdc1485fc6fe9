//! Ticks over HTTP.

use bluetick_core::ports::{MemberStatus, Statuses};
use bluetick_core::{Boundaries, ConversationId, Receipts, Seq, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::message::parse_seq;
use super::query;
use crate::{BadInput, text};

/// Everything up to this seq was delivered, or read. Above the newest message it counts as that; what is late or
/// repeated changes nothing.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"seq": 44}))]
pub struct MarkRequest {
    seq: u64,
}

impl MarkRequest {
    pub fn seq(&self) -> Seq {
        Seq::new(self.seq).min(Seq::MAX)
    }
}

/// How far somebody has come.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"user_id": "bob", "last_delivered_seq": 44, "last_read_seq": 40, "joined_seq": 1}))]
pub struct MemberStatusBody<'a> {
    pub user_id: &'a str,
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_delivered_seq: Seq,
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_read_seq: Seq,
    /// The first seq the member sees. What lies below does not concern it: for the tick of a group message, take the
    /// later of each boundary and the place before this.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub joined_seq: Seq,
}

impl<'a> From<&'a MemberStatus> for MemberStatusBody<'a> {
    fn from(status: &'a MemberStatus) -> MemberStatusBody<'a> {
        let Boundaries { delivered, read } = status.boundaries;
        MemberStatusBody {
            user_id: status.user.as_str(),
            last_delivered_seq: delivered,
            last_read_seq: read,
            joined_seq: status.joined,
        }
    }
}

/// Where one stands after a mark.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "conversation_id": "d0123456789abcdefghjkmnpq", "user_id": "bob", "last_delivered_seq": 44, "last_read_seq": 40,
}))]
pub struct OwnStatusBody<'a> {
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    pub user_id: &'a str,
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_delivered_seq: Seq,
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_read_seq: Seq,
}

impl<'a> OwnStatusBody<'a> {
    pub fn new(
        conversation_id: ConversationId,
        user: &'a UserId,
        boundaries: Boundaries,
    ) -> OwnStatusBody<'a> {
        let Boundaries { delivered, read } = boundaries;
        OwnStatusBody {
            conversation_id,
            user_id: user.as_str(),
            last_delivered_seq: delivered,
            last_read_seq: read,
        }
    }
}

/// How far everybody has come.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "head_seq": 44, "members": [{"user_id": "bob", "last_delivered_seq": 44, "last_read_seq": 40, "joined_seq": 1}],
}))]
pub struct StatusesBody<'a> {
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub head_seq: Seq,
    /// Every member, sorted by name; 0 where somebody has said nothing yet.
    pub members: Vec<MemberStatusBody<'a>>,
}

impl<'a> From<&'a Statuses> for StatusesBody<'a> {
    fn from(statuses: &'a Statuses) -> StatusesBody<'a> {
        StatusesBody {
            head_seq: statuses.head,
            members: statuses.members.iter().map(MemberStatusBody::from).collect(),
        }
    }
}

/// Who has one message: its sender does not count, nor those who joined later.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"seq": 44, "recipient_count": 9, "delivered_count": 7, "read_count": 3}))]
pub struct ReceiptsBody {
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub seq: Seq,
    pub recipient_count: usize,
    pub delivered_count: usize,
    pub read_count: usize,
}

impl ReceiptsBody {
    pub fn new(seq: Seq, receipts: Receipts) -> ReceiptsBody {
        ReceiptsBody {
            seq,
            recipient_count: receipts.recipients,
            delivered_count: receipts.delivered,
            read_count: receipts.read,
        }
    }
}

/// How far everybody has come; asked with `seq`, how many have that message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum StatusBody<'a> {
    Everybody(StatusesBody<'a>),
    OneMessage(ReceiptsBody),
}

/// The query of a status call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusParameters {
    /// Count who has this message, instead of listing everybody.
    pub seq: Option<Seq>,
}

impl StatusParameters {
    pub fn parse(query: &str) -> Result<StatusParameters, BadInput> {
        let [seq] = query::values(query, ["seq"])?;
        let seq = seq.map(|seq| parse_seq("seq", &seq, 1)).transpose()?;
        Ok(StatusParameters { seq })
    }
}
