//! Where the view of a conversation stands. The place is kept as what is at its bottom, so that neither older pages
//! above nor new messages below move what is being read.

use crate::draw::{chat_height, rows};
use crate::model::{Anchor, Chat, Key, Model};

/// Which end of what is here a movement came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    Top,
    Bottom,
    None,
}

/// The number of rows up to the bottom of the view.
pub fn bottom(chat: &Chat, keys: &[(Key, usize)]) -> usize {
    let Some((key, row)) = chat.anchor else { return keys.len() };
    // What it stood at may have gone or become shorter: then the nearest before it.
    keys.partition_point(|place| *place <= (key, row)).max(1).min(keys.len())
}

/// Moves the view; negative goes back in time.
pub fn by(model: &mut Model, by: isize) -> Edge {
    let height = usize::from(chat_height(model));
    let Some(chat) = &model.chat else { return Edge::None };
    let keys: Vec<(Key, usize)> = rows(model, chat).into_iter().map(|row| row.place).collect();
    let least = height.min(keys.len());
    let wanted = bottom(chat, &keys).saturating_add_signed(by);
    let now = wanted.clamp(least, keys.len().max(least));
    let anchor: Anchor = if now >= keys.len() { None } else { now.checked_sub(1).map(|at| keys[at]) };
    let Some(chat) = &mut model.chat else { return Edge::None };
    chat.anchor = anchor;
    if anchor.is_none() {
        chat.new_below = 0;
    }
    // A little before the top, so that the next page is there when one arrives.
    if by < 0 && wanted <= least + height / 2 {
        Edge::Top
    } else if by > 0 && wanted >= keys.len() {
        Edge::Bottom
    } else {
        Edge::None
    }
}
