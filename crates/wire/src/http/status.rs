//! Ticks over HTTP.

use bluetick_core::ports::{MemberStatus, Statuses};
use bluetick_core::{Boundaries, ConversationId, Receipts, Seq, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::inbox::BoundariesBody;
use super::message::parse_seq;
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
#[schema(example = json!({"user_id": "bob", "last_delivered_seq": 44, "last_read_seq": 40}))]
pub struct MemberStatusBody<'a> {
    pub user_id: &'a str,
    #[serde(flatten)]
    pub boundaries: BoundariesBody,
}

impl<'a> From<&'a MemberStatus> for MemberStatusBody<'a> {
    fn from(status: &'a MemberStatus) -> MemberStatusBody<'a> {
        MemberStatusBody { user_id: status.user.as_str(), boundaries: status.boundaries.into() }
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
    #[serde(flatten)]
    pub boundaries: BoundariesBody,
}

impl<'a> OwnStatusBody<'a> {
    pub fn new(
        conversation_id: ConversationId,
        user: &'a UserId,
        boundaries: Boundaries,
    ) -> OwnStatusBody<'a> {
        OwnStatusBody { conversation_id, user_id: user.as_str(), boundaries: boundaries.into() }
    }
}

/// How far everybody has come, and with `seq` how many have that message.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "head_seq": 44, "members": [{"user_id": "bob", "last_delivered_seq": 44, "last_read_seq": 40}],
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

/// The query of a status call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusParameters {
    /// Count who has this message, instead of listing everybody.
    pub seq: Option<Seq>,
}

impl StatusParameters {
    pub fn parse(query: &str) -> Result<StatusParameters, BadInput> {
        let mut seq = None;
        for pair in query.split('&') {
            if let Some(value) = pair.strip_prefix("seq=")
                && seq.replace(parse_seq("seq", value, 1)?).is_some()
            {
                return Err(BadInput::field("seq", "given more than once"));
            }
        }
        Ok(StatusParameters { seq })
    }
}
