//! Draws the conversation: header, messages and composer.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::symbols;
use super::{Areas, areas, coloured, faint, strong};
use crate::model::{ChatPane, Content, Focus, Item, ItemKey, ScreenModel};
use crate::scroll;
use crate::text::{cut, width, wrap};

/// One drawn row of a conversation.
pub struct ChatRow {
    /// The item, and the row within it.
    pub position: (ItemKey, usize),
    pub line: Line<'static>,
}

/// Colours of sender names in groups. A hash of the name selects one.
const NAME_COLOURS: [Color; 6] = [
    Color::LightMagenta,
    Color::LightGreen,
    Color::LightYellow,
    Color::LightCyan,
    Color::LightRed,
    Color::Magenta,
];

pub fn draw(frame: &mut Frame<'_>, model: &ScreenModel, areas: &Areas) {
    let Some(chat) = &model.chat else {
        let words = [
            format!("Bluetick, {} at {}", model.me, model.server),
            String::new(),
            "Enter opens a chat, n starts a new chat, g creates a group.".into(),
            "? shows all keys.".into(),
        ];
        let columns = usize::from(areas.messages.width);
        let lines =
            words.iter().flat_map(|words| wrap(words, columns)).map(|line| Line::styled(line, faint()));
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), areas.messages);
        return;
    };
    head(frame, model, chat, areas.header);
    messages(frame, model, chat, areas.messages);
    composer(frame, model, chat, areas.composer);
}

fn head(frame: &mut Frame<'_>, model: &ScreenModel, chat: &ChatPane, area: Rect) {
    let (columns, dots) = (usize::from(area.width), symbols::ellipsis(model.look));
    let lines = vec![
        Line::styled(cut(&chat.name, columns, dots), strong(model, Color::Cyan)),
        Line::styled(cut(&chat.about.replace('…', dots), columns, dots), faint()),
        Line::styled(symbols::rule(model.look).repeat(columns), faint()),
    ];
    frame.render_widget(Paragraph::new(lines), area);
}

fn messages(frame: &mut Frame<'_>, model: &ScreenModel, chat: &ChatPane, area: Rect) {
    let rows = rows(model, chat);
    let positions: Vec<(ItemKey, usize)> = rows.iter().map(|row| row.position).collect();
    let bottom = scroll::bottom(chat, &positions);
    let height = usize::from(area.height);
    let first = bottom.saturating_sub(height);
    let mut lines: Vec<Line<'_>> =
        rows.into_iter().skip(first).take(bottom - first).map(|row| row.line).collect();
    // If the messages do not fill the screen, align them to the bottom.
    let mut above = height.saturating_sub(lines.len());
    if first == 0 && chat.is_loading && above > 0 {
        lines.insert(0, Line::styled(format!("loading{}", symbols::ellipsis(model.look)), faint()));
        above -= 1;
    }
    for _ in 0..above {
        lines.insert(0, Line::default());
    }
    frame.render_widget(Paragraph::new(lines), area);
    if chat.anchor.is_some() && area.height > 0 {
        let arrow = if model.look.unicode { "▼" } else { "v" };
        let words = match chat.new_below {
            0 => format!(" {arrow} End: newest "),
            count => format!(" {arrow} {count} new, End: newest "),
        };
        let columns = u16::try_from(width(&words)).unwrap_or(0).min(area.width);
        let place = Rect::new(area.right() - columns, area.bottom() - 1, columns, 1);
        let style = strong(model, Color::Green).add_modifier(Modifier::REVERSED);
        frame.render_widget(Paragraph::new(Line::styled(words, style)), place);
    }
}

/// Lays out all rows of a conversation for the current width.
pub fn rows(model: &ScreenModel, chat: &ChatPane) -> Vec<ChatRow> {
    let columns = usize::from(areas(model).messages.width);
    let mut rows = Vec::new();
    for item in &chat.items {
        let lines = of_item(model, item, columns);
        rows.extend(
            lines.into_iter().enumerate().map(|(at, line)| ChatRow { position: (item.key, at), line }),
        );
    }
    rows
}

