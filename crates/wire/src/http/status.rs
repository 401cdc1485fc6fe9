//! Receipt counts and read states over HTTP.

use bluetick_core::ports::{MemberStatus, Statuses};
use bluetick_core::{ConversationId, ReadState, ReceiptCounts, Seq, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::message::parse_seq;
use super::query;
use crate::{BadInput, text};

/// A cumulative receipt.
#[derive(Debug, Deserialize, ToSchema)]
// The name of the component in v1 of the document.
#[schema(as = MarkRequest, example = json!({"seq": 44}))]
pub struct ReceiptRequest {
    /// Every message up to this seq is delivered or read. A value above the head counts as the
    /// head. A value that is not above the current one changes nothing.
    seq: u64,
}

impl ReceiptRequest {
    pub fn seq(&self) -> Seq {
        Seq::new(self.seq).min(Seq::MAX)
    }
}

/// The read state of a member.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"user_id": "bob", "last_delivered_seq": 44, "last_read_seq": 40, "joined_seq": 1}))]
pub struct MemberStatusBody<'a> {
    /// The member.
    pub user_id: &'a str,
    /// Every message up to this seq is delivered; 0 if none is.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_delivered_seq: Seq,
    /// Every message up to this seq is read; 0 if none is. Never above `last_delivered_seq`.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_read_seq: Seq,
    /// The first seq that the member can see. Earlier messages do not need its receipt. To compute
    /// the tick of a group message, use the maximum of each value above and `joined_seq - 1`.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub joined_seq: Seq,
}

impl<'a> From<&'a MemberStatus> for MemberStatusBody<'a> {
    fn from(status: &'a MemberStatus) -> MemberStatusBody<'a> {
        let ReadState { delivered, read } = status.read_state;
        MemberStatusBody {
            user_id: status.user.as_str(),
            last_delivered_seq: delivered,
            last_read_seq: read,
            joined_seq: status.joined,
        }
    }
}

/// The read state of the caller after a receipt.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "conversation_id": "d0123456789abcdefghjkmnpq", "user_id": "bob", "last_delivered_seq": 44, "last_read_seq": 40,
}))]
pub struct OwnStatusBody<'a> {
    /// The conversation.
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    /// The caller.
    pub user_id: &'a str,
    /// Every message up to this seq is delivered; 0 if none is.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_delivered_seq: Seq,
    /// Every message up to this seq is read; 0 if none is. Never above `last_delivered_seq`.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_read_seq: Seq,
}

impl<'a> OwnStatusBody<'a> {
    pub fn new(
        conversation_id: ConversationId,
        user: &'a UserId,
        read_state: ReadState,
    ) -> OwnStatusBody<'a> {
        let ReadState { delivered, read } = read_state;
        OwnStatusBody {
            conversation_id,
            user_id: user.as_str(),
            last_delivered_seq: delivered,
            last_read_seq: read,
        }
    }
}

/// The read states of all members.
#[derive(Debug, Serialize, ToSchema)]
#[schema(title = "Read state of each member", example = json!({
    "head_seq": 44, "members": [{"user_id": "bob", "last_delivered_seq": 44, "last_read_seq": 40, "joined_seq": 1}],
}))]
pub struct StatusesBody<'a> {
    /// The newest seq of the conversation; 0 if it has no messages.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub head_seq: Seq,
    /// All members, sorted by user_id. A member without receipts has 0 in both values.
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

/// The receipt counts of one message. They exclude its sender and the members who joined after it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(title = "Receipt counts of one message", example = json!({"seq": 44, "recipient_count": 9, "delivered_count": 7, "read_count": 3}))]
pub struct ReceiptsBody {
    /// The seq of the message.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// The number of members who should receive the message.
    pub recipient_count: usize,
    /// The number of recipients to whom the message is delivered.
    pub delivered_count: usize,
    /// The number of recipients who have read the message.
    pub read_count: usize,
}

impl ReceiptsBody {
    pub fn new(seq: Seq, receipts: ReceiptCounts) -> ReceiptsBody {
        ReceiptsBody {
            seq,
            recipient_count: receipts.recipients,
            delivered_count: receipts.delivered,
            read_count: receipts.read,
        }
    }
}

/// The read states of all members, or with the parameter `seq` the receipt counts of that message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum StatusBody<'a> {
    Everybody(StatusesBody<'a>),
    OneMessage(ReceiptsBody),
}

/// The query parameters of a status call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusParameters {
    /// The message whose receipts to count. `None` lists all members.
    pub seq: Option<Seq>,
}

impl StatusParameters {
    pub fn parse(query: &str) -> Result<StatusParameters, BadInput> {
        let [seq] = query::values(query, ["seq"])?;
        let seq = seq.map(|seq| parse_seq("seq", &seq, 1)).transpose()?;
        Ok(StatusParameters { seq })
    }
}
