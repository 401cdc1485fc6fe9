//! What is called how. Keys that one script uses share a hash tag, so that a cluster keeps them on one server.

use bluetick_core::{ConversationId, UserId};

/// How many parts the conversations are spread over. Each has a list of those with recent places, so more parts make that
/// longer to ask and a cluster easier to balance.
pub const SHARDS: u16 = 1024;

pub struct Keys {
    prefix: String,
}

pub struct ConversationKeys {
    pub conversation: String,
    /// Who sent where last.
    pub sent: String,
    pub recent: String,
}

pub struct UserKeys {
    pub routes: String,
    pub inbox: String,
    pub pending: String,
}

impl Keys {
    pub fn new(prefix: &str) -> Keys {
        Keys { prefix: prefix.to_owned() }
    }

    pub fn of_conversation(&self, id: ConversationId) -> ConversationKeys {
        let shard = shard(id);
        ConversationKeys {
            conversation: format!("{}:{{p{shard}}}:c:{id}", self.prefix),
            sent: format!("{}:{{p{shard}}}:s:{id}", self.prefix),
            recent: self.recent(shard),
        }
    }

    pub fn recent(&self, shard: u16) -> String {
        format!("{}:{{p{shard}}}:recent", self.prefix)
    }

    pub fn of_user(&self, user: &UserId) -> UserKeys {
        let tag = format!("{}:{{u:{}}}", self.prefix, without_braces(user.as_str()));
        UserKeys {
            routes: format!("{tag}:routes"),
            inbox: format!("{tag}:inbox"),
            pending: format!("{tag}:pending"),
        }
    }
}

/// The last bits of an id are random in groups and a hash in direct conversations.
fn shard(id: ConversationId) -> u16 {
    let bytes = id.as_bytes();
    u16::from_be_bytes([bytes[14], bytes[15]]) % SHARDS
}

/// A brace in a name would end the tag early. The percent sign is what the others are spelled with.
pub fn without_braces(name: &str) -> String {
    name.replace('%', "%25").replace('{', "%7b").replace('}', "%7d")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::call::slot;

    #[test]
    fn all_keys_of_somebody_are_on_one_server_whatever_the_name() {
        for name in ["alice", "}", "{", "a}b{c", "{}", "100%", "日本"] {
            let keys = Keys::new("bt").of_user(&name.parse().unwrap());
            let slots = [&keys.routes, &keys.inbox, &keys.pending].map(|key| slot(key.as_bytes()));
            assert!(slots.iter().all(|one| *one == slots[0]), "{name}");
        }
    }

    #[test]
    fn no_two_names_share_their_keys() {
        let names = ["}", "{", "%7b", "%7d", "%257b", "a"];
        let keys = names.map(|name| Keys::new("bt").of_user(&name.parse().unwrap()).routes);
        let different: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(different.len(), names.len());
    }

    #[test]
    fn all_keys_of_a_conversation_are_on_one_server() {
        let keys = Keys::new("bt").of_conversation(ConversationId::group([7; 15]));
        assert_eq!(keys.conversation, "bt:{p775}:c:g0w3ge1r70w3ge1r70w3ge1r7");
        let of = |key: &str| slot(key.as_bytes());
        assert!(of(&keys.conversation) == of(&keys.sent) && of(&keys.sent) == of(&keys.recent));
    }
}
