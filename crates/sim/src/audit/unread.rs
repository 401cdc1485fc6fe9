//! Checks the unread count: messages by others above the read seq, without voids and notices.

use bluetick_core::{ConversationId, UserId};
use serde_json::Value;

use super::{Auditor, Guarantee};

impl Auditor {
    /// Checks an inbox entry of a member who is in the conversation from its creation. The numbers
    /// of an entry must be consistent with each other, whatever snapshot they come from. `stored`
    /// is the highest acknowledged seq when the inbox was requested.
    pub fn inbox_entry(&mut self, id: ConversationId, reader: &UserId, stored: u64, entry: &Value) {
        let (Some(last), Some(unread), Some(read)) = (
            entry["last_seq"].as_u64(),
            entry["unread"].as_u64(),
            entry["my_status"]["last_read_seq"].as_u64(),
        ) else {
            return self.find(Guarantee::UnreadExact, Some(id), format!("an inbox without numbers: {entry}"));
        };
        if last < stored {
            let what = format!(
                "{stored} was acknowledged, and the inbox of {reader} requested later ends at {last}"
            );
            return self.find(Guarantee::NoLoss, Some(id), what);
        }
        let Some(known) = self.conversations.get(&id) else { return };
        let above: Vec<_> =
            known.cells.range(read + 1..=last.max(read + 1)).filter(|(seq, _)| **seq <= last).collect();
        if above.len() as u64 != last.saturating_sub(read) {
            // Not all of these messages are known yet, so the count cannot be checked.
            return;
        }
        let others =
            above.iter().filter(|(_, seen)| seen.is_sent() && seen.sender != reader.as_str()).count() as u64;
        if unread != others {
            let what = format!(
                "{reader} has read up to {read} of {last}, {others} are unread, and its inbox says {unread}"
            );
            self.find(Guarantee::UnreadExact, Some(id), what);
        }
    }
}
