//! Key handling: keys change the model and return the actions that need the client.

use bluetick_types::{ConversationId, ConversationKind, MessageId};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::composer::Composer;
use crate::draw::chat_height;
use crate::model::{Dialog, Focus, NewChat, ScreenModel, SearchState};
use crate::scroll;

/// An action for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Quit,
    Open(ConversationId),
    /// Close the open conversation.
    Close,
    Send(ConversationId, String),
    Typing(ConversationId),
    OpenDirect(String),
    CreateGroup(String, Vec<String>),
    Search(String),
    LoadOlder(ConversationId),
    LoadNewer(ConversationId),
    LoadNewest(ConversationId),
    LoadMoreInbox,
    Retry(ConversationId, MessageId),
    Discard(ConversationId, MessageId),
    Pin(ConversationId, bool),
    Mute(ConversationId, bool),
    Archive(ConversationId, bool),
    Leave(ConversationId),
}

/// Handles a paste. The text goes to the dialog or the search if one is active, else to the
/// composer of the open chat.
pub fn paste(model: &mut ScreenModel, text: &str) -> Vec<Action> {
    model.notice = None;
    match &mut model.dialog {
        Some(dialog) => return dialog_pasted(dialog, text),
        None if model.focus == Focus::Search => model.search.paste(&text.replace(['\n', '\r'], " ")),
        None => {
            let Some(chat) = &model.chat else { return Vec::new() };
            let id = chat.id;
            model.focus = Focus::Composer;
            model.composer.paste(text);
            return vec![Action::Typing(id)];
        }
    }
    Vec::new()
}

fn dialog_pasted(dialog: &mut Dialog, text: &str) -> Vec<Action> {
    let text = text.replace(['\n', '\r'], " ");
    match dialog {
        Dialog::NewChat(chat) => {
            chat.name.paste(&text);
            written(chat)
        }
        Dialog::NewGroup { title, members, in_members } => {
            if *in_members {
                members.paste(&text)
            } else {
                title.paste(&text)
            }
            Vec::new()
        }
        Dialog::Help | Dialog::Leave => Vec::new(),
    }
}

/// Handles a key press. Returns the actions to run.
pub fn key(model: &mut ScreenModel, key: KeyEvent) -> Vec<Action> {
    if key.kind == KeyEventKind::Release {
        return Vec::new();
    }
    model.notice = None;
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c' | 'q') if control => return vec![Action::Quit],
        KeyCode::F(1) => {
            model.dialog = if model.dialog == Some(Dialog::Help) { None } else { Some(Dialog::Help) };
            return Vec::new();
        }
        _ => {}
    }
    if model.dialog.is_some() {
        return in_dialog(model, key);
    }
    match key.code {
        KeyCode::Char('n') if control => {
            model.dialog = Some(Dialog::NewChat(NewChat::default()));
            Vec::new()
        }
        KeyCode::Char('g') if control => {
            let (title, members) = (Composer::default(), Composer::default());
            model.dialog = Some(Dialog::NewGroup { title, members, in_members: false });
            Vec::new()
        }
        KeyCode::Char('f' | 'k') if control => {
            model.focus = Focus::Search;
            Vec::new()
        }
        KeyCode::PageUp => scrolled(model, -(half_page(model) as isize)),
        KeyCode::PageDown => scrolled(model, half_page(model) as isize),
        KeyCode::Up if key.modifiers.contains(KeyModifiers::ALT) => open_adjacent(model, -1),
        KeyCode::Down if key.modifiers.contains(KeyModifiers::ALT) => open_adjacent(model, 1),
        _ => match model.focus {
            Focus::Inbox => in_inbox(model, key),
            Focus::Search => in_search(model, key),
            Focus::Composer => in_composer(model, key),
        },
    }
}

fn half_page(model: &ScreenModel) -> usize {
    (usize::from(chat_height(model)) / 2).max(1)
}

