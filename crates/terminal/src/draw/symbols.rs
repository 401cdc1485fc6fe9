//! Symbols, with texts for terminals without Unicode or colours.

use bluetick_client::Tick;
use ratatui::style::{Color, Style};

use super::{coloured, faint};
use crate::model::{ScreenModel, TerminalCapabilities};

pub fn ellipsis(look: TerminalCapabilities) -> &'static str {
    if look.unicode { "…" } else { "..." }
}

/// The tick symbol. Without colours, `Read` gets a text, because it would look like `Delivered`.
/// Without Unicode, every tick is a text.
pub fn tick(look: TerminalCapabilities, tick: Tick) -> &'static str {
    match (tick, look.unicode, look.colour) {
        (Tick::Queued, true, _) => "◷",
        (Tick::Sent, true, _) => "✓",
        (Tick::Delivered, true, _) => "✓✓",
        (Tick::Read, true, true) => "✓✓",
        (Tick::Read, true, false) => "✓✓ read",
        (Tick::Failed, true, _) => "✗",
        (Tick::Queued, false, _) => "waiting",
        (Tick::Sent, false, _) => "sent",
        (Tick::Delivered, false, _) => "delivered",
        (Tick::Read, false, _) => "read",
        (Tick::Failed, false, _) => "failed",
    }
}

pub fn tick_style(model: &ScreenModel, tick: Tick) -> Style {
    match tick {
        Tick::Read => coloured(model, Color::LightBlue),
        Tick::Failed => coloured(model, Color::LightRed),
        Tick::Queued | Tick::Sent | Tick::Delivered => faint(),
    }
}

pub fn online(look: TerminalCapabilities) -> &'static str {
    if look.unicode { "●" } else { "*" }
}

pub fn pinned(look: TerminalCapabilities) -> &'static str {
    if look.unicode { "⚑ " } else { "^ " }
}

pub fn rule(look: TerminalCapabilities) -> &'static str {
    if look.unicode { "─" } else { "-" }
}
