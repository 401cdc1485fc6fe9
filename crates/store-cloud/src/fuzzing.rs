//! For the fuzz targets alone: whatever stands in a table, in Redis or in an object, reading it never panics, and what
//! could be read comes back the same when it is written again.

use bluetick_core::{ConversationId, Members, Seq, UserId};
use bytes::Bytes;

use crate::archive::{Record, SegmentRef, Way};
use crate::cells::{Cell, IdRow};
use crate::hot::{Registry, plan};
use crate::inbox::decode_preferences;
use crate::intent::Intent;
use crate::memberships::{RoomRow, decode_member, member_item};
use crate::neighbours::redis::letters;
use crate::news::{self, CellNews};
use crate::people::{decode_profile, decode_user, with_profile, with_user};
use crate::revoked::read_revocations;
use crate::rows::Item;
use crate::standings::{decode_status, status_item};

/// A row of any table.
pub fn read_row(id: ConversationId, seq: Seq, user: &UserId, item: &Item) {
    let _ = IdRow::decode(seq, item);
    if let Ok(cell) = Cell::decode(id, seq, item) {
        read_cell(&cell);
    }
    if let Ok(room) = RoomRow::decode(id, item) {
        let written = room.item();
        let again = RoomRow::decode(id, &written).expect("it was written a moment ago");
        assert_eq!(again.item(), written);
        let _ = room.intent.map(|intent| intent.notices(id));
    }
    if let Ok(registry) = Registry::decode(item) {
        read_registry(&registry);
    }
    let member = decode_member(user.clone(), item);
    assert_eq!(decode_member(user.clone(), &member_item(&member)), member);
    let member_state = decode_status(item);
    assert_eq!(decode_status(&status_item(&member_state, item.version())), member_state);
    let profile = decode_profile(item);
    assert_eq!(decode_profile(&with_profile(Item::new(), &profile)), profile);
    if let Some(account) = decode_user(user, item) {
        assert_eq!(decode_user(user, &with_user(Item::new(), &account)), Some(account));
    }
    let way = Way::decode(item);
    assert_eq!(Way::decode(&way.written_into(Item::new())), way);
    let _ = decode_preferences(item);
}

fn read_cell(cell: &Cell) {
    let (id, seq) = (cell.message.conversation, cell.seq());
    let again = Cell::decode(id, seq, &cell.item()).expect("it was written a moment ago");
    assert_eq!(&again, cell);
    let _ = cell.preview();
    let bytes = Record::of(cell).encode();
    let record = Record::decode(&bytes).expect("it was written a moment ago");
    assert!(record.is_of(&cell.message));
    if cell.cold.is_none() {
        assert!(cell.is(cell));
        let news = CellNews::new(cell, 1, seq);
        let json = serde_json::to_vec(&news::Item::Cell(news)).expect("news are strings and numbers");
        let Ok(news::Item::Cell(heard)) = serde_json::from_slice(&json) else { panic!("other news") };
        assert_eq!(heard.cell().as_ref(), Some(cell));
    }
}

/// Wherever a place lies, one partition is asked for it, and it is the one that the row names.
fn read_registry(registry: &Registry) {
    assert_eq!(&Registry::decode(&registry.item()).expect("it was written a moment ago"), registry);
    assert_eq!(Registry::from_text(registry.version(), &registry.text()).as_ref(), Some(registry));
    let horizon = registry.horizon().min(Seq::MAX);
    let begins = registry.epochs().iter().take(20).map(|epoch| epoch.from);
    for seq in begins.chain([Seq::FIRST, horizon]).filter(|seq| (Seq::FIRST..=Seq::MAX).contains(seq)) {
        let asks = plan::asks(registry, seq, seq);
        assert_eq!(asks.len(), 1);
        assert_eq!((asks[0].partition, asks[0].places), (registry.partition(seq), 1));
        let last = seq.plus(300).min(Seq::MAX);
        let places: u64 = plan::asks(registry, seq, last).iter().map(|ask| ask.places).sum();
        assert_eq!(places, last.next().distance_from(seq));
    }
}

/// What lies in Redis, in an object or inside a row as a text of its own.
pub fn read_text(id: ConversationId, bytes: &[u8]) {
    if let Some(read) = letters::unpack(Bytes::copy_from_slice(bytes)) {
        assert_eq!(letters::pack(&read), bytes);
    }
    if let Some(record) = Record::decode(bytes) {
        let written = record.encode();
        assert_eq!(Record::decode(&written).as_ref(), Some(&record));
    }
    if let Ok(news) = serde_json::from_slice::<news::Item>(bytes) {
        read_news(&news);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(place) = text.parse::<SegmentRef>() {
        assert_eq!(place.to_string().parse(), Ok(place));
    }
    if let Ok(intent) = Intent::from_text(text) {
        assert_eq!(Intent::from_text(&intent.to_text()).ok().as_ref(), Some(&intent));
        let _ = intent.notices(id);
        let _ = intent.changes(&Members::from_unsorted(Vec::new()));
    }
    if let Some(registry) = Registry::from_text(7, text) {
        read_registry(&registry);
    }
}

fn read_news(news: &news::Item) {
    match news {
        news::Item::Cell(cell) => {
            let _ = cell.cell().map(|cell| Cell::decode(cell.message.conversation, cell.seq(), &cell.item()));
        }
        news::Item::Moved(moved) => {
            let _ = moved.moved(Members::from_unsorted(Vec::new()).into());
        }
        news::Item::Presence(presence) => {
            let _ = (presence.profile(), presence.to());
        }
        news::Item::Revoked { void, .. } => {
            let _ = read_revocations(void);
        }
        news::Item::Joined { .. }
        | news::Item::Preferred { .. }
        | news::Item::Typing { .. }
        | news::Item::Missed => {}
    }
}