/// Scrolls the chat and requests more messages at its ends. If no chat is shown, moves the inbox
/// selection by ten rows.
fn scrolled(model: &mut ScreenModel, rows: isize) -> Vec<Action> {
    if model.chat.is_none() || (model.is_narrow() && model.focus == Focus::Inbox) {
        move_by(model, rows.signum() * 10);
        return more_if_at_end(model);
    }
    let edge = scroll::by(model, rows);
    let Some(chat) = &mut model.chat else { return Vec::new() };
    let id = chat.id;
    match edge {
        scroll::Edge::Top if !chat.reaches_start && !chat.is_loading => {
            chat.is_loading = true;
            vec![Action::LoadOlder(id)]
        }
        scroll::Edge::Bottom => vec![Action::LoadNewer(id)],
        _ => Vec::new(),
    }
}

/// Moves the selection of the inbox.
fn move_by(model: &mut ScreenModel, by: isize) {
    let lines = model.lines();
    let Some(last) = lines.len().checked_sub(1) else { return };
    let at = model.selected_at().map_or(0, |at| at.saturating_add_signed(by).min(last));
    model.selected = Some(lines[at].id);
}

/// Requests the next inbox page if the last row is selected.
fn more_if_at_end(model: &ScreenModel) -> Vec<Action> {
    let at_end = model.selected_at().is_some_and(|at| at + 1 == model.lines().len());
    if at_end { vec![Action::LoadMoreInbox] } else { Vec::new() }
}

/// Opens the conversation above or below the selected one.
fn open_adjacent(model: &mut ScreenModel, by: isize) -> Vec<Action> {
    move_by(model, by);
    open_selected(model)
}

fn open_selected(model: &mut ScreenModel) -> Vec<Action> {
    if model.selected_at().is_none() {
        move_by(model, 0);
    }
    let Some(id) = model.selected_line().map(|line| line.id) else { return Vec::new() };
    model.focus = Focus::Composer;
    vec![Action::Open(id)]
}

fn in_inbox(model: &mut ScreenModel, key: KeyEvent) -> Vec<Action> {
    let selected = model.selected_line().map(|line| (line.id, line.pinned, line.muted, line.archived));
    match (key.code, selected) {
        (KeyCode::Up | KeyCode::Char('k'), _) => move_by(model, -1),
        (KeyCode::Down | KeyCode::Char('j'), _) => {
            move_by(model, 1);
            return more_if_at_end(model);
        }
        (KeyCode::Home, _) => move_by(model, isize::MIN / 2),
        (KeyCode::End, _) => {
            move_by(model, isize::MAX / 2);
            return more_if_at_end(model);
        }
        (KeyCode::Enter | KeyCode::Right, _) => return open_selected(model),
        (KeyCode::Tab, _) if model.chat.is_some() => model.focus = Focus::Composer,
        (KeyCode::Esc, _) if model.shows_archive => model.shows_archive = false,
        (KeyCode::Esc, _) => model.search = Composer::default(),
        (KeyCode::Char('/'), _) => model.focus = Focus::Search,
        (KeyCode::Char('?'), _) => model.dialog = Some(Dialog::Help),
        (KeyCode::Char('q'), _) => return vec![Action::Quit],
        (KeyCode::Char('n'), _) => {
            model.dialog = Some(Dialog::NewChat(NewChat::default()));
        }
        (KeyCode::Char('g'), _) => {
            let (title, members) = (Composer::default(), Composer::default());
            model.dialog = Some(Dialog::NewGroup { title, members, in_members: false });
        }
        (KeyCode::Char('A'), _) => {
            model.shows_archive = !model.shows_archive;
            model.selected = model.lines().first().map(|line| line.id);
        }
        (KeyCode::Char('p'), Some((id, pinned, ..))) => return vec![Action::Pin(id, !pinned)],
        (KeyCode::Char('m'), Some((id, _, muted, _))) => return vec![Action::Mute(id, !muted)],
        (KeyCode::Char('a'), Some((id, _, _, archived))) => return vec![Action::Archive(id, !archived)],
        _ => {}
    }
    Vec::new()
}

