//! Many rows in one call.

use bluetick_store_cloud::rows::{Item, Key, Only, Rows, Table};

use crate::fresh;

pub async fn rows_of_several_tables_come_in_the_order_asked_for(rows: &impl Rows) {
    let name = fresh("both");
    let user = (Table::Users, Key::new(&name));
    let room = (Table::Rooms, Key::new(&name));
    let cell = (Table::Messages, Key::number(&name, 5));
    let (ann, tea) = (Item::new().text("name", "Ann"), Item::new().text("title", "Tea"));
    rows.put(user.0, &user.1, &ann, Only::Always).await.unwrap();
    rows.put(room.0, &room.1, &tea, Only::Always).await.unwrap();
    let found = rows.get_many(vec![room, cell, user]).await.unwrap();
    assert_eq!(found, [Some(tea), None, Some(ann)]);
}

pub async fn two_hundred_and_fifty_keys_with_doubles(rows: &impl Rows) {
    let name = fresh("chat");
    let item = |seq: u64| Item::new().count("number", seq);
    let key = |seq: u64| Key::number(&name, seq);
    let even = (0..250).filter(|seq| seq % 2 == 0);
    rows.put_all(even.map(|seq| (Table::Messages, key(seq), item(seq))).collect()).await.unwrap();
    let wanted: Vec<u64> = (0..250).rev().chain([10, 10, 11]).collect();
    let found = rows.get_many(wanted.iter().map(|seq| (Table::Messages, key(*seq))).collect()).await.unwrap();
    let expected: Vec<_> = wanted.iter().map(|seq| (seq % 2 == 0).then(|| item(*seq))).collect();
    assert_eq!(found, expected);
}

pub async fn sixty_rows_are_written_and_deleted(rows: &impl Rows) {
    let name = fresh("group");
    let item = |version| Item::new().text("role", "member").versioned(version);
    let key = |member: u64| (Table::Members, Key::text(&name, format!("user{member:02}")));
    let all: Vec<_> = (0..60).map(key).collect();
    for version in [1, 2] {
        let new = all.iter().map(|(table, key)| (*table, key.clone(), item(version)));
        rows.put_all(new.collect()).await.unwrap();
        assert_eq!(rows.get_many(all.clone()).await.unwrap(), vec![Some(item(version)); 60]);
    }
    rows.delete_all(all[..59].to_vec()).await.unwrap();
    let left = rows.get_many(all).await.unwrap();
    assert_eq!(left.iter().flatten().count(), 1);
    assert_eq!(left[59], Some(item(2)));
}

pub async fn of_two_rows_with_one_key_the_last_stands(rows: &impl Rows) {
    let key = Key::new(fresh("user"));
    let item = |name: &str| Item::new().text("name", name);
    let both = vec![(Table::Users, key.clone(), item("Ann")), (Table::Users, key.clone(), item("Anna"))];
    rows.put_all(both).await.unwrap();
    assert_eq!(rows.get(Table::Users, &key).await.unwrap(), Some(item("Anna")));
    rows.delete_all(vec![(Table::Users, key.clone()), (Table::Users, key.clone())]).await.unwrap();
    assert_eq!(rows.get(Table::Users, &key).await.unwrap(), None);
}

pub async fn nothing_asked_is_nothing_done(rows: &impl Rows) {
    assert_eq!(rows.get_many(Vec::new()).await.unwrap(), []);
    rows.put_all(Vec::new()).await.unwrap();
    rows.delete_all(Vec::new()).await.unwrap();
}
