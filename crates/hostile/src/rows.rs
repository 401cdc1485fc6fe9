//! Fuzz target for rows of the embedded tables with their keys.

use bluetick_core::{ConversationId, UserId};
use bluetick_store_embedded::codec::archive::{self, ArchiveProgress, Erasure, LastRun, SegmentRow};
use bluetick_store_embedded::codec::rows::{self, seal};

use crate::choice;
use crate::events::any_record;

/// Reads a key and a row. The first byte selects whether the checksum is corrected; the second is
/// the length of the key.
pub fn any_row(bytes: &[u8]) {
    let Some((way, rest)) = choice(bytes, 2) else { return };
    let Some((&key_bytes, rest)) = rest.split_first() else { return };
    let (key, body) = rest.split_at(rest.len().min(key_bytes.into()));
    let row = if way == 0 { body.to_vec() } else { seal(|out| out.extend_from_slice(body)) };
    read_key(key);
    read_row(key, &row);
    read_archive_row(key, &row);
}

fn read_key(key: &[u8]) {
    let _ = (
        rows::chunk_first_seq(key),
        rows::key_user(key),
        rows::key_conversation(key),
        rows::read_name_key(key),
    );
    if let Ok(position) = rows::read_inbox_position(key) {
        let user = &key[..key.len() - 25];
        assert_eq!(rows::order_key_in(user, &position), key);
    }
}

fn read_row(key: &[u8], row: &[u8]) {
    let id = ConversationId::group([7; 15]);
    if let Ok(stored) = rows::read_conversation(row, id) {
        assert_eq!(rows::read_conversation(&rows::conversation_row(&stored), id), Ok(stored));
    }
    if let Ok((member, member_state)) = rows::read_member(key, row) {
        assert_eq!(
            rows::read_member(key, &rows::member_row(&member, &member_state)),
            Ok((member, member_state))
        );
    }
    if let Ok(after) = rows::read_pending(row) {
        assert_eq!(rows::read_pending(&rows::pending_row(after)), Ok(after));
    }
    if let Ok(user) = rows::read_user_row(key, row) {
        assert_eq!(rows::read_user_row(key, &rows::user_row(&user)), Ok(user));
    }
    if let Ok(line) = rows::read_inbox(row) {
        assert_eq!(rows::read_inbox(&line.encode()).as_ref(), Ok(&line));
        any_record(line.record);
    }
    if let Ok(mut reader) = rows::unseal(row)
        && let Ok(profile) = rows::read_profile(&mut reader)
    {
        let written = rows::profile_row(&profile);
        let mut again = rows::unseal(&written).expect("the lines above sealed it");
        assert_eq!(rows::read_profile(&mut again), Ok(profile));
    }
}

fn read_archive_row(key: &[u8], row: &[u8]) {
    if let Ok(segment) = SegmentRow::read(row) {
        assert_eq!(SegmentRow::read(&segment.encode()), Ok(segment));
        let _ = segment.count();
    }
    if let Ok(progress) = ArchiveProgress::read(row) {
        assert_eq!(ArchiveProgress::read(&progress.encode()), Ok(progress));
        let _ = progress.revision();
    }
    if let Ok(erasure) = Erasure::read(key, row) {
        let named = erasure.sender.as_ref().map_or("", UserId::as_str).len();
        assert_eq!(erasure.key().len(), 16 + named);
        assert_eq!(Erasure::read(&erasure.key(), &erasure.row()), Ok(erasure));
    }
    if let Ok(run) = LastRun::read(row) {
        assert_eq!(LastRun::read(&run.encode()), Ok(run));
    }
    if let Ok(count) = archive::read_count(row) {
        assert_eq!(archive::read_count(&archive::count_row(&count)), Ok(count));
    }
}