fn in_search(model: &mut ScreenModel, key: KeyEvent) -> Vec<Action> {
    match key.code {
        KeyCode::Esc => {
            model.search = Composer::default();
            model.focus = Focus::Inbox;
        }
        KeyCode::Enter => {
            let lines = model.lines();
            if lines.is_empty() {
                // No conversation matches. Search for a person with that name instead.
                let mut chat = NewChat { name: std::mem::take(&mut model.search), ..NewChat::default() };
                let search = written(&mut chat);
                model.focus = Focus::Inbox;
                model.dialog = Some(Dialog::NewChat(chat));
                return search;
            }
            let opened = open_selected(model);
            model.search = Composer::default();
            return opened;
        }
        KeyCode::Up => move_by(model, -1),
        KeyCode::Down => move_by(model, 1),
        KeyCode::Tab => model.focus = Focus::Inbox,
        _ => {
            edit(&mut model.search, key);
            model.selected = model.lines().first().map(|line| line.id);
        }
    }
    Vec::new()
}

/// Handles the editing keys that all text inputs share. Returns whether the key was one of them.
fn edit(line: &mut Composer, key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('u') if control => drop(line.take()),
        KeyCode::Char('w') if control => line.delete_word(),
        KeyCode::Char('a') if control => line.home(),
        KeyCode::Char('e') if control => line.end(),
        KeyCode::Char(c) if !control && !key.modifiers.contains(KeyModifiers::ALT) => line.insert(c),
        KeyCode::Backspace => line.backspace(),
        KeyCode::Delete => line.delete(),
        KeyCode::Left => line.left(),
        KeyCode::Right => line.right(),
        KeyCode::Home => line.home(),
        KeyCode::End => line.end(),
        _ => return false,
    }
    true
}

fn in_composer(model: &mut ScreenModel, key: KeyEvent) -> Vec<Action> {
    let is_narrow = model.is_narrow();
    let Some(chat) = &mut model.chat else {
        model.focus = Focus::Inbox;
        return Vec::new();
    };
    let id = chat.id;
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let new_line = key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT);
    match key.code {
        KeyCode::Esc | KeyCode::Tab if is_narrow => {
            model.focus = Focus::Inbox;
            model.chat = None;
            return vec![Action::Close];
        }
        KeyCode::Esc | KeyCode::Tab => model.focus = Focus::Inbox,
        KeyCode::Enter if new_line => model.composer.insert('\n'),
        KeyCode::Char('j') if control => model.composer.insert('\n'),
        KeyCode::Enter => {
            if model.composer.text().trim().is_empty() {
                return Vec::new();
            }
            chat.anchor = None;
            chat.new_below = 0;
            return vec![Action::Send(id, model.composer.take())];
        }
        KeyCode::Char('l') if control && id.kind() == ConversationKind::Group => {
            model.dialog = Some(Dialog::Leave)
        }
        KeyCode::End if control || model.composer.is_empty() => {
            chat.anchor = None;
            chat.new_below = 0;
            return vec![Action::LoadNewest(id)];
        }
        KeyCode::Char('r') if control => {
            let failed = chat.items.iter().find(|item| item.failed);
            return failed.map(|item| Action::Retry(id, item.message_id.clone())).into_iter().collect();
        }
        KeyCode::Char('x') if control => {
            let failed = chat.items.iter().find(|item| item.failed);
            return failed.map(|item| Action::Discard(id, item.message_id.clone())).into_iter().collect();
        }
        KeyCode::Up => {
            if !model.composer.up() {
                return scrolled(model, -1);
            }
        }
        KeyCode::Down => {
            if !model.composer.down() {
                return scrolled(model, 1);
            }
        }
        _ => {
            let before = model.composer.text().len();
            if edit(&mut model.composer, key) && model.composer.text().len() > before {
                return vec![Action::Typing(id)];
            }
        }
    }
    Vec::new()
}

fn in_dialog(model: &mut ScreenModel, key: KeyEvent) -> Vec<Action> {
    if key.code == KeyCode::Esc {
        model.dialog = None;
        return Vec::new();
    }
    match model.dialog.take() {
        Some(Dialog::NewChat(chat)) => new_chat(model, key, chat),
        Some(Dialog::NewGroup { title, members, in_members }) => {
            new_group(model, key, title, members, in_members)
        }
        // Any key closes the help.
        Some(Dialog::Help) | None => Vec::new(),
        Some(Dialog::Leave) => match (key.code, &model.chat) {
            (KeyCode::Char('y' | 'Y'), Some(chat)) => vec![Action::Leave(chat.id)],
            _ => Vec::new(),
        },
    }
}

