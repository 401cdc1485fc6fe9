//! Snapshot tests of the screens. `BLUETICK_BLESS=1` renews the snapshots.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

use bluetick_client::Tick;
use bluetick_terminal::composer::Composer;
use bluetick_terminal::draw::draw;
use bluetick_terminal::model::{
    ChatPane, Content, Dialog, Focus, InboxLine, Item, ItemKey, LinkStatus, NewChat, ScreenModel,
    SearchState, TerminalCapabilities,
};
use bluetick_types::{ConversationId, MessageId, Seq};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

fn id(number: u8) -> ConversationId {
    ConversationId::group([number; 15])
}

fn line(number: u8, name: &str, preview: &str) -> InboxLine {
    InboxLine {
        id: id(number),
        name: name.into(),
        preview: preview.into(),
        tick: None,
        at: "12:00".into(),
        unread: 0,
        pinned: false,
        muted: false,
        archived: false,
        online: false,
        is_typing: false,
    }
}

fn item(seq: u64, content: Content) -> Item {
    Item {
        key: ItemKey::Stored(Seq::new(seq)),
        day: None,
        unread_begins: false,
        shows_name: false,
        content,
        message_id: MessageId::from_stored(&format!("m{seq}")),
        failed: false,
    }
}

fn said(who: &str, text: &str, tick: Option<Tick>) -> Content {
    let (own, at) = (tick.is_some(), "12:00".into());
    Content::Said { who: who.into(), own, text: text.into(), is_absent: false, at, tick, problem: None }
}

fn model() -> ScreenModel {
    let mut model = ScreenModel::new("alice", "http://localhost:8080", TerminalCapabilities::FULL, (80, 24));
    model.link = LinkStatus::Online;
    model.unread_total = 3;
    model.inbox = vec![
        InboxLine {
            pinned: true,
            tick: Some(Tick::Read),
            online: true,
            ..line(1, "Bob Builder", "see you there")
        },
        InboxLine {
            unread: 3,
            ..line(2, "Lunch club", "carol: 日本語 at noon? and a much longer text than fits")
        },
        InboxLine { is_typing: true, muted: true, ..line(3, "dave", "hello") },
        InboxLine { tick: Some(Tick::Queued), at: "Mon".into(), ..line(4, "erin", "not there yet") },
    ];
    model.selected = Some(id(2));
    model
}

fn with_chat() -> ScreenModel {
    let mut model = model();
    let mut items = vec![
        Item {
            day: Some("Yesterday".into()),
            ..item(1, Content::Notice("Carol made the group Lunch club".into()))
        },
        Item { shows_name: true, ..item(2, said("Carol", "Where do we eat?", None)) },
        item(
            3,
            said(
                "Carol",
                "I know a place with two lines of text in its name, and then some more of them",
                None,
            ),
        ),
        item(4, said("You", "Fine", Some(Tick::Read))),
        Item {
            day: Some("Today".into()),
            unread_begins: true,
            shows_name: true,
            ..item(5, said("Dave", "👩‍👩‍👧 日本語\nשלום", None))
        },
        item(6, said("You", "On my way", Some(Tick::Delivered))),
        item(7, said("You", "almost", Some(Tick::Sent))),
    ];
    let mut failed = item(8, said("You", "too long", Some(Tick::Failed)));
    if let Content::Said { problem, .. } = &mut failed.content {
        *problem = Some("the content is too large".into());
    }
    failed.failed = true;
    items.push(failed);
    model.chat = Some(ChatPane {
        id: id(2),
        name: "Lunch club".into(),
        about: "Dave is typing…".into(),
        items,
        anchor: None,
        new_below: 0,
        reaches_start: true,
        is_loading: false,
    });
    model.focus = Focus::Composer;
    model.composer = Composer::with("two lines\nof it");
    model
}

fn drawn(model: &ScreenModel) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(model.size.0, model.size.1)).unwrap();
    terminal.draw(|frame| draw(frame, model)).unwrap();
    terminal
}

