//! Tests of the keyboard commands.

use bluetick_types::Seq;

use super::*;
use crate::model::{ChatPane, Content, InboxLine, Item, ItemKey, TerminalCapabilities};

fn id(number: u8) -> ConversationId {
    ConversationId::group([number; 15])
}

fn line(number: u8, name: &str) -> InboxLine {
    InboxLine {
        id: id(number),
        name: name.into(),
        preview: format!("hello from {name}"),
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

fn said(number: u64) -> Item {
    Item {
        key: ItemKey::Stored(Seq::new(number)),
        day: None,
        unread_begins: false,
        shows_name: false,
        content: Content::Said {
            who: "bob".into(),
            own: false,
            text: format!("number {number}"),
            is_absent: false,
            at: "12:00".into(),
            tick: None,
            problem: None,
        },
        message_id: MessageId::from_stored(&format!("m{number}")),
        failed: false,
    }
}

fn model() -> ScreenModel {
    let mut model = ScreenModel::new("alice", "http://localhost", TerminalCapabilities::FULL, (80, 24));
    model.inbox = vec![line(1, "bob"), line(2, "carol"), line(3, "dave")];
    model.selected = Some(id(1));
    model
}

fn with_chat(count: u64) -> ScreenModel {
    let mut model = model();
    model.focus = Focus::Composer;
    model.chat = Some(ChatPane {
        id: id(1),
        name: "bob".into(),
        about: String::new(),
        items: (1..=count).map(said).collect(),
        anchor: None,
        new_below: 0,
        reaches_start: false,
        is_loading: false,
    });
    model
}

fn press(model: &mut ScreenModel, code: KeyCode) -> Vec<Action> {
    key(model, KeyEvent::new(code, KeyModifiers::NONE))
}

fn control(model: &mut ScreenModel, letter: char) -> Vec<Action> {
    key(model, KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL))
}

fn write(model: &mut ScreenModel, text: &str) -> Vec<Action> {
    text.chars().flat_map(|c| press(model, KeyCode::Char(c))).collect()
}

#[test]
fn arrows_select_a_conversation_and_enter_opens_it() {
    let mut model = model();
    press(&mut model, KeyCode::Down);
    assert_eq!(model.selected, Some(id(2)));
    press(&mut model, KeyCode::Up);
    press(&mut model, KeyCode::Up);
    assert_eq!(model.selected, Some(id(1)));
    assert_eq!(press(&mut model, KeyCode::End), [Action::LoadMoreInbox]);
    assert_eq!(press(&mut model, KeyCode::Enter), [Action::Open(id(3))]);
    assert_eq!(model.focus, Focus::Composer);
}

#[test]
fn enter_sends_and_alt_enter_starts_a_line() {
    let mut model = with_chat(1);
    write(&mut model, "one");
    key(&mut model, KeyEvent::new(KeyCode::Enter, KeyModifiers::ALT));
    assert_eq!(write(&mut model, "two")[0], Action::Typing(id(1)));
    assert_eq!(press(&mut model, KeyCode::Enter), [Action::Send(id(1), "one\ntwo".into())]);
    assert!(model.composer.is_empty());
    assert_eq!(press(&mut model, KeyCode::Enter), [], "an empty message is not sent");
}

#[test]
fn pasted_lines_become_one_message() {
    let mut model = with_chat(1);
    assert_eq!(paste(&mut model, "one\r\ntwo\rthree\u{1b}[0m"), [Action::Typing(id(1))]);
    assert_eq!(press(&mut model, KeyCode::Enter), [Action::Send(id(1), "one\ntwo\nthree[0m".into())]);
}

#[test]
fn composer_takes_letters_as_text_and_not_as_commands() {
    let mut model = with_chat(1);
    write(&mut model, "?qn/gp");
    assert_eq!((model.composer.text(), &model.dialog), ("?qn/gp", &None));
    press(&mut model, KeyCode::F(1));
    assert_eq!(model.dialog, Some(Dialog::Help));
    assert_eq!(control(&mut model, 'c'), [Action::Quit]);
}

#[test]
fn search_filters_the_inbox_and_finds_new_people() {
    let mut model = model();
    press(&mut model, KeyCode::Char('/'));
    write(&mut model, "CAR");
    assert_eq!(model.lines().iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["carol"]);
    assert_eq!(press(&mut model, KeyCode::Enter), [Action::Open(id(2))]);
    control(&mut model, 'f');
    write(&mut model, "zoe");
    assert_eq!(press(&mut model, KeyCode::Enter), [Action::Search("zoe".into())]);
    assert!(matches!(&model.dialog, Some(Dialog::NewChat(chat)) if chat.name.text() == "zoe"));
}

/// The new-chat dialog with this text typed in.
fn new_chat(text: &str) -> ScreenModel {
    let mut model = model();
    press(&mut model, KeyCode::Char('n'));
    assert_eq!(write(&mut model, text).last(), Some(&Action::Search(text.into())));
    model
}

fn people(users: &[&str]) -> Option<Vec<(String, String)>> {
    Some(users.iter().map(|user| ((*user).to_owned(), "Zoe".to_owned())).collect())
}

#[test]
fn new_chat_opens_the_first_or_selected_result() {
    let mut model = new_chat("zo");
    assert_eq!(found(&mut model, "zo", people(&["zoe1", "zoe2"])), []);
    let mut other = model.clone();
    assert_eq!(press(&mut other, KeyCode::Enter), [Action::OpenDirect("zoe1".into())]);
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Down);
    assert_eq!(press(&mut model, KeyCode::Enter), [Action::OpenDirect("zoe2".into())]);
    assert_eq!(model.dialog, None);
}

