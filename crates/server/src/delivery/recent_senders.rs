//! Remembers recent senders of large groups. Only they have ticks to draw, so only they get
//! receipts.
//!
//! This is a bounded cache. Busy groups displace idle ones, and misses are filled from the store.

use std::collections::HashMap;

use bluetick_core::{ContentType, ConversationId, Message, PageLimit, ReadState, Seq, UserId};
use parking_lot::{Mutex, MutexGuard};

/// Number of groups in one generation. There are two generations; when the younger one is full, it
/// replaces the older one. If this is too low, groups are read from the store repeatedly.
const MAX_GROUPS_PER_GENERATION: usize = 2_048;

/// Number of newest messages whose senders are recent. Other senders stay until they got a receipt
/// that all members have read their newest message. Must not exceed one page, because
/// [`RecentSenders::record_page`] gets one page.
const RECENT_MESSAGES: u64 = PageLimit::MAX.get();

/// Maximum number of senders remembered of one group, which bounds memory. At the maximum, the half
/// that wrote longest ago is forgotten and gets no more receipts.
const MAX_SENDERS: usize = 512;

/// The cache of recent senders, by group.
#[derive(Default)]
pub(super) struct RecentSenders(Mutex<SenderGenerations>);

#[derive(Default)]
struct SenderGenerations {
    young: HashMap<ConversationId, GroupSenders>,
    old: HashMap<ConversationId, GroupSenders>,
}

#[derive(Default)]
struct GroupSenders {
    /// All senders from this seq on are known.
    from: Seq,
    head: Seq,
    senders: HashMap<UserId, RecentSender>,
}

#[derive(Default)]
struct RecentSender {
    newest: Seq,
    /// The lowest read state of all other members, as last announced to the sender.
    published: ReadState,
}

impl RecentSender {
    /// Whether the sender has not got a receipt that all others have read its newest message.
    fn awaits_receipts(&self) -> bool {
        self.published.read < self.newest
    }
}

impl RecentSenders {
    fn generations(&self) -> MutexGuard<'_, SenderGenerations> {
        self.0.lock()
    }

    /// Records the sender of a committed message.
    pub fn record(&self, message: &Message) {
        let mut generations = self.generations();
        let group = generations.group(message.conversation, message.seq);
        group.head = group.head.max(message.seq);
        group.record(message);
    }

    /// Returns the recent senders, or `None` if the cache does not reach back far enough.
    pub fn of(&self, conversation: ConversationId) -> Option<Vec<UserId>> {
        let mut generations = self.generations();
        let group = generations.touch(conversation)?;
        let since = group.head.minus(RECENT_MESSAGES - 1);
        if group.from > since.max(Seq::FIRST) {
            return None;
        }
        group.senders.retain(|_, sender| sender.newest >= since || sender.awaits_receipts());
        Some(group.senders.keys().cloned().collect())
    }

    /// Records the newest page of the conversation, read from the store. Older messages are not
    /// needed.
    pub fn record_page(&self, conversation: ConversationId, newest_first: &[Message], head: Seq) {
        let mut generations = self.generations();
        let group = generations.group(conversation, head.next());
        group.from = group.from.min(head.minus(RECENT_MESSAGES - 1));
        group.head = group.head.max(head);
        newest_first.iter().for_each(|message| group.record(message));
    }

    /// Records `lowest` as announced to the sender. Returns whether it is new to the sender.
    pub fn record_published(&self, conversation: ConversationId, user: &UserId, lowest: ReadState) -> bool {
        let mut generations = self.generations();
        let sender = generations.touch(conversation).and_then(|group| group.senders.get_mut(user));
        sender.is_none_or(|sender| std::mem::replace(&mut sender.published, lowest) != lowest)
    }
}

impl SenderGenerations {
    /// Returns the entry of the group and moves it to the younger generation.
    fn touch(&mut self, conversation: ConversationId) -> Option<&mut GroupSenders> {
        if let Some(group) = self.old.remove(&conversation) {
            self.insert(conversation, group);
        }
        self.young.get_mut(&conversation)
    }

    fn group(&mut self, conversation: ConversationId, from: Seq) -> &mut GroupSenders {
        if self.touch(conversation).is_none() {
            self.insert(conversation, GroupSenders { from, ..GroupSenders::default() });
        }
        self.young.get_mut(&conversation).expect("`insert` above adds a missing entry")
    }