fn text(model: &ScreenModel) -> String {
    let terminal = drawn(model);
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for row in 0..model.size.1 {
        let mut line = String::new();
        let mut column = 0;
        while column < model.size.0 {
            let symbol = buffer[(column, row)].symbol();
            line.push_str(symbol);
            column += u16::try_from(bluetick_terminal::text::width(symbol).max(1)).unwrap();
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[track_caller]
fn check(name: &str, model: &ScreenModel) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/screens/{name}.txt"));
    let screen = text(model);
    if std::env::var_os("BLUETICK_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &screen).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(screen, expected, "the screen {name} is\n{screen}\nand should be\n{expected}");
}

#[test]
fn inbox_without_an_open_chat_matches_its_snapshot() {
    check("inbox", &model());
}

#[test]
fn empty_inbox_matches_its_snapshot() {
    let mut model = model();
    model.inbox.clear();
    model.unread_total = 0;
    model.link = LinkStatus::Waiting;
    check("empty", &model);
}

#[test]
fn open_chat_matches_its_snapshot() {
    check("conversation", &with_chat());
}

#[test]
fn screen_scrolled_up_shows_the_number_of_new_messages() {
    let mut model = with_chat();
    let chat = model.chat.as_mut().unwrap();
    chat.items.extend((9..60).map(|seq| item(seq, said("Dave", &format!("number {seq}"), None))));
    chat.anchor = Some((ItemKey::Stored(Seq::new(20)), 0));
    chat.new_below = 12;
    check("scrolled", &model);
}

#[test]
fn narrow_terminal_shows_one_pane() {
    let mut model = with_chat();
    model.size = (36, 20);
    check("narrow-conversation", &model);
    model.chat = None;
    model.focus = Focus::Inbox;
    check("narrow-inbox", &model);
}

#[test]
fn plain_terminal_shows_states_as_words() {
    let mut model = with_chat();
    model.look = TerminalCapabilities { colour: false, unicode: false };
    model.chat.as_mut().unwrap().items.truncate(4);
    model.composer = Composer::default();
    check("ascii", &model);
}

#[test]
fn dialogs_and_help_match_their_snapshots() {
    let mut model = model();
    model.dialog = Some(Dialog::Help);
    check("help", &model);
    let found = vec![("bob".into(), "Bob Builder".into()), ("bobby".into(), "bobby".into())];
    let answer = SearchState::Here;
    let new_chat = NewChat { name: Composer::with("bo"), found, selected: Some(1), answer };
    model.dialog = Some(Dialog::NewChat(new_chat));
    check("new-chat", &model);
    let new_chat =
        NewChat { name: Composer::with("zoe"), answer: SearchState::NotFound, ..NewChat::default() };
    model.dialog = Some(Dialog::NewChat(new_chat));
    check("new-chat-nobody", &model);
    let (title, members) = (Composer::with("Lunch"), Composer::with("bob carol"));
    model.dialog = Some(Dialog::NewGroup { title, members, in_members: true });
    check("new-group", &model);
}

#[test]
fn status_line_shows_queued_messages_and_errors() {
    let mut model = model();
    let bottom = |model: &ScreenModel| text(model).lines().last().unwrap_or_default().to_owned();
    model.waiting = 2;
    for (link, words) in [
        (LinkStatus::Waiting, "waiting for network… 2 messages wait to be sent"),
        (LinkStatus::Reconnecting, "reconnecting… 2 messages wait to be sent"),
        (LinkStatus::CatchingUp, "catching up…"),
        (LinkStatus::LoggedOut, "your log-in has expired"),
        (LinkStatus::OtherUser, "this token belongs to another user"),
        (LinkStatus::Online, "sending 2 messages…"),
    ] {
        model.link = link;
        assert!(bottom(&model).starts_with(words), "{}", bottom(&model));
    }
    // A failed message waits for the user, not for the network.
    (model.waiting, model.failed) = (0, 1);
    assert!(bottom(&model).starts_with("1 message was not sent"), "{}", bottom(&model));
    model.notice = Some("the disk is full".into());
    assert!(bottom(&model).starts_with("the disk is full"));
}

#[test]
fn only_read_ticks_are_blue() {
    let model = with_chat();
    let terminal = drawn(&model);
    let buffer = terminal.backend().buffer();
    let area = buffer.area;
    let blue: Vec<String> = (0..area.height)
        .filter(|row| {
            (25..area.width).any(|column| {
                buffer[(column, *row)].symbol() == "✓" && buffer[(column, *row)].fg == Color::LightBlue
            })
        })
        .map(|row| (25..area.width).map(|column| buffer[(column, row)].symbol()).collect::<String>())
        .collect();
    assert!(blue.len() == 1 && blue[0].contains("Fine"), "{blue:?}");
}

#[test]
fn too_small_window_shows_a_notice() {
    let mut model = model();
    for (size, shown) in [
        ((18, 5), "This window is too\nsmall.\n\n\n\n"),
        ((10, 4), "This\nwindow is\ntoo small.\n\n"),
        ((10, 1), "too small\n"),
    ] {
        model.size = size;
        assert_eq!(text(&model), shown);
    }
}

#[test]
fn every_terminal_size_is_drawn_without_panic() {
    for columns in [1, 10, 20, 25, 59, 60, 61, 200] {
        for rows in [1, 5, 8, 9, 24, 60] {
            let mut model = with_chat();
            model.size = (columns, rows);
            text(&model);
            model.dialog = Some(Dialog::Help);
            text(&model);
            model.chat = None;
            model.focus = Focus::Search;
            text(&model);
        }
    }
}
