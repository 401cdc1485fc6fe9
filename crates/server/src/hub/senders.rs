//! Remembers recent senders of large groups. Only they have ticks to draw, so only they get
//! receipts.
//!
//! This is a bounded cache. Busy groups displace idle ones, and misses are filled from the store.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use bluetick_core::{ContentType, ConversationId, Message, PageLimit, ReadState, Seq, UserId};

/// Number of groups in one generation. There are two generations; when the younger one is full, it
/// replaces the older one. If this is too low, groups are read from the store repeatedly.
const GENERATION: usize = 2_048;

/// Number of newest messages whose senders are recent. Other senders stay until they were told that
/// all members have read their newest message. Must not exceed one page, because [`Senders::learn`]
/// gets one page.
const LATELY: u64 = PageLimit::MAX.get();

/// Maximum number of senders remembered of one group. At the maximum, the half that wrote longest
/// ago is forgotten and gets no more receipts.
const MOST_SENDERS: usize = 512;

/// The cache of recent senders, by group.
#[derive(Default)]
pub(super) struct Senders(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<ConversationId, Recent>,
    old: HashMap<ConversationId, Recent>,
}

#[derive(Default)]
struct Recent {
    /// All senders from this seq on are known.
    from: Seq,
    head: Seq,
    senders: HashMap<UserId, Sender>,
}

#[derive(Default)]
struct Sender {
    newest: Seq,
    /// The lowest read state of all other members, as last announced to the sender.
    told: ReadState,
}

impl Sender {
    /// Whether the sender was not yet told that all others have read its newest message.
    fn still_waits(&self) -> bool {
        self.told.read < self.newest
    }
}

impl Senders {
    fn generations(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().expect("nothing panics while it holds the lock")
    }

    /// Records the sender of a committed message.
    pub fn note(&self, message: &Message) {
        let mut generations = self.generations();
        let recent = generations.recent(message.conversation, message.seq);
        recent.head = recent.head.max(message.seq);
        recent.note(message);
    }

    /// Returns the recent senders, or `None` if the cache does not reach back far enough.
    pub fn of(&self, conversation: ConversationId) -> Option<Vec<UserId>> {
        let mut generations = self.generations();
        let recent = generations.known(conversation)?;
        let since = recent.head.minus(LATELY - 1);
        if recent.from > since.max(Seq::FIRST) {
            return None;
        }
        recent.senders.retain(|_, sender| sender.newest >= since || sender.still_waits());
        Some(recent.senders.keys().cloned().collect())
    }

    /// Records the newest page of the conversation, read from the store. Older messages are not
    /// needed.
    pub fn learn(&self, conversation: ConversationId, newest_first: &[Message], head: Seq) {
        let mut generations = self.generations();
        let recent = generations.recent(conversation, head.next());
        recent.from = recent.from.min(head.minus(LATELY - 1));
        recent.head = recent.head.max(head);
        newest_first.iter().for_each(|message| recent.note(message));
    }

    /// Records `lowest` as announced to the sender. Returns whether it is new to the sender.
    pub fn tell(&self, conversation: ConversationId, user: &UserId, lowest: ReadState) -> bool {
        let mut generations = self.generations();
        let sender = generations.known(conversation).and_then(|recent| recent.senders.get_mut(user));
        sender.is_none_or(|sender| std::mem::replace(&mut sender.told, lowest) != lowest)
    }
}

impl Generations {
    /// Returns the entry of the group and moves it to the younger generation.
    fn known(&mut self, conversation: ConversationId) -> Option<&mut Recent> {
        if let Some(recent) = self.old.remove(&conversation) {
            self.insert(conversation, recent);
        }
        self.young.get_mut(&conversation)
    }

    fn recent(&mut self, conversation: ConversationId, from: Seq) -> &mut Recent {
        if self.known(conversation).is_none() {
            self.insert(conversation, Recent { from, ..Recent::default() });
        }
        self.young.get_mut(&conversation).expect("it is known or was just inserted")
    }

    fn insert(&mut self, conversation: ConversationId, recent: Recent) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(conversation, recent);
    }
}

