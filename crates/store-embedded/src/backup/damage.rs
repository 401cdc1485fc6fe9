//! Tracks rows that were already damaged when the backup was made. The check of the restored store
//! accepts findings that these rows explain. Any other finding is new damage and fails the restore.

use std::collections::HashSet;

use crate::check::{Finding, first_conversation, row_problem};
use crate::codec::{DecodeError, rows};

/// The damaged rows of a backup.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DamagedRows {
    pub rows: u64,
    /// Conversations with a damaged row, in the spelling of [`Finding::conversation_id`].
    conversations: HashSet<String>,
    /// Whether a damaged row belongs to no single conversation.
    elsewhere: bool,
    /// Whether a key was damaged, so that its row may belong to any conversation.
    anywhere: bool,
}

impl DamagedRows {
    /// Checks a row before it is restored.
    pub fn note_row(&mut self, table: &str, key: &[u8], row: &[u8]) {
        let Some(problem) = row_problem(table, key, row) else { return };
        self.rows += 1;
        if problem == DecodeError::Key {
            self.anywhere = true;
            return;
        }
        let conversation = match table {
            "conversations" | "chunks" | "members" | "segments" | "progress" => first_conversation(key),
            "inbox" | "pending" => rows::key_conversation(key),
            "order" => rows::read_inbox_position(key).map(|position| position.id),
            _ => {
                self.elsewhere = true;
                return;
            }
        };
        match conversation {
            Ok(id) => drop(self.conversations.insert(id.to_string())),
            Err(_) => self.elsewhere = true,
        }
    }

    /// Returns whether the damaged rows explain a finding.
    pub fn explains(&self, finding: &Finding) -> bool {
        match &finding.conversation_id {
            // Findings in files concern the log or the pages, not rows.
            _ if finding.file.is_some() => false,
            _ if self.anywhere => true,
            Some(conversation) => self.conversations.contains(conversation),
            None => self.elsewhere || finding.table == Some("meta") && self.rows > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::ConversationId;

    use super::*;

    #[test]
    fn damage_explains_only_findings_of_its_own_conversation() {
        let [one, other] = ["bob", "carol"]
            .map(|peer| ConversationId::direct(&"alice".parse().unwrap(), &peer.parse().unwrap()));
        let mut damage = DamagedRows::default();
        let found = |id: ConversationId| Finding::row("chunks", id.to_string(), "not there").of(id);
        assert!(!damage.explains(&found(one)));
        damage.note_row("conversations", one.as_bytes(), b"no row");
        assert_eq!(damage.rows, 1);
        assert!(damage.explains(&found(one)) && !damage.explains(&found(other)));
        assert!(!damage.explains(&Finding::row("users", "alice", "not there")));
        assert!(!damage.explains(&Finding::file("log/1", 0, "not there").of(one)));
        damage.note_row("users", b"alice", b"no row");
        assert!(damage.explains(&Finding::row("names", "alice", "no account has this name")));
        assert!(!damage.explains(&found(other)));
    }
}
