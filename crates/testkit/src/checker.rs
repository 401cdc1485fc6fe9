//! Checks a run by comparing the clients' logs with the final history.
//!
//! It does not rely on the server's own claims: each acknowledged message must be in the history
//! once, at the acknowledged seq.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

/// The ordered actions and events of one sender over all its connections. After a reconnect, the
/// sender first resends unacknowledged messages in the same order.
#[derive(Clone, Debug, Default)]
pub struct ClientLog {
    pub sender: String,
    pub events: Vec<ClientEvent>,
}

#[derive(Clone, Debug)]
pub enum ClientEvent {
    Connected,
    Attempted {
        conversation: String,
        message_id: String,
        content: String,
    },
    Acknowledged {
        conversation: String,
        message_id: String,
        seq: u64,
        duplicate: bool,
    },
    Received {
        conversation: String,
        seq: u64,
        sender: String,
        content: String,
    },
    /// The connection skips everything up to this seq: the server announced it, or the receiver may
    /// not see it.
    LeftOut {
        conversation: String,
        up_to: u64,
    },
}

/// A message as a history page shows it.
#[derive(Clone, Debug)]
pub struct HistoryMessage {
    pub seq: u64,
    pub sender: String,
    pub message_id: String,
    pub content: String,
    /// No client wrote it: it is a notice or a void.
    pub system: bool,
}

/// The complete history of every conversation.
pub type Histories = BTreeMap<String, Vec<HistoryMessage>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    NotDense {
        conversation: String,
        expected: u64,
        found: u64,
    },
    AcknowledgedThenLost {
        conversation: String,
        message_id: String,
        seq: u64,
    },
    NotAtItsPlace {
        conversation: String,
        message_id: String,
        acknowledged: u64,
        found: u64,
    },
    StoredTwice {
        conversation: String,
        sender: String,
        message_id: String,
    },
    Invented {
        conversation: String,
        seq: u64,
    },
    Altered {
        conversation: String,
        seq: u64,
    },
    /// A message of a sender is stored although an earlier one of the same sender is missing or
    /// stored later.
    NotAPrefix {
        conversation: String,
        sender: String,
        missing_or_late: String,
    },
    /// A connection received a seq that does not directly follow the last one: skipped, repeated or
    /// out of order.
    PushedOutOfOrder {
        receiver: String,
        conversation: String,
        after: u64,
        then: u64,
    },
    /// The pushed message differs from the stored one at that seq.
    PushedSomethingElse {
        receiver: String,
        conversation: String,
        seq: u64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Counters, so that a test can assert that enough was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub attempted: usize,
    pub acknowledged: usize,
    pub stored: usize,
    pub received: usize,
    pub connections: usize,
}

pub fn check(logs: &[ClientLog], histories: &Histories) -> Result<Checked, Vec<Violation>> {
    let mut violations = Vec::new();
    let mut checked = Checked::default();
    let mut attempted: HashMap<(&str, &str, &str), &str> = HashMap::new();
    for log in logs {
        for event in &log.events {
            if let ClientEvent::Attempted { conversation, message_id, content } = event {
                attempted.insert((conversation, &log.sender, message_id), content);
            }
        }
    }
    checked.attempted = attempted.len();

    let mut places: HashMap<(&str, &str, &str), u64> = HashMap::new();
    for (conversation, messages) in histories {
        for (message, expected) in messages.iter().zip(1..) {
            if message.seq != expected {
                let conversation = conversation.clone();
                violations.push(Violation::NotDense { conversation, expected, found: message.seq });
                break;
            }
        }
        for message in messages.iter().filter(|message| !message.system) {
            checked.stored += 1;
            let key = (conversation.as_str(), message.sender.as_str(), message.message_id.as_str());
            if places.insert(key, message.seq).is_some() {
                let (sender, message_id) = (message.sender.clone(), message.message_id.clone());
                violations.push(Violation::StoredTwice {
                    conversation: conversation.clone(),
                    sender,
                    message_id,
                });
            }
            let (conversation, seq) = (conversation.clone(), message.seq);
            match attempted.get(&key) {
                None => violations.push(Violation::Invented { conversation, seq }),
                Some(content) if *content != message.content => {
                    violations.push(Violation::Altered { conversation, seq });
                }
                Some(_) => {}
            }
        }
    }
    for log in logs {
        acknowledgements(log, &places, &mut checked, &mut violations);
        prefixes(log, histories, &places, &mut violations);
        pushes(log, histories, &mut checked, &mut violations);
    }
    if violations.is_empty() { Ok(checked) } else { Err(violations) }
}

