//! One row, and the condition under which it is written.

use bluetick_store_cloud::rows::{Item, Key, Only, Rows, Table, Written};
use futures_util::future::join_all;

use crate::fresh;

pub async fn a_row_comes_back_as_it_was_written(rows: &impl Rows) {
    let key = Key::number(fresh("chat"), 1);
    let item = Item::new()
        .text("content", "Grüße, 世界 🚀\u{0}\n\"'")
        .text("preview", "")
        .number("timestamp", i64::MIN)
        .number("received_at", i64::MAX)
        .flag("muted", true)
        .flag("pinned", false)
        .versioned(3);
    assert_eq!(rows.get(Table::Messages, &key).await.unwrap(), None);
    assert_eq!(rows.put(Table::Messages, &key, &item, Only::Always).await.unwrap(), Written::Done);
    assert_eq!(rows.get(Table::Messages, &key).await.unwrap(), Some(item));
}

pub async fn a_row_is_written_whole(rows: &impl Rows) {
    let key = Key::new(fresh("user"));
    let before = Item::new().text("name", "Ann").text("about", "long gone");
    let after = Item::new().text("name", "Anna");
    rows.put(Table::Users, &key, &before, Only::Always).await.unwrap();
    rows.put(Table::Users, &key, &after, Only::Always).await.unwrap();
    assert_eq!(rows.get(Table::Users, &key).await.unwrap(), Some(after));
}

pub async fn if_absent_is_done_once(rows: &impl Rows) {
    let key = Key::number(fresh("chat"), 7);
    let (first, second) = (Item::new().text("content", "first"), Item::new().text("content", "second"));
    let written = rows.put(Table::Messages, &key, &first, Only::IfAbsent).await.unwrap();
    assert_eq!(written, Written::Done);
    let written = rows.put(Table::Messages, &key, &second, Only::IfAbsent).await.unwrap();
    assert_eq!(written, Written::Refused(Some(first.clone())));
    assert_eq!(rows.get(Table::Messages, &key).await.unwrap(), Some(first));
}

pub async fn if_version_wants_the_row_and_this_version(rows: &impl Rows) {
    let key = Key::new(fresh("room"));
    let item = |version| Item::new().text("title", "Tea").versioned(version);
    let put = async |item: Item, only| rows.put(Table::Rooms, &key, &item, only).await.unwrap();
    assert_eq!(put(item(2), Only::IfVersion(1)).await, Written::Refused(None));
    assert_eq!(put(item(1), Only::IfAbsent).await, Written::Done);
    assert_eq!(put(item(3), Only::IfVersion(2)).await, Written::Refused(Some(item(1))));
    assert_eq!(put(item(2), Only::IfVersion(1)).await, Written::Done);
    assert_eq!(rows.get(Table::Rooms, &key).await.unwrap(), Some(item(2)));
}

pub async fn a_row_without_a_version_has_version_zero(rows: &impl Rows) {
    let key = Key::text(fresh("user"), "chat");
    let put = async |item: &Item, only| rows.put(Table::MessageStatus, &key, item, only).await.unwrap();
    let plain = Item::new().count("last_read_seq", 4);
    let versioned = Item::new().count("last_read_seq", 5).versioned(1);
    assert_eq!(put(&plain, Only::IfVersion(0)).await, Written::Refused(None));
    assert_eq!(put(&plain, Only::Always).await, Written::Done);
    assert_eq!(put(&versioned, Only::IfVersion(1)).await, Written::Refused(Some(plain)));
    assert_eq!(put(&versioned, Only::IfVersion(0)).await, Written::Done);
    assert_eq!(put(&versioned, Only::IfVersion(0)).await, Written::Refused(Some(versioned.clone())));
}

pub async fn of_many_writers_at_once_one_wins(rows: &impl Rows) {
    let key = Key::number(fresh("chat"), 1);
    let item = |writer: u64| Item::new().count("writer", writer);
    let put = async |writer| rows.put(Table::Messages, &key, &item(writer), Only::IfAbsent).await.unwrap();
    let written = join_all((0..20).map(put)).await;
    let winners: Vec<_> = (0..20).filter(|writer| written[*writer as usize] == Written::Done).collect();
    let [winner] = winners[..] else { panic!("{winners:?} all won") };
    assert_eq!(rows.get(Table::Messages, &key).await.unwrap(), Some(item(winner)));
    let refused = written.iter().filter(|written| **written == Written::Refused(Some(item(winner))));
    assert_eq!(refused.count(), 19);
}

pub async fn a_delete_takes_the_same_conditions(rows: &impl Rows) {
    let key = Key::text(fresh("user"), "chat");
    let delete = async |only| rows.delete(Table::PendingDeliveries, &key, only).await.unwrap();
    let item = Item::new().count("first_undelivered_seq", 3).versioned(2);
    assert_eq!(delete(Only::Always).await, Written::Done);
    assert_eq!(delete(Only::IfVersion(2)).await, Written::Refused(None));
    rows.put(Table::PendingDeliveries, &key, &item, Only::Always).await.unwrap();
    assert_eq!(delete(Only::IfVersion(1)).await, Written::Refused(Some(item.clone())));
    assert_eq!(delete(Only::IfAbsent).await, Written::Refused(Some(item)));
    assert_eq!(delete(Only::IfVersion(2)).await, Written::Done);
    assert_eq!(rows.get(Table::PendingDeliveries, &key).await.unwrap(), None);
}

pub async fn a_refusal_of_the_same_row_is_still_a_refusal(rows: &impl Rows) {
    let key = Key::number(fresh("chat"), 1);
    let item = Item::new().text("content", "void");
    rows.put(Table::Messages, &key, &item, Only::IfAbsent).await.unwrap();
    let again = rows.put(Table::Messages, &key, &item, Only::IfAbsent).await.unwrap();
    assert_eq!(again, Written::Refused(Some(item)));
}
