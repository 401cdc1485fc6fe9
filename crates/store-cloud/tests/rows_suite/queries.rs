//! Rows of one partition, in their order.

use bluetick_store_cloud::rows::{Item, Key, Only, Query, Rows, Slice, Sort, SortRange, Table};

use crate::fresh;

fn all_of(table: Table, partition: &str) -> Query {
    let partition = partition.to_owned();
    Query { table, partition, range: SortRange::All, descending: false, limit: 1000, fields: &[] }
}

async fn fill_cells(rows: &impl Rows, partition: &str, seqs: impl IntoIterator<Item = u64>) {
    let cell = |seq: u64| (Table::Messages, Key::number(partition, seq), Item::new().count("number", seq));
    rows.put_all(seqs.into_iter().map(cell).collect()).await.unwrap();
}

async fn fill_texts(rows: &impl Rows, partition: &str, texts: &[&str]) {
    let row =
        |text: &&str| (Table::Conversations, Key::text(partition, text), Item::new().text("own", *text));
    rows.put_all(texts.iter().map(row).collect()).await.unwrap();
}

fn numbers(slice: &Slice) -> Vec<u64> {
    let number = |(sort, _): &(Sort, Item)| match sort {
        Sort::Number(number) => *number,
        other => panic!("{other:?} is no number"),
    };
    slice.rows.iter().map(number).collect()
}

fn texts(slice: &Slice) -> Vec<&str> {
    slice
        .rows
        .iter()
        .map(|(sort, _)| match sort {
            Sort::Text(text) => text.as_str(),
            other => panic!("{other:?} is no text"),
        })
        .collect()
}

pub async fn rows_come_in_the_order_of_their_numbers(rows: &impl Rows) {
    let name = fresh("chat");
    fill_cells(rows, &name, [100, 9, 10, 1, 2]).await;
    fill_cells(rows, &format!("{name}0"), [3]).await;
    let slice = rows.query(all_of(Table::Messages, &name)).await.unwrap();
    assert_eq!(numbers(&slice), [1, 2, 9, 10, 100]);
    assert!(!slice.more);
    assert_eq!(slice.rows[3].1, Item::new().count("number", 10));
}

pub async fn the_newest_come_first_when_descending(rows: &impl Rows) {
    let name = fresh("chat");
    fill_cells(rows, &name, 1..=40).await;
    let newest = Query { descending: true, limit: 20, ..all_of(Table::Messages, &name) };
    let slice = rows.query(newest).await.unwrap();
    assert_eq!(numbers(&slice), (21..=40).rev().collect::<Vec<_>>());
    assert!(slice.more);
}

pub async fn a_range_of_numbers_has_both_ends(rows: &impl Rows) {
    let name = fresh("chat");
    fill_cells(rows, &name, 1..=12).await;
    let between = |first, last, descending| Query {
        range: SortRange::Numbers(first, last),
        descending,
        ..all_of(Table::Messages, &name)
    };
    assert_eq!(numbers(&rows.query(between(9, 11, false)).await.unwrap()), [9, 10, 11]);
    assert_eq!(numbers(&rows.query(between(9, 11, true)).await.unwrap()), [11, 10, 9]);
    assert_eq!(numbers(&rows.query(between(12, u64::MAX, false)).await.unwrap()), [12]);
    assert_eq!(numbers(&rows.query(between(0, 1, false)).await.unwrap()), [1]);
}

pub async fn a_range_upside_down_is_empty(rows: &impl Rows) {
    let name = fresh("chat");
    fill_cells(rows, &name, 1..=3).await;
    let upside_down = Query { range: SortRange::Numbers(3, 2), ..all_of(Table::Messages, &name) };
    let slice = rows.query(upside_down).await.unwrap();
    assert!(slice.rows.is_empty() && !slice.more);
}

pub async fn texts_come_by_prefix_and_after(rows: &impl Rows) {
    let name = fresh("user");
    fill_texts(rows, &name, &["b", "aé", "ab", "a", "Z", "aé2", "c", "z", "😀"]).await;
    let found = async |range| {
        let slice = rows.query(Query { range, ..all_of(Table::Conversations, &name) }).await.unwrap();
        texts(&slice).join(" ")
    };
    assert_eq!(found(SortRange::All).await, "Z a ab aé aé2 b c z 😀");
    assert_eq!(found(SortRange::Prefix("a".to_owned())).await, "a ab aé aé2");
    assert_eq!(found(SortRange::Prefix("aé".to_owned())).await, "aé aé2");
    assert_eq!(found(SortRange::Prefix("q".to_owned())).await, "");
    assert_eq!(found(SortRange::After("aé".to_owned())).await, "aé2 b c z 😀");
    assert_eq!(found(SortRange::After("bb".to_owned())).await, "c z 😀");
    let back = Query {
        range: SortRange::Prefix("a".to_owned()),
        descending: true,
        limit: 2,
        ..all_of(Table::Conversations, &name)
    };
    let slice = rows.query(back).await.unwrap();
    assert_eq!(texts(&slice), ["aé2", "aé"]);
    assert!(slice.more);
}

