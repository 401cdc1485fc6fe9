//! Tables in memory: what the port means, and what a simulation runs on.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;

use super::{Item, Key, Only, Query, Rows, RowsError, Scanned, Slice, Sort, SortRange, Table, Written};

#[derive(Default)]
pub struct MemoryRows(Mutex<BTreeMap<(Table, Key), Item>>);

impl MemoryRows {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Table, Key), Item>> {
        self.0.lock().expect("no call panics while it holds the lock")
    }
}

fn holds(only: Only, there: Option<&Item>) -> bool {
    match only {
        Only::Always => true,
        Only::IfAbsent => there.is_none(),
        Only::IfVersion(version) => there.is_some_and(|item| item.version() == version),
    }
}

#[async_trait]
impl Rows for MemoryRows {
    async fn get(&self, table: Table, key: &Key) -> Result<Option<Item>, RowsError> {
        Ok(self.lock().get(&(table, key.clone())).cloned())
    }

    async fn get_many(&self, wanted: Vec<(Table, Key)>) -> Result<Vec<Option<Item>>, RowsError> {
        let rows = self.lock();
        Ok(wanted.iter().map(|wanted| rows.get(wanted).cloned()).collect())
    }

    async fn put(&self, table: Table, key: &Key, item: &Item, only: Only) -> Result<Written, RowsError> {
        let mut rows = self.lock();
        let key = (table, key.clone());
        if !holds(only, rows.get(&key)) {
            return Ok(Written::Refused(rows.get(&key).cloned()));
        }
        rows.insert(key, item.clone());
        Ok(Written::Done)
    }

    async fn delete(&self, table: Table, key: &Key, only: Only) -> Result<Written, RowsError> {
        let mut rows = self.lock();
        let key = (table, key.clone());
        if !holds(only, rows.get(&key)) {
            return Ok(Written::Refused(rows.get(&key).cloned()));
        }
        rows.remove(&key);
        Ok(Written::Done)
    }

    async fn put_all(&self, new: Vec<(Table, Key, Item)>) -> Result<(), RowsError> {
        let mut rows = self.lock();
        rows.extend(new.into_iter().map(|(table, key, item)| ((table, key), item)));
        Ok(())
    }

    async fn delete_all(&self, old: Vec<(Table, Key)>) -> Result<(), RowsError> {
        let mut rows = self.lock();
        for key in old {
            rows.remove(&key);
        }
        Ok(())
    }

    async fn scan(&self, table: Table, after: Option<&Key>, limit: usize) -> Result<Scanned, RowsError> {
        let rows = self.lock();
        let first = match after {
            Some(key) => Bound::Excluded((table, key.clone())),
            None => Bound::Included((table, Key { partition: String::new(), sort: Sort::None })),
        };
        let found = rows.range((first, Bound::Unbounded)).take_while(|((of, _), _)| *of == table);
        let rows: Vec<_> = found.take(limit).map(|((_, key), item)| (key.clone(), item.clone())).collect();
        let next = rows.last().filter(|_| rows.len() == limit).map(|(key, _)| key.clone());
        Ok(Scanned { rows, next })
    }

    async fn query(&self, query: Query) -> Result<Slice, RowsError> {
        let rows = self.lock();
        let inside = |sort: &Sort| match (&query.range, sort) {
            (SortRange::All, _) => true,
            (SortRange::Numbers(first, last), Sort::Number(number)) => (first..=last).contains(&number),
            (SortRange::Prefix(prefix), Sort::Text(text)) => text.starts_with(prefix),
            (SortRange::After(after), Sort::Text(text)) => text > after,
            _ => false,
        };
        let lowest = match &query.range {
            SortRange::Numbers(first, _) => Sort::Number(*first),
            SortRange::Prefix(text) | SortRange::After(text) => Sort::Text(text.clone()),
            SortRange::All => Sort::None,
        };
        let first = (query.table, Key { partition: query.partition.clone(), sort: lowest });
        let found = rows
            .range(first..)
            .take_while(|((table, key), _)| *table == query.table && key.partition == query.partition)
            .filter(|((_, key), _)| inside(&key.sort));
        let project = |item: &Item| match query.fields {
            [] => item.clone(),
            fields => item
                .iter()
                .filter(|(name, _)| fields.contains(name))
                .map(|(name, value)| (name.to_owned(), value.clone()))
                .collect(),
        };
        let mut rows: Vec<_> = found.map(|((_, key), item)| (key.sort.clone(), project(item))).collect();
        if query.descending {
            rows.reverse();
        }
        let more = rows.len() > query.limit;
        rows.truncate(query.limit);
        Ok(Slice { rows, more })
    }
}
