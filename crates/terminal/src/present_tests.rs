//! Tests of the texts that the terminal shows.

use bluetick_client::wire::bodies::{InboxEntry, LastMessage, ReadState};
use bluetick_client::{OutboxItem, SendFailure, Window};
use bluetick_types::{ConversationId, MessageId};

use super::*;

/// Thursday, 1 January 2026, noon.
const NOON: Timestamp = Timestamp::from_millis(1_767_268_800_000);
/// One day, in milliseconds.
const DAY_MS: i64 = 86_400_000;

fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

fn direct() -> ConversationId {
    ConversationId::direct(&user("alice"), &user("bob"))
}

fn said(seq: u64, sender: &str, text: &str, days_ago: i64) -> Arc<Message> {
    Arc::new(Message {
        conversation_id: direct(),
        seq: Seq::new(seq),
        message_id: MessageId::from_stored(&format!("m{seq}")),
        sender_id: user(sender),
        content: text.into(),
        content_type: "text".into(),
        timestamp: NOON,
        received_at: NOON.plus_millis(-days_ago * DAY_MS),
    })
}

fn row(id: ConversationId, last: Option<(&str, &str, &str)>) -> Row {
    let marks = |seq| ReadState { last_delivered_seq: Seq::new(seq), last_read_seq: Seq::new(seq) };
    let entry = InboxEntry {
        conversation_id: id,
        title: (id != direct()).then(|| "Lunch \u{1b}[31mclub".into()),
        peer: (id == direct()).then(|| user("bob")),
        member_count: 3,
        last_seq: Seq::new(3),
        last_at: NOON,
        last_message: last.map(|(sender, content_type, content)| LastMessage {
            seq: Seq::new(3),
            sender_id: user(sender),
            content: content.into(),
            content_type: content_type.into(),
        }),
        unread: 0,
        first_seq: Seq::FIRST,
        my_status: marks(3),
        peer_status: marks(2),
        muted: false,
        pinned: false,
        archived: false,
        read_receipts: true,
        peer_presence: None,
    };
    Row::restored(entry, Seq::new(3))
}

fn view(messages: Vec<Arc<Message>>) -> ConversationView {
    let to_seq = messages.last().map_or(Seq::ZERO, |last| last.seq);
    ConversationView {
        user: user("alice"),
        row: Some(Arc::new(row(direct(), None))),
        messages,
        window: Window { from_seq: Seq::FIRST, to_seq, reaches_start: true, reaches_head: true },
        is_loaded: true,
        waiting: Vec::new(),
        typists: Vec::new(),
        presence: None,
        revision: 0,
    }
}