fn acknowledgements(
    log: &ClientLog,
    places: &HashMap<(&str, &str, &str), u64>,
    checked: &mut Checked,
    violations: &mut Vec<Violation>,
) {
    for event in &log.events {
        let ClientEvent::Acknowledged { conversation, message_id, seq, .. } = event else { continue };
        checked.acknowledged += 1;
        let (conversation, message_id) = (conversation.clone(), message_id.clone());
        match places.get(&(conversation.as_str(), log.sender.as_str(), message_id.as_str())) {
            None => violations.push(Violation::AcknowledgedThenLost { conversation, message_id, seq: *seq }),
            Some(&found) if found != *seq => {
                violations.push(Violation::NotAtItsPlace {
                    conversation,
                    message_id,
                    acknowledged: *seq,
                    found,
                });
            }
            Some(_) => {}
        }
    }
}

/// Checks that the stored messages of a sender in each conversation are a prefix of its attempts,
/// in order.
fn prefixes(
    log: &ClientLog,
    histories: &Histories,
    places: &HashMap<(&str, &str, &str), u64>,
    violations: &mut Vec<Violation>,
) {
    for conversation in histories.keys() {
        let mut seen = HashSet::new();
        let mut last = 0;
        let mut missing: Option<&str> = None;
        for event in &log.events {
            let ClientEvent::Attempted { conversation: where_to, message_id, .. } = event else { continue };
            if where_to != conversation || !seen.insert(message_id) {
                continue;
            }
            let place = places.get(&(conversation.as_str(), log.sender.as_str(), message_id.as_str()));
            let out_of_place = match place {
                None => {
                    missing.get_or_insert(message_id);
                    None
                }
                Some(_) if missing.is_some() => missing,
                Some(&seq) if seq < last => Some(message_id.as_str()),
                Some(&seq) => {
                    last = seq;
                    None
                }
            };
            if let Some(missing_or_late) = out_of_place {
                violations.push(Violation::NotAPrefix {
                    conversation: conversation.clone(),
                    sender: log.sender.clone(),
                    missing_or_late: missing_or_late.to_owned(),
                });
                break;
            }
        }
    }
}

/// Checks that each conversation continues by one on each connection. The ack replaces the push of
/// the sender's own message.
fn pushes(log: &ClientLog, histories: &Histories, checked: &mut Checked, violations: &mut Vec<Violation>) {
    let mut last: HashMap<&str, u64> = HashMap::new();
    for event in &log.events {
        let (conversation, seq) = match event {
            ClientEvent::Connected => {
                checked.connections += 1;
                last.clear();
                continue;
            }
            ClientEvent::Acknowledged { conversation, seq, duplicate: false, .. } => (conversation, *seq),
            ClientEvent::Received { conversation, seq, sender, content } => {
                checked.received += 1;
                let stored =
                    histories.get(conversation).and_then(|all| all.get(usize::try_from(*seq).ok()? - 1));
                if !stored.is_some_and(|stored| stored.content == *content && stored.sender == *sender) {
                    violations.push(Violation::PushedSomethingElse {
                        receiver: log.sender.clone(),
                        conversation: conversation.clone(),
                        seq: *seq,
                    });
                }
                (conversation, *seq)
            }
            ClientEvent::LeftOut { conversation, up_to } => {
                last.insert(conversation, *up_to);
                continue;
            }
            ClientEvent::Attempted { .. } | ClientEvent::Acknowledged { .. } => continue,
        };
        let before = last.insert(conversation, seq);
        if let Some(after) = before.filter(|after| *after + 1 != seq) {
            violations.push(Violation::PushedOutOfOrder {
                receiver: log.sender.clone(),
                conversation: conversation.clone(),
                after,
                then: seq,
            });
        }
    }
}

#[cfg(test)]
mod tests;
