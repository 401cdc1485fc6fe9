//! The scroll position of a conversation. The anchor names the row at the bottom of the view, so
//! that neither older pages nor new messages move the visible text.

use crate::draw::{chat_height, rows};
use crate::model::{Anchor, ChatPane, ItemKey, ScreenModel};

/// The end of the loaded rows that a scroll reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// At or near the oldest loaded row.
    Top,
    /// At the newest loaded row.
    Bottom,
    None,
}

/// The number of rows above the lower edge of the view, the last visible row included. `keys` are
/// the positions of all rows, in order.
pub fn bottom(chat: &ChatPane, keys: &[(ItemKey, usize)]) -> usize {
    let Some((key, row)) = chat.anchor else { return keys.len() };
    // The anchored row may no longer exist. Use the nearest row before it.
    keys.partition_point(|position| *position <= (key, row)).max(1).min(keys.len())
}

/// Scrolls by a number of rows; negative scrolls to older messages. Returns the end that was
/// reached.
pub fn by(model: &mut ScreenModel, by: isize) -> Edge {
    let height = usize::from(chat_height(model));
    let Some(chat) = &model.chat else { return Edge::None };
    let keys: Vec<(ItemKey, usize)> = rows(model, chat).into_iter().map(|row| row.position).collect();
    let least = height.min(keys.len());
    let wanted = bottom(chat, &keys).saturating_add_signed(by);
    let now = wanted.clamp(least, keys.len().max(least));
    let anchor: Anchor = if now >= keys.len() { None } else { now.checked_sub(1).map(|at| keys[at]) };
    let Some(chat) = &mut model.chat else { return Edge::None };
    chat.anchor = anchor;
    if anchor.is_none() {
        chat.new_below = 0;
    }
    // Report the top half a screen early, so that the next page is loaded in time.
    if by < 0 && wanted <= least + height / 2 {
        Edge::Top
    } else if by > 0 && wanted >= keys.len() {
        Edge::Bottom
    } else {
        Edge::None
    }
}