fn of_item(model: &ScreenModel, item: &Item, columns: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(day) = &item.day {
        lines.push(headline(model, day, columns, faint()));
    }
    if item.unread_begins {
        lines.push(headline(model, "new", columns, strong(model, Color::Green)));
    }
    match &item.content {
        Content::Notice(text) => {
            for line in wrap(text, columns.saturating_sub(4)) {
                let gap = columns.saturating_sub(width(&line)) / 2;
                lines.push(Line::styled(format!("{}{line}", " ".repeat(gap)), faint()));
            }
        }
        Content::Said { who, own, text, is_absent, at, tick, problem } => {
            if item.shows_name && !own {
                let colour = NAME_COLOURS[who.bytes().map(usize::from).sum::<usize>() % NAME_COLOURS.len()];
                let name = cut(who, columns.saturating_sub(1), symbols::ellipsis(model.look));
                lines.push(Line::styled(format!(" {name}"), strong(model, colour)));
            }
            let sign = tick.map(|tick| format!(" {}", symbols::tick(model.look, tick))).unwrap_or_default();
            let sign_style = tick.map(|tick| symbols::tick_style(model, tick)).unwrap_or_default();
            let stamp_width = width(at) + width(&sign) + 2;
            // Use at most 4/5 of the width, so that own and other messages are easy to tell apart.
            let most = (columns * 4 / 5).max(columns.min(24)).saturating_sub(2).max(1);
            let mut texts = wrap(text, most);
            if width(texts.last().map_or("", String::as_str)) + stamp_width > columns.saturating_sub(2) {
                texts.push(String::new());
            }
            let block = texts.iter().map(|line| width(line)).max().unwrap_or(0);
            let last = texts.len() - 1;
            for (number, line) in texts.into_iter().enumerate() {
                let is_last = number == last;
                let used = width(&line) + if is_last { stamp_width } else { 0 };
                let full = block.max(used).min(columns.saturating_sub(2));
                let indent = if *own { columns.saturating_sub(full.max(used) + 1) } else { 1 };
                let style = if *is_absent { faint().add_modifier(Modifier::ITALIC) } else { Style::new() };
                let mut spans = vec![Span::raw(" ".repeat(indent)), Span::styled(line, style)];
                if is_last {
                    spans.push(Span::styled(format!("  {at}"), faint()));
                    spans.push(Span::styled(sign.clone(), sign_style));
                }
                lines.push(Line::from(spans));
            }
            if let Some(problem) = problem {
                let words = format!("not sent: {problem}. Ctrl-R tries again, Ctrl-X deletes it.");
                for line in wrap(&words, columns.saturating_sub(2)) {
                    lines.push(Line::styled(format!(" {line}"), coloured(model, Color::LightRed)));
                }
            }
        }
    }
    lines
}

fn headline(model: &ScreenModel, words: &str, columns: usize, style: Style) -> Line<'static> {
    let rule = symbols::rule(model.look);
    let sides = columns.saturating_sub(width(words) + 2);
    let (left, right) = (sides / 2, sides - sides / 2);
    Line::styled(format!("{} {words} {}", rule.repeat(left), rule.repeat(right)), style)
}

fn composer(frame: &mut Frame<'_>, model: &ScreenModel, chat: &ChatPane, area: Rect) {
    if area.height < 2 {
        return;
    }
    let columns = usize::from(area.width);
    let rule = Line::styled(symbols::rule(model.look).repeat(columns), faint());
    frame.render_widget(Paragraph::new(rule), Rect { height: 1, ..area });
    let inner = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let (rows, (row, column)) = model.composer.layout(columns.saturating_sub(3));
    let is_here = model.focus == Focus::Composer && model.dialog.is_none();
    if model.composer.is_empty() && !is_here {
        let words = format!("> Message to {}", chat.name);
        let line = Line::styled(cut(&words, columns, symbols::ellipsis(model.look)), faint());
        frame.render_widget(Paragraph::new(line), inner);
        return;
    }
    let height = usize::from(inner.height);
    let first = (row + 1).saturating_sub(height);
    let lines: Vec<Line<'_>> = rows
        .into_iter()
        .enumerate()
        .skip(first)
        .take(height)
        .map(|(at, line)| {
            Line::from(vec![Span::styled(if at == 0 { "> " } else { "  " }, faint()), Span::raw(line)])
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), inner);
    if is_here {
        let x = inner.x + 2 + u16::try_from(column).unwrap_or(0);
        let y = inner.y + u16::try_from(row - first).unwrap_or(0);
        frame.set_cursor_position(Position::new(x.min(inner.right().saturating_sub(1)), y));
    }
}
