//! Draws the screen as a pure function of the model.

mod chat;
mod dialog;
mod inbox;
mod symbols;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

pub use self::chat::{ChatRow, rows};
use crate::model::{Focus, LinkStatus, ScreenModel};
use crate::text::{cut, width, wrap};

/// Maximum height of the composer's text, in rows. Longer texts scroll.
const MOST_COMPOSER_ROWS: usize = 6;
/// Height of the chat header: name, status line and a rule.
const HEADER_ROWS: u16 = 3;

/// The areas of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    /// `None` if a narrow terminal shows the chat instead.
    pub inbox: Option<Rect>,
    pub header: Rect,
    pub messages: Rect,
    pub composer: Rect,
    pub shows_chat: bool,
    pub status: Rect,
}

/// Computes the areas for the current terminal size, focus and composer height.
pub fn areas(model: &ScreenModel) -> Areas {
    let (columns, rows) = model.size;
    let status = Rect::new(0, rows.saturating_sub(1), columns, rows.min(1));
    let height = rows.saturating_sub(1);
    let shows_chat = !model.is_narrow() || (model.chat.is_some() && model.focus != Focus::Search);
    let inbox_columns = match (model.is_narrow(), shows_chat) {
        (false, _) => (columns * 3 / 10).clamp(22, 38),
        (true, true) => 0,
        (true, false) => columns,
    };
    let left = inbox_columns + u16::from(!model.is_narrow());
    let right = Rect::new(left.min(columns), 0, columns.saturating_sub(left), height);
    let lines = model.composer.layout(usize::from(right.width.saturating_sub(3))).0.len();
    let composer_rows = u16::try_from(lines.min(MOST_COMPOSER_ROWS)).unwrap_or(1) + 1;
    let composer_rows = composer_rows.min(right.height.saturating_sub(HEADER_ROWS + 1));
    let message_rows = right.height.saturating_sub(HEADER_ROWS + composer_rows);
    Areas {
        inbox: (inbox_columns > 0).then(|| Rect::new(0, 0, inbox_columns, height)),
        header: Rect::new(right.x, 0, right.width, HEADER_ROWS.min(right.height)),
        messages: Rect::new(right.x, HEADER_ROWS.min(right.height), right.width, message_rows),
        composer: Rect::new(right.x, right.height - composer_rows, right.width, composer_rows),
        shows_chat,
        status,
    }
}

/// Number of visible message rows, at least one.
pub fn chat_height(model: &ScreenModel) -> u16 {
    areas(model).messages.height.max(1)
}

pub fn draw(frame: &mut Frame<'_>, model: &ScreenModel) {
    let areas = areas(model);
    if model.size.0 < 20 || model.size.1 < 8 {
        let words = ["This window is too small.", "too small"];
        let folded = words.map(|words| wrap(words, usize::from(model.size.0)));
        let fits = |lines: &&Vec<String>| lines.len() <= usize::from(model.size.1);
        let shown = folded.iter().find(fits).unwrap_or(&folded[1]);
        frame.render_widget(Paragraph::new(shown.join("\n")), frame.area());
        return;
    }
    if let Some(area) = areas.inbox {
        inbox::draw(frame, model, area);
        if areas.shows_chat {
            let rule = if model.look.unicode { "│" } else { "|" };
            let lines: Vec<Line<'_>> = (0..area.height).map(|_| Line::styled(rule, faint())).collect();
            frame.render_widget(Paragraph::new(lines), Rect::new(area.width, 0, 1, area.height));
        }
    }
    if areas.shows_chat {
        chat::draw(frame, model, &areas);
    }
    status(frame, model, areas.status);
    dialog::draw(frame, model);
}

fn status(frame: &mut Frame<'_>, model: &ScreenModel, area: Rect) {
    let dots = symbols::ellipsis(model.look);
    let left = match (&model.notice, &model.link) {
        (Some(notice), _) => notice.clone(),
        (None, LinkStatus::Online) if model.waiting == 1 => format!("sending 1 message{dots}"),
        (None, LinkStatus::Online) if model.waiting > 0 => {
            format!("sending {} messages{dots}", model.waiting)
        }
        (None, LinkStatus::Online) if model.failed == 1 => "1 message was not sent".to_owned(),
        (None, LinkStatus::Online) if model.failed > 0 => format!("{} messages were not sent", model.failed),
        (None, LinkStatus::Online) => String::new(),
        (None, LinkStatus::Waiting) => with_waiting(format!("waiting for network{dots}"), model.waiting),
        (None, LinkStatus::Reconnecting) => with_waiting(format!("reconnecting{dots}"), model.waiting),
        (None, LinkStatus::CatchingUp) => format!("catching up{dots}"),
        (None, LinkStatus::LoggedOut) => {
            "your log-in has expired: quit with Ctrl-C and start again".to_owned()
        }
        (None, LinkStatus::OtherUser) => "this token belongs to another user: quit with Ctrl-C".to_owned(),
    };
    let hints = match model.focus {
        Focus::Composer => "F1 help  Esc inbox  Enter send",
        Focus::Search => "Esc back  Enter open",
        Focus::Inbox => "? help  n new chat  / search  q quit",
    };
    let columns = usize::from(area.width);
    let left = cut(&left, columns, dots);
    let room = columns.saturating_sub(width(&left) + 1);
    let hints = [hints, "F1 help", ""].into_iter().find(|hints| width(hints) <= room).unwrap_or_default();
    let gap = " ".repeat(columns.saturating_sub(width(&left) + width(hints)));
    let urgent =
        model.notice.is_some() || matches!(model.link, LinkStatus::LoggedOut | LinkStatus::OtherUser);
    let style = if urgent { strong(model, Color::Yellow) } else { faint() };
    let line = Line::from(vec![Span::styled(left, style), Span::raw(gap), Span::styled(hints, faint())]);
    frame.render_widget(Paragraph::new(line), area);
}

fn with_waiting(text: String, waiting: usize) -> String {
    match waiting {
        0 => text,
        1 => format!("{text} 1 message waits to be sent"),
        many => format!("{text} {many} messages wait to be sent"),
    }
}

pub(crate) fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// Bold, and coloured if the terminal has colours.
pub(crate) fn strong(model: &ScreenModel, colour: Color) -> Style {
    coloured(model, colour).add_modifier(Modifier::BOLD)
}

pub(crate) fn coloured(model: &ScreenModel, colour: Color) -> Style {
    if model.look.colour { Style::new().fg(colour) } else { Style::new() }
}
