//! Draws the dialogs and the help.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, BorderType, Clear, Paragraph};

use super::{faint, symbols};
use crate::composer::Composer;
use crate::model::{Dialog, NewChat, ScreenModel, SearchState};
use crate::text::{cut, safe_line};

/// The rows of the help: keys and their meaning.
const HELP: [(&str, &str); 19] = [
    ("Enter", "open a chat; send the message"),
    ("Alt-Enter, Ctrl-J", "new line"),
    ("Esc, Tab", "switch between inbox and message"),
    ("Up, Down", "move; scroll the chat"),
    ("PageUp, PageDown", "scroll the chat"),
    ("End", "jump to the newest message"),
    ("Alt-Up, Alt-Down", "previous or next chat"),
    ("/, Ctrl-F", "search the inbox"),
    ("n, Ctrl-N", "new chat"),
    ("g, Ctrl-G", "new group"),
    ("Ctrl-R, Ctrl-X", "resend or cancel an unsent message"),
    ("p, m, a", "pin, mute, archive"),
    ("A", "archived chats"),
    ("Ctrl-L", "leave the group"),
    ("F1", "this help; in the inbox also ?"),
    ("q, Ctrl-C", "quit; unsent messages stay queued"),
    ("", ""),
    ("one tick, two ticks", "sent; delivered"),
    ("two blue ticks", "read"),
];

pub fn draw(frame: &mut Frame<'_>, model: &ScreenModel) {
    match &model.dialog {
        None => {}
        Some(Dialog::Help) => help(frame, model),
        Some(Dialog::Leave) => {
            let area = window(frame, model, "Leave this group?", 1);
            frame.render_widget(Paragraph::new("y: leave, any other key: cancel"), area);
        }
        Some(Dialog::NewChat(NewChat { name, found, selected, answer })) => {
            let hints = new_chat_hints(model, name.text(), found.is_empty(), *answer);
            let rows = 1 + hints.len() + found.len().clamp(1, 10);
            let area = window(frame, model, "New chat", rows);
            // Typed letters always go to this input, even if a result is selected.
            field(frame, Rect { height: 1, ..area }, "", name, true);
            let mut lines: Vec<Line<'_>> =
                hints.into_iter().map(|hint| Line::styled(hint, faint())).collect();
            for (at, (user, shown)) in found.iter().take(10).enumerate() {
                let words = if shown == user { user.clone() } else { format!("{shown} ({user})") };
                let words = cut(&words, usize::from(area.width), symbols::ellipsis(model.look));
                let is_selected = *selected == Some(at);
                let style =
                    if is_selected { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
                lines.push(Line::styled(words, style));
            }
            let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
            frame.render_widget(Paragraph::new(lines), below);
        }
        Some(Dialog::NewGroup { title, members, in_members }) => {
            let area = window(frame, model, "New group", 3);
            field(frame, Rect { height: 1, ..area }, "title   ", title, !in_members);
            field(frame, Rect { y: area.y + 1, height: 1, ..area }, "members ", members, *in_members);
            let hint = Line::styled("user_ids, separated by spaces or commas", faint());
            frame.render_widget(Paragraph::new(hint), Rect { y: area.y + 2, height: 1, ..area });
        }
    }
}

fn new_chat_hints(model: &ScreenModel, name: &str, found_nobody: bool, answer: SearchState) -> Vec<String> {
    let dots = symbols::ellipsis(model.look);
    match answer {
        SearchState::AwaitedByEnter => vec![format!("searching{dots}")],
        SearchState::NotFound => vec![
            format!("User {} was not found.", cut(&safe_line(name.trim()), 36, dots)),
            "Start a chat anyway? Enter / Esc".to_owned(),
        ],
        _ if found_nobody => vec!["name or user_id".to_owned()],
        _ => vec![String::new()],
    }
}

fn field(frame: &mut Frame<'_>, area: Rect, label: &'static str, text: &Composer, is_here: bool) {
    let room = usize::from(area.width).saturating_sub(label.len() + 3);
    let (rows, (row, column)) = text.layout(room);
    let shown = rows.get(row).map_or("", String::as_str);
    frame.render_widget(Paragraph::new(format!("{label}> {shown}")), area);
    if is_here {
        let x = area.x + u16::try_from(label.len() + 2 + column).unwrap_or(0);
        frame.set_cursor_position(Position::new(x.min(area.right().saturating_sub(1)), area.y));
    }
}

/// Draws an empty bordered window in the middle of the screen. Returns its inner area.
fn window(frame: &mut Frame<'_>, model: &ScreenModel, title: &str, rows: usize) -> Rect {
    let screen = frame.area();
    let width = screen.width.min(64);
    let height = u16::try_from(rows + 2).unwrap_or(u16::MAX).min(screen.height);
    let area = Rect::new((screen.width - width) / 2, (screen.height - height) / 3, width, height);
    frame.render_widget(Clear, area);
    let borders =
        if model.look.unicode { Block::bordered().border_type(BorderType::Rounded) } else { ascii() };
    let block = borders.title(format!(" {title} "));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    inside
}

fn ascii() -> Block<'static> {
    let plus = "+";
    Block::bordered().border_set(ratatui::symbols::border::Set {
        top_left: plus,
        top_right: plus,
        bottom_left: plus,
        bottom_right: plus,
        vertical_left: "|",
        vertical_right: "|",
        horizontal_top: "-",
        horizontal_bottom: "-",
    })
}

fn help(frame: &mut Frame<'_>, model: &ScreenModel) {
    let area = window(frame, model, "Keys", HELP.len());
    let columns = usize::from(area.width);
    let lines: Vec<Line<'_>> = HELP
        .iter()
        .map(|(keys, meaning)| cut(&format!("{keys:<20}{meaning}"), columns, symbols::ellipsis(model.look)))
        .map(Line::from)
        .collect();
    frame.render_widget(Paragraph::new(lines), area);
}