fn new_chat(model: &mut ScreenModel, key: KeyEvent, mut chat: NewChat) -> Vec<Action> {
    let mut actions = Vec::new();
    match key.code {
        KeyCode::Enter if chat.name.text().trim().is_empty() => {}
        KeyCode::Enter => match (chat.chosen(), chat.answer) {
            (Some(user), _) => return vec![Action::OpenDirect(user)],
            (None, SearchState::Awaited | SearchState::AwaitedByEnter) => {
                chat.answer = SearchState::AwaitedByEnter
            }
            (None, SearchState::Here) => chat.answer = SearchState::NotFound,
            (None, SearchState::NoSearch | SearchState::NotFound) => {
                return vec![Action::OpenDirect(chat.name.text().trim().to_owned())];
            }
        },
        KeyCode::Down if !chat.found.is_empty() => {
            chat.selected = Some(chat.selected.map_or(0, |at| (at + 1).min(chat.found.len() - 1)));
        }
        KeyCode::Up => chat.selected = chat.selected.and_then(|at| at.checked_sub(1)),
        _ => {
            if edit(&mut chat.name, key) {
                actions = written(&mut chat);
            }
        }
    }
    model.dialog = Some(Dialog::NewChat(chat));
    actions
}

/// Handles a change of the typed name: drops the selection and starts a new search.
fn written(chat: &mut NewChat) -> Vec<Action> {
    chat.selected = None;
    chat.answer = SearchState::Awaited;
    if chat.name.text().trim().is_empty() {
        chat.found.clear();
        return Vec::new();
    }
    vec![Action::Search(chat.name.text().to_owned())]
}

/// Handles the answer to a search for `asked`. `people` is `None` if the search failed. Ignores the
/// answer if the text has changed since.
pub fn found(model: &mut ScreenModel, asked: &str, people: Option<Vec<(String, String)>>) -> Vec<Action> {
    let Some(Dialog::NewChat(chat)) = &mut model.dialog else { return Vec::new() };
    if chat.name.text() != asked {
        return Vec::new();
    }
    let picked = chat.selected.and_then(|at| chat.found.get(at)).map(|(user, _)| user.clone());
    let can_look = people.is_some();
    let enter_was_pressed = chat.answer == SearchState::AwaitedByEnter;
    chat.found = people.unwrap_or_default();
    let place = |user: &str| chat.found.iter().position(|(known, _)| known == user);
    chat.selected = picked
        .and_then(|user| place(&user))
        .or_else(|| place(asked.trim()))
        .or((!chat.found.is_empty()).then_some(0));
    chat.answer = if can_look { SearchState::Here } else { SearchState::NoSearch };
    if enter_was_pressed { key(model, KeyEvent::from(KeyCode::Enter)) } else { Vec::new() }
}

impl NewChat {
    /// The user id of the selected result.
    fn chosen(&self) -> Option<String> {
        self.selected.and_then(|at| self.found.get(at)).map(|(user, _)| user.clone())
    }
}

fn new_group(
    model: &mut ScreenModel,
    key: KeyEvent,
    mut title: Composer,
    mut members: Composer,
    mut in_members: bool,
) -> Vec<Action> {
    match key.code {
        KeyCode::Tab | KeyCode::Up | KeyCode::Down => in_members = !in_members,
        KeyCode::Enter if !in_members => in_members = true,
        KeyCode::Enter => {
            let named: Vec<String> = members
                .text()
                .split(|c: char| c == ',' || c.is_whitespace())
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect();
            if !title.text().trim().is_empty() {
                return vec![Action::CreateGroup(title.text().trim().to_owned(), named)];
            }
            in_members = false;
        }
        _ => {
            edit(if in_members { &mut members } else { &mut title }, key);
        }
    }
    model.dialog = Some(Dialog::NewGroup { title, members, in_members });
    Vec::new()
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