#[test]
fn exact_user_id_is_listed_before_prefix_matches() {
    let mut model = new_chat("zoe");
    found(&mut model, "zoe", people(&["azoe", "zoe"]));
    assert_eq!(press(&mut model, KeyCode::Enter), [Action::OpenDirect("zoe".into())]);
}

#[test]
fn enter_waits_for_the_result_of_the_current_search() {
    let mut model = new_chat("zo");
    found(&mut model, "zo", people(&["zorro"]));
    write(&mut model, "e");
    assert_eq!(press(&mut model, KeyCode::Enter), []);
    assert_eq!(found(&mut model, "zo", people(&["zorro"])), [], "the results belong to an earlier query");
    assert_eq!(found(&mut model, "zoe", people(&["zoe1"])), [Action::OpenDirect("zoe1".into())]);
    assert_eq!(model.dialog, None);
}

#[test]
fn chat_with_an_unknown_user_needs_confirmation() {
    let mut model = new_chat("zoe");
    found(&mut model, "zoe", people(&[]));
    assert_eq!(press(&mut model, KeyCode::Enter), []);
    let mut stays = model.clone();
    assert_eq!(press(&mut stays, KeyCode::Esc), []);
    assert_eq!(stays.dialog, None);
    assert_eq!(press(&mut model, KeyCode::Enter), [Action::OpenDirect("zoe".into())]);
}

#[test]
fn up_from_the_first_result_selects_the_typed_name() {
    let mut model = new_chat("zo");
    found(&mut model, "zo", people(&["zoe1"]));
    press(&mut model, KeyCode::Up);
    assert_eq!(press(&mut model, KeyCode::Enter), []);
    assert_eq!(press(&mut model, KeyCode::Enter), [Action::OpenDirect("zo".into())]);
}

#[test]
fn typed_user_id_is_used_without_people_search() {
    let mut model = new_chat("zoe");
    assert_eq!(press(&mut model, KeyCode::Enter), []);
    assert_eq!(found(&mut model, "zoe", None), [Action::OpenDirect("zoe".into())]);
}

