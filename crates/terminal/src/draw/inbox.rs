//! Draws the inbox.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::symbols;
use super::{coloured, faint, strong};
use crate::model::{Focus, InboxLine, ScreenModel};
use crate::text::{cut, width};

/// Height of one conversation, in rows: its name and its preview. The scroll position counts in it.
const ROWS_EACH: usize = 2;
/// Height of the head, in rows: the user and the search input.
const HEAD_ROWS: u16 = 2;

pub fn draw(frame: &mut Frame<'_>, model: &ScreenModel, area: Rect) {
    let columns = usize::from(area.width);
    head(frame, model, Rect { height: 1, ..area }, columns);
    search(frame, model, Rect { y: 1, height: 1, ..area }, columns);
    let list = Rect { y: HEAD_ROWS, height: area.height.saturating_sub(HEAD_ROWS), ..area };
    let lines = model.lines();
    if lines.is_empty() {
        let words = match (model.search.is_empty(), model.shows_archive) {
            (false, _) => "no results; Enter searches people",
            (true, true) => "no archived chats",
            (true, false) => "no chats yet: n starts one",
        };
        let wrapped = crate::text::wrap(words, columns).into_iter().map(|line| Line::styled(line, faint()));
        frame.render_widget(Paragraph::new(wrapped.collect::<Vec<_>>()), list);
        return;
    }
    let fitting = (usize::from(list.height) / ROWS_EACH).max(1);
    let at = model.selected_at().unwrap_or(0);
    // Scroll so that the selected row is the last visible one at most.
    let first = (at + 1).saturating_sub(fitting);
    let drawn = lines.iter().enumerate().skip(first).take(fitting);
    let drawn: Vec<Line<'_>> =
        drawn.flat_map(|(place, line)| one(model, line, place == at, columns)).collect();
    frame.render_widget(Paragraph::new(drawn), list);
}

fn head(frame: &mut Frame<'_>, model: &ScreenModel, area: Rect, columns: usize) {
    let title = if model.shows_archive { "Archive".to_owned() } else { format!("Bluetick {}", model.me) };
    let unread = if model.unread_total > 0 { format!("({})", model.unread_total) } else { String::new() };
    let title = cut(&title, columns.saturating_sub(width(&unread) + 1), symbols::ellipsis(model.look));
    let gap = " ".repeat(columns.saturating_sub(width(&title) + width(&unread)));
    let line = Line::from(vec![
        Span::styled(title, strong(model, Color::Cyan)),
        Span::raw(gap),
        Span::styled(unread, strong(model, Color::Green)),
    ]);
    frame.render_widget(Paragraph::new(line), area);
}

fn search(frame: &mut Frame<'_>, model: &ScreenModel, area: Rect, columns: usize) {
    let is_here = model.focus == Focus::Search && model.dialog.is_none();
    let (shown, style) = match (is_here, model.search.is_empty()) {
        (false, true) => ("/ search".to_owned(), faint()),
        _ => (format!("/{}", crate::text::safe_line(model.search.text())), Style::new()),
    };
    if is_here {
        let (rows, (row, column)) = model.search.layout(columns.saturating_sub(2));
        let shown = format!("/{}", rows.get(row).map_or("", String::as_str));
        frame.render_widget(Paragraph::new(shown), area);
        let x = area.x + 1 + u16::try_from(column).unwrap_or(0);
        frame.set_cursor_position(Position::new(x.min(area.right().saturating_sub(1)), area.y));
        return;
    }
    let line = Line::styled(cut(&shown, columns, symbols::ellipsis(model.look)), style);
    frame.render_widget(Paragraph::new(line), area);
}

fn one<'a>(model: &ScreenModel, line: &'a InboxLine, is_selected: bool, columns: usize) -> [Line<'a>; 2] {
    let dots = symbols::ellipsis(model.look);
    let is_open = model.chat.as_ref().is_some_and(|chat| chat.id == line.id);
    let mut base = Style::new();
    if is_selected && model.focus != Focus::Composer {
        base = base.add_modifier(Modifier::REVERSED);
    } else if is_open || is_selected {
        base = base.add_modifier(Modifier::BOLD);
    }
    let mark = if line.pinned { symbols::pinned(model.look) } else { "" };
    let there = if line.online { symbols::online(model.look) } else { "" };
    let fixed = width(mark) + width(&line.at) + width(there) + 2;
    let name = cut(&line.name, columns.saturating_sub(fixed), dots);
    let gap =
        " ".repeat(columns.saturating_sub(width(mark) + width(&name) + 1 + width(there) + width(&line.at)));
    let name_style = if line.unread > 0 { base.add_modifier(Modifier::BOLD) } else { base };
    let first = Line::from(vec![
        Span::styled(mark, base),
        Span::styled(name, name_style),
        Span::styled(format!(" {there}"), base.patch(coloured(model, Color::Green))),
        Span::styled(gap, base),
        Span::styled(line.at.as_str(), base),
    ]);

    let badge = match (line.unread, line.muted) {
        (0, false) => String::new(),
        (0, true) => "muted".to_owned(),
        (unread, true) => format!("({unread}) muted"),
        (unread, false) => format!("({unread})"),
    };
    let tick = line.tick.filter(|_| !line.is_typing);
    let sign = tick.map(|tick| format!("{} ", symbols::tick(model.look, tick))).unwrap_or_default();
    let preview = if line.is_typing { format!("typing{dots}") } else { line.preview.clone() };
    let room = columns.saturating_sub(width(&sign) + width(&badge) + 3);
    let preview = cut(&preview, room, dots);
    let gap = " ".repeat(columns.saturating_sub(2 + width(&sign) + width(&preview) + width(&badge)));
    let sign_style = tick.map(|tick| symbols::tick_style(model, tick)).unwrap_or_default();
    let preview_style = if line.is_typing { coloured(model, Color::Green) } else { faint() };
    let badge_style = if line.muted { faint() } else { strong(model, Color::Green) };
    let second = Line::from(vec![
        Span::styled("  ", base),
        Span::styled(sign, base.patch(sign_style)),
        Span::styled(preview, base.patch(preview_style)),
        Span::styled(gap, base),
        Span::styled(badge, base.patch(badge_style)),
    ]);
    [first, second]
}