pub async fn an_empty_prefix_is_everything(rows: &impl Rows) {
    let name = fresh("user");
    fill_texts(rows, &name, &["b", "a"]).await;
    for range in [SortRange::Prefix(String::new()), SortRange::After(String::new())] {
        let slice = rows.query(Query { range, ..all_of(Table::Conversations, &name) }).await.unwrap();
        assert_eq!(texts(&slice), ["a", "b"]);
    }
}

pub async fn a_limit_cuts_and_says_so(rows: &impl Rows) {
    let name = fresh("chat");
    fill_cells(rows, &name, 1..=5).await;
    let limited = async |limit| rows.query(Query { limit, ..all_of(Table::Messages, &name) }).await.unwrap();
    let slice = limited(4).await;
    assert_eq!((numbers(&slice), slice.more), (vec![1, 2, 3, 4], true));
    // With five of five an engine need not know that there are no more.
    assert_eq!(numbers(&limited(5).await), [1, 2, 3, 4, 5]);
    let slice = limited(6).await;
    assert_eq!((numbers(&slice), slice.more), (vec![1, 2, 3, 4, 5], false));
    let slice = limited(0).await;
    assert_eq!((numbers(&slice), slice.more), (vec![], true));
}

pub async fn fields_are_picked_and_the_sort_key_comes_along(rows: &impl Rows) {
    let name = fresh("user");
    let item = Item::new().text("name", "Ann").count("size", 3).flag("hidden", true);
    rows.put(Table::Members, &Key::text(&name, "ann"), &item, Only::Always).await.unwrap();
    // Words of the engine's own, and one that no row has.
    let picked = Query { fields: &["name", "size", "count"], ..all_of(Table::Members, &name) };
    let slice = rows.query(picked).await.unwrap();
    assert_eq!(
        slice.rows,
        [(Sort::Text("ann".to_owned()), Item::new().text("name", "Ann").count("size", 3))]
    );
}

pub async fn a_large_partition_comes_in_slices_to_its_end(rows: &impl Rows) {
    let name = fresh("chat");
    let long = "x".repeat(100_000);
    let cell = |seq| {
        (
            Table::Messages,
            Key::number(&name, seq),
            Item::new().text("content", long.as_str()).count("own", seq),
        )
    };
    rows.put_all((1..=25).map(cell).collect()).await.unwrap();
    let mut seen = Vec::new();
    loop {
        let after = seen.last().copied().unwrap_or(0);
        let range = SortRange::Numbers(after + 1, u64::MAX);
        let slice = rows.query(Query { range, ..all_of(Table::Messages, &name) }).await.unwrap();
        assert!(!slice.rows.is_empty(), "more was promised after {after}");
        seen.extend(numbers(&slice));
        if !slice.more {
            break;
        }
    }
    assert_eq!(seen, (1..=25).collect::<Vec<_>>());
    // Little of each row is little in all: the pages of the engine do not show.
    let little = Query { fields: &["own"], descending: true, ..all_of(Table::Messages, &name) };
    let slice = rows.query(little).await.unwrap();
    assert_eq!((numbers(&slice), slice.more), ((1..=25).rev().collect(), false));
}

pub async fn a_partition_without_rows_is_empty(rows: &impl Rows) {
    let slice = rows.query(all_of(Table::Messages, &fresh("nobody"))).await.unwrap();
    assert!(slice.rows.is_empty() && !slice.more);
}

pub async fn a_table_without_sort_keys_has_one_row_each(rows: &impl Rows) {
    let name = fresh("room");
    let item = Item::new().text("title", "Tea");
    rows.put(Table::Rooms, &Key::new(&name), &item, Only::Always).await.unwrap();
    let slice = rows.query(all_of(Table::Rooms, &name)).await.unwrap();
    assert_eq!(slice.rows, [(Sort::None, item)]);
}

pub async fn the_largest_numbers_keep_their_order(rows: &impl Rows) {
    let name = fresh("chat");
    let seqs = [u64::MAX, 0, u64::MAX - 1, 1 << 53, (1 << 53) + 1];
    let cells = seqs.map(|seq| (Table::Messages, Key::number(&name, seq), Item::new()));
    rows.put_all(cells.to_vec()).await.unwrap();
    let slice = rows.query(all_of(Table::Messages, &name)).await.unwrap();
    assert_eq!(numbers(&slice), [0, 1 << 53, (1 << 53) + 1, u64::MAX - 1, u64::MAX]);
}

pub async fn a_whole_table_comes_in_parts_and_each_row_once(rows: &impl Rows) {
    let name = fresh("room");
    let item = Item::new().text("own", &*name);
    let keys: Vec<Key> = (0..7).map(|number| Key::text(format!("{name}-{}", number % 3), number)).collect();
    rows.put_all(keys.iter().map(|key| (Table::Names, key.clone(), item.clone())).collect()).await.unwrap();
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let part = rows.scan(Table::Names, after.as_ref(), 2).await.unwrap();
        assert!(part.rows.len() <= 2);
        found.extend(part.rows.into_iter().filter(|(key, _)| keys.contains(key)).map(|(key, _)| key));
        match part.next {
            Some(_) => after = part.next,
            None => break,
        }
    }
    found.sort();
    let mut all = keys;
    all.sort();
    assert_eq!(found, all);
}