#[test]
fn new_group_needs_a_title_and_members() {
    let mut model = model();
    control(&mut model, 'g');
    write(&mut model, "Lunch club");
    press(&mut model, KeyCode::Enter);
    write(&mut model, "bob, carol dave");
    let members = ["bob", "carol", "dave"].map(str::to_owned).to_vec();
    assert_eq!(press(&mut model, KeyCode::Enter), [Action::CreateGroup("Lunch club".into(), members)]);
}

#[test]
fn scrolling_up_requests_older_messages_once_and_end_returns_to_the_newest() {
    let mut model = with_chat(60);
    let mut asked = Vec::new();
    for _ in 0..10 {
        asked.extend(press(&mut model, KeyCode::PageUp));
    }
    assert_eq!(asked, [Action::LoadOlder(id(1))]);
    assert!(model.chat.as_ref().unwrap().anchor.is_some());
    assert_eq!(press(&mut model, KeyCode::End), [Action::LoadNewest(id(1))]);
    assert_eq!(model.chat.unwrap().anchor, None);
}

#[test]
fn older_pages_and_new_messages_keep_the_scroll_position() {
    let mut model = with_chat(60);
    press(&mut model, KeyCode::PageUp);
    press(&mut model, KeyCode::PageUp);
    let anchor = model.chat.as_ref().unwrap().anchor;
    let chat = model.chat.as_mut().unwrap();
    let items: Vec<Item> = (1..=70).map(said).collect();
    crate::present::refresh(chat, items);
    assert_eq!((chat.anchor, chat.new_below), (anchor, 10));
    let mut down = 0;
    while model.chat.as_ref().unwrap().anchor.is_some() {
        press(&mut model, KeyCode::PageDown);
        down += 1;
    }
    assert!(down >= 2, "{down}");
    assert_eq!(model.chat.unwrap().new_below, 0);
}

#[test]
fn failed_message_can_be_retried_or_deleted() {
    let mut model = with_chat(2);
    let chat = model.chat.as_mut().unwrap();
    chat.items[1].failed = true;
    let failed = MessageId::from_stored("m2");
    assert_eq!(control(&mut model, 'r'), [Action::Retry(id(1), failed.clone())]);
    assert_eq!(control(&mut model, 'x'), [Action::Discard(id(1), failed)]);
}

#[test]
fn escape_returns_to_the_inbox_in_a_narrow_terminal() {
    let mut model = with_chat(2);
    model.size = (40, 20);
    assert_eq!(press(&mut model, KeyCode::Esc), [Action::Close]);
    assert_eq!((model.chat.is_none(), model.focus), (true, Focus::Inbox));
}

#[test]
fn shortcuts_change_the_settings_of_the_selected_chat() {
    let mut model = model();
    assert_eq!(press(&mut model, KeyCode::Char('p')), [Action::Pin(id(1), true)]);
    assert_eq!(press(&mut model, KeyCode::Char('m')), [Action::Mute(id(1), true)]);
    assert_eq!(press(&mut model, KeyCode::Char('a')), [Action::Archive(id(1), true)]);
    model.inbox[2].archived = true;
    press(&mut model, KeyCode::Char('A'));
    assert_eq!(model.selected, Some(id(3)));
}

#[test]
fn leaving_a_group_needs_confirmation() {
    let mut model = with_chat(2);
    control(&mut model, 'l');
    let mut other = model.clone();
    assert_eq!(press(&mut other, KeyCode::Char('n')), []);
    assert_eq!(press(&mut model, KeyCode::Char('y')), [Action::Leave(id(1))]);
}

#[test]
fn no_key_panics_in_an_empty_client() {
    let mut model = ScreenModel::new("alice", "http://localhost", TerminalCapabilities::FULL, (80, 24));
    for code in [
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Enter,
        KeyCode::PageUp,
        KeyCode::End,
        KeyCode::Tab,
        KeyCode::Esc,
    ] {
        press(&mut model, code);
    }
    for letter in ['p', 'm', 'a', 'A', '/'] {
        press(&mut model, KeyCode::Char(letter));
    }
}