    fn insert(&mut self, conversation: ConversationId, group: GroupSenders) {
        if self.young.len() >= MAX_GROUPS_PER_GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(conversation, group);
    }
}

impl GroupSenders {
    fn record(&mut self, message: &Message) {
        if matches!(message.content_type, ContentType::System | ContentType::Void) {
            return;
        }
        if self.senders.len() >= MAX_SENDERS {
            let mut newest: Vec<Seq> = self.senders.values().map(|sender| sender.newest).collect();
            let (_, median, _) = newest.select_nth_unstable(MAX_SENDERS / 2);
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

    fn names(senders: &RecentSenders, conversation: ConversationId) -> Option<Vec<String>> {
        let mut names: Vec<String> = senders.of(conversation)?.iter().map(ToString::to_string).collect();
        names.sort();
        Some(names)
    }

    #[test]
    fn recent_senders_and_senders_awaiting_receipts_are_kept() {
        let senders = RecentSenders::default();
        for seq in 1..=150 {
            senders.record(&message(group(0), seq, if seq <= 50 { "early" } else { "late" }));
        }
        assert_eq!(names(&senders, group(0)), Some(vec!["early".into(), "late".into()]));
        let read = |seq| ReadState { delivered: Seq::new(seq), read: Seq::new(seq) };
        senders.record_published(group(0), &"early".parse().unwrap(), read(49));
        assert_eq!(names(&senders, group(0)), Some(vec!["early".into(), "late".into()]));
        senders.record_published(group(0), &"early".parse().unwrap(), read(50));
        assert_eq!(names(&senders, group(0)), Some(vec!["late".into()]));
    }

    #[test]
    fn notices_and_voids_have_no_sender() {
        let senders = RecentSenders::default();
        senders.record(&message(group(0), 1, "early"));
        senders.record(&Message { content_type: ContentType::System, ..message(group(0), 2, "admin") });
        senders.record(&Message::void(group(0), Seq::new(3), Timestamp::default()));
        assert_eq!(names(&senders, group(0)), Some(vec!["early".into()]));
    }

    #[test]
    fn latest_senders_are_kept_above_the_maximum() {
        let senders = RecentSenders::default();
        for seq in 1..=5_000 {
            senders.record(&message(group(0), seq, &format!("sender{seq:05}")));
        }
        let touch = names(&senders, group(0)).unwrap();
        assert!((MAX_SENDERS / 2..=MAX_SENDERS).contains(&touch.len()), "{}", touch.len());
        assert_eq!(touch.last().map(String::as_str), Some("sender05000"));
    }

    #[test]
    fn group_known_from_its_middle_needs_one_page_from_the_store() {
        let senders = RecentSenders::default();
        assert_eq!(names(&senders, group(0)), None);
        senders.record(&message(group(0), 500, "bob"));
        assert_eq!(names(&senders, group(0)), None);
        senders.record_page(
            group(0),
            &[message(group(0), 500, "bob"), message(group(0), 499, "alice")],
            Seq::new(500),
        );
        assert_eq!(names(&senders, group(0)), Some(vec!["alice".into(), "bob".into()]));
    }

    #[test]
    fn cache_is_bounded_and_keeps_busy_groups() {
        let senders = RecentSenders::default();
        for number in 1..20_000 {
            senders.record(&message(group(number), 1, "bob"));
            senders.record(&message(group(0), u64::from(number), "alice"));
        }
        let generations = senders.generations();
        assert!(generations.young.len() + generations.old.len() <= 2 * MAX_GROUPS_PER_GENERATION);
        drop(generations);
        assert_eq!(names(&senders, group(0)), Some(vec!["alice".into()]));
    }

    #[test]
    fn unchanged_read_state_is_published_once() {
        let senders = RecentSenders::default();
        senders.record(&message(group(0), 1, "alice"));
        let alice = "alice".parse().unwrap();
        let lowest = ReadState { delivered: Seq::FIRST, read: Seq::ZERO };
        assert!(senders.record_published(group(0), &alice, lowest));
        assert!(!senders.record_published(group(0), &alice, lowest));
        assert!(senders.record_published(group(0), &alice, ReadState { read: Seq::FIRST, ..lowest }));
    }
}