fn words<T>(use_them: impl FnOnce(&Words<'_>) -> T) -> T {
    let alice = user("alice");
    let name =
        |user: &UserId| if user.as_str() == "bob" { "Bob\u{7} B.".to_owned() } else { user.to_string() };
    use_them(&Words { user: &alice, name: &name, calendar: &Calendar::utc(), now: NOON })
}

#[test]
fn day_and_unread_dividers_are_at_their_first_message() {
    let view = view(vec![
        said(1, "bob", "one", 1),
        said(2, "alice", "two", 1),
        said(3, "bob", "three", 0),
        said(4, "bob", "four", 0),
    ]);
    let items = words(|words| words.items(&view, Seq::new(2)));
    let days: Vec<Option<&str>> = items.iter().map(|item| item.day.as_deref()).collect();
    assert_eq!(days, [Some("Yesterday"), None, Some("Today"), None]);
    assert_eq!(items.iter().map(|item| item.unread_begins).collect::<Vec<_>>(), [false, false, true, false]);
}

#[test]
fn only_own_messages_have_ticks() {
    let view = view(vec![said(1, "bob", "one", 0), said(2, "alice", "two", 0), said(3, "alice", "three", 0)]);
    let items = words(|words| words.items(&view, Seq::MAX));
    let ticks: Vec<Option<Tick>> = items
        .iter()
        .map(|item| match &item.content {
            Content::Said { tick, .. } => *tick,
            Content::Notice(_) => None,
        })
        .collect();
    assert_eq!(ticks, [None, Some(Tick::Read), Some(Tick::Sent)]);
}

#[test]
fn queued_messages_follow_the_newest_and_show_why_they_failed() {
    let mut view = view(vec![said(1, "bob", "one", 0)]);
    let item = OutboxItem {
        number: 7,
        conversation_id: direct(),
        message_id: MessageId::from_stored("w"),
        content: "two".into(),
        content_type: None,
        timestamp: NOON,
        after_seq: Seq::ZERO,
        attempted: true,
        failure: None,
    };
    let failure = SendFailure { code: "content_too_large".into(), message: "too \u{1b}long".into() };
    view.waiting = vec![(item.clone(), SendState::Queued), (item, SendState::Failed(failure))];
    let items = words(|words| words.items(&view, Seq::MAX));
    assert_eq!(items.iter().map(|item| item.failed).collect::<Vec<_>>(), [false, false, true]);
    assert!(matches!(&items[2].content, Content::Said { problem: Some(why), .. } if why == "too ␛long"));
    view.window.reaches_head = false;
    assert_eq!(
        words(|words| words.items(&view, Seq::MAX)).len(),
        1,
        "the marker is not shown within history"
    );
}

#[test]
fn names_titles_and_previews_contain_no_escape_sequences() {
    let group = ConversationId::group([1; 15]);
    let line = words(|words| {
        words.inbox_line(&row(group, Some(("bob", "text", "a\nb\u{1b}c"))), false, false, None)
    });
    assert_eq!((line.name.as_str(), line.preview.as_str()), ("Lunch ␛[31mclub", "Bob␇ B.: a b␛c"));
    let line =
        words(|words| words.inbox_line(&row(direct(), Some(("alice", "text", "mine"))), true, false, None));
    assert_eq!((line.name.as_str(), line.tick), ("Bob␇ B.", Some(Tick::Sent)));
    for tick in [Tick::Queued, Tick::Failed] {
        let unsent = Some(("on its\nway", tick));
        let line = words(|words| words.inbox_line(&row(direct(), None), false, false, unsent));
        assert_eq!((line.preview.as_str(), line.tick), ("on its way", Some(tick)));
    }
}

#[test]
fn notices_are_shown_as_sentences() {
    let group = ConversationId::group([1; 15]);
    let notice = r#"{"event":"member_added","by":"bob","user_id":"alice"}"#;
    let line =
        words(|words| words.inbox_line(&row(group, Some(("bob", "system", notice))), false, false, None));
    assert_eq!(line.preview, "Bob␇ B. added you");
    let broken =
        words(|words| words.inbox_line(&row(group, Some(("bob", "system", "{}"))), false, false, None));
    assert_eq!(broken.preview, "the group was changed");
}

#[test]
fn message_without_content_shows_the_reason() {
    let group = ConversationId::group([1; 15]);
    for (content_type, sentence) in
        [("erased", "This message was deleted"), ("lost", "This message cannot be read at the moment")]
    {
        let line = words(|words| {
            words.inbox_line(&row(direct(), Some(("bob", content_type, ""))), false, false, None)
        });
        assert_eq!(line.preview, sentence);
        let line =
            words(|words| words.inbox_line(&row(group, Some(("bob", content_type, ""))), false, false, None));
        assert_eq!(line.preview, format!("Bob\u{2407} B.: {sentence}"));
        let mut gone = Arc::unwrap_or_clone(said(1, "bob", "", 0));
        gone.content_type = content_type.into();
        let items = words(|words| words.items(&view(vec![Arc::new(gone)]), Seq::ZERO));
        assert!(matches!(&items[0].content, Content::Said { text, is_absent: true, .. } if text == sentence));
    }
}

#[test]
fn voids_are_hidden_and_not_counted() {
    let mut void = Arc::unwrap_or_clone(said(2, "void", "", 3));
    void.content_type = "void".into();
    let messages = vec![said(1, "bob", "one", 0), Arc::new(void), said(3, "bob", "three", 0)];
    let before = words(|words| words.items(&view(messages[..1].to_vec()), Seq::FIRST));
    let items = words(|words| words.items(&view(messages), Seq::FIRST));
    assert_eq!(
        items.iter().map(|item| item.key).collect::<Vec<_>>(),
        [1, 3].map(|seq| ItemKey::Stored(Seq::new(seq)))
    );
    assert_eq!(items.iter().map(|item| item.day.is_some()).collect::<Vec<_>>(), [true, false]);
    assert_eq!(items.iter().map(|item| item.unread_begins).collect::<Vec<_>>(), [false, true]);
    let mut chat = ChatPane {
        id: direct(),
        name: String::new(),
        about: String::new(),
        items: before,
        anchor: Some((ItemKey::Stored(Seq::FIRST), 0)),
        new_below: 0,
        reaches_start: true,
        is_loading: false,
    };
    refresh(&mut chat, items);
    assert_eq!(chat.new_below, 1);
    let line =
        words(|words| words.inbox_line(&row(direct(), Some(("void", "void", ""))), false, false, None));
    assert_eq!((line.preview.as_str(), line.tick), ("", None));
}

#[test]
fn subtitle_shows_typing_or_presence() {
    let about = |view: &ConversationView| words(|words| words.about(view));
    let mut view = view(Vec::new());
    assert_eq!(about(&view), "");
    let presence = |online, last_seen_at| bluetick_client::wire::bodies::Presence {
        user_id: user("bob"),
        online,
        last_seen_at,
    };
    view.presence = Some(presence(false, Some(NOON.plus_millis(-DAY_MS))));
    assert_eq!(about(&view), "last seen yesterday at 12:00");
    view.presence = Some(presence(true, None));
    assert_eq!(about(&view), "online");
    view.typists = vec![user("bob")];
    assert_eq!(about(&view), "typing…");
}

#[test]
fn group_of_one_shows_one_member() {
    let mut view = view(Vec::new());
    for (member_count, about) in [(1, "1 member"), (2, "2 members")] {
        let mut group = row(ConversationId::group([1; 15]), None);
        group.entry.member_count = member_count;
        view.row = Some(Arc::new(group));
        assert_eq!(words(|words| words.about(&view)), about);
    }
}