impl Recent {
    fn note(&mut self, message: &Message) {
        if matches!(message.content_type, ContentType::System | ContentType::Void) {
            return;
        }
        if self.senders.len() >= MOST_SENDERS {
            let mut newest: Vec<Seq> = self.senders.values().map(|sender| sender.newest).collect();
            let (_, median, _) = newest.select_nth_unstable(MOST_SENDERS / 2);
            let since = *median;
            self.senders.retain(|_, sender| sender.newest >= since);
        }
        let sender = self.senders.entry(message.sender.clone()).or_default();
        sender.newest = sender.newest.max(message.seq);
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::{MessageId, Timestamp};

    use super::*;

    fn group(number: u32) -> ConversationId {
        let [a, b, c, d] = number.to_be_bytes();
        ConversationId::group([a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    fn message(conversation: ConversationId, seq: u64, sender: &str) -> Message {
        Message {
            conversation,
            seq: Seq::new(seq),
            message_id: MessageId::of_notice(Seq::new(seq)),
            sender: sender.parse().unwrap(),
            receiver: None,
            content_type: ContentType::Text,
            content: "x".into(),
            timestamp: Timestamp::default(),
            received_at: Timestamp::default(),
        }
    }

    fn names(senders: &Senders, conversation: ConversationId) -> Option<Vec<String>> {
        let mut names: Vec<String> = senders.of(conversation)?.iter().map(ToString::to_string).collect();
        names.sort();
        Some(names)
    }

    #[test]
    fn whoever_wrote_lately_is_known_and_whoever_waits_for_its_tick() {
        let senders = Senders::default();
        for seq in 1..=150 {
            senders.note(&message(group(0), seq, if seq <= 50 { "early" } else { "late" }));
        }
        assert_eq!(names(&senders, group(0)), Some(vec!["early".into(), "late".into()]));
        let read = |seq| ReadState { delivered: Seq::new(seq), read: Seq::new(seq) };
        senders.tell(group(0), &"early".parse().unwrap(), read(49));
        assert_eq!(names(&senders, group(0)), Some(vec!["early".into(), "late".into()]));
        senders.tell(group(0), &"early".parse().unwrap(), read(50));
        assert_eq!(names(&senders, group(0)), Some(vec!["late".into()]));
    }

    #[test]
    fn nobody_has_sent_a_notice_or_a_void() {
        let senders = Senders::default();
        senders.note(&message(group(0), 1, "early"));
        senders.note(&Message { content_type: ContentType::System, ..message(group(0), 2, "admin") });
        senders.note(&Message::void(group(0), Seq::new(3), Timestamp::default()));
        assert_eq!(names(&senders, group(0)), Some(vec!["early".into()]));
    }

    #[test]
    fn of_very_many_senders_those_who_wrote_last_stay() {
        let senders = Senders::default();
        for seq in 1..=5_000 {
            senders.note(&message(group(0), seq, &format!("sender{seq:05}")));
        }
        let known = names(&senders, group(0)).unwrap();
        assert!((MOST_SENDERS / 2..=MOST_SENDERS).contains(&known.len()), "{}", known.len());
        assert_eq!(known.last().map(String::as_str), Some("sender05000"));
    }

    #[test]
    fn a_conversation_known_only_from_its_middle_is_learned_from_the_store_once() {
        let senders = Senders::default();
        assert_eq!(names(&senders, group(0)), None);
        senders.note(&message(group(0), 500, "bob"));
        assert_eq!(names(&senders, group(0)), None);
        senders.learn(
            group(0),
            &[message(group(0), 500, "bob"), message(group(0), 499, "alice")],
            Seq::new(500),
        );
        assert_eq!(names(&senders, group(0)), Some(vec!["alice".into(), "bob".into()]));
    }

    #[test]
    fn memory_is_bounded_and_the_groups_that_are_busy_stay() {
        let senders = Senders::default();
        for number in 1..20_000 {
            senders.note(&message(group(number), 1, "bob"));
            senders.note(&message(group(0), u64::from(number), "alice"));
        }
        let generations = senders.generations();
        assert!(generations.young.len() + generations.old.len() <= 2 * GENERATION);
        drop(generations);
        assert_eq!(names(&senders, group(0)), Some(vec!["alice".into()]));
    }

    #[test]
    fn the_same_boundaries_are_told_once() {
        let senders = Senders::default();
        senders.note(&message(group(0), 1, "alice"));
        let alice = "alice".parse().unwrap();
        let lowest = ReadState { delivered: Seq::FIRST, read: Seq::ZERO };
        assert!(senders.tell(group(0), &alice, lowest));
        assert!(!senders.tell(group(0), &alice, lowest));
        assert!(senders.tell(group(0), &alice, ReadState { read: Seq::FIRST, ..lowest }));
    }
}
