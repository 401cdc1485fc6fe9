//! One node's connection to the tables. Requests are slow, fail, lose their answer, or take effect
//! late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::rows::{Item, Key, Only, Query, Rows, RowsError, Scanned, Slice, Table, Written};
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::dice::Dice;
use crate::plant::PlantedBug;

/// The tables of one node, with injected faults.
pub struct FaultyRows {
    rows: Arc<MemoryRows>,
    dice: Mutex<Dice>,
    /// Each rate is one in this many requests (0: none).
    pub refuses: AtomicU64,
    pub loses_answers: AtomicU64,
    pub acts_late: AtomicU64,
    pub is_slow: AtomicU64,
    /// The node has crashed: its remaining requests never complete.
    pub is_dead: AtomicBool,
    plant: Option<PlantedBug>,
}

enum RequestOutcome {
    Done,
    /// Not executed; the caller gets an error.
    Refused,
    /// Executed, but the answer is lost.
    Unanswered,
    /// The caller gets an error, and the request is executed later.
    Late(Duration),
}

fn no_answer() -> RowsError {
    RowsError::NoAnswer("injected by the simulation".to_owned())
}

impl FaultyRows {
    pub fn new(rows: Arc<MemoryRows>, dice: Dice, plant: Option<PlantedBug>) -> FaultyRows {
        FaultyRows {
            rows,
            dice: Mutex::new(dice),
            refuses: AtomicU64::new(0),
            loses_answers: AtomicU64::new(0),
            acts_late: AtomicU64::new(0),
            is_slow: AtomicU64::new(0),
            is_dead: AtomicBool::new(false),
            plant,
        }
    }

    pub fn heal(&self) {
        for trouble in [&self.refuses, &self.loses_answers, &self.acts_late, &self.is_slow] {
            trouble.store(0, Ordering::SeqCst);
        }
    }

    fn throw<T>(&self, throw: impl FnOnce(&mut Dice) -> T) -> T {
        throw(&mut self.dice.lock())
    }

    fn happens(&self, one_in: &AtomicU64) -> bool {
        let chances = one_in.load(Ordering::SeqCst);
        chances > 0 && self.throw(|dice| dice.one_in(chances))
    }

    async fn take_time(&self) {
        let is_slow = self.happens(&self.is_slow);
        sleep(self.throw(|dice| if is_slow { dice.millis(200, 3_000) } else { dice.millis(0, 8) })).await;
        if self.is_dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    async fn ask(&self) -> Result<(), RowsError> {
        self.take_time().await;
        if self.happens(&self.refuses) { Err(no_answer()) } else { Ok(()) }
    }

    async fn fate(&self) -> RequestOutcome {
        self.take_time().await;
        if self.happens(&self.refuses) {
            RequestOutcome::Refused
        } else if self.happens(&self.acts_late) {
            RequestOutcome::Late(self.throw(|dice| dice.millis(10, 3_000)))
        } else if self.happens(&self.loses_answers) {
            RequestOutcome::Unanswered
        } else {
            RequestOutcome::Done
        }
    }
}

impl FaultyRows {
    /// Drops about a third of the rows, to simulate a partly executed batch.
    fn some_of<T>(&self, rows: Vec<T>) -> Vec<T> {
        let mut some = rows;
        some.retain(|_| self.throw(|dice| !dice.one_in(3)));
        some
    }

    /// Executes the request now or later. Returns `NoAnswer`, or the error of an immediate
    /// execution.
    async fn sooner_or_later<Deed>(
        &self,
        fate: RequestOutcome,
        deed: impl FnOnce(Arc<MemoryRows>) -> Deed,
    ) -> Result<(), RowsError>
    where
        Deed: Future<Output = Result<(), RowsError>> + Send + 'static,
    {
        let deed = deed(Arc::clone(&self.rows));
        match fate {
            RequestOutcome::Late(by) => {
                tokio::spawn(async move {
                    sleep(by).await;
                    deed.await
                });
            }
            _ => deed.await?,
        }
        Err(no_answer())
    }
}

#[async_trait]
impl Rows for FaultyRows {
    async fn get(&self, table: Table, key: &Key) -> Result<Option<Item>, RowsError> {
        self.ask().await?;
        self.rows.get(table, key).await
    }

    async fn get_many(&self, wanted: Vec<(Table, Key)>) -> Result<Vec<Option<Item>>, RowsError> {
        self.ask().await?;
        self.rows.get_many(wanted).await
    }

    async fn put(&self, table: Table, key: &Key, item: &Item, only: Only) -> Result<Written, RowsError> {
        let is_void = item.find_text("content_type").is_some_and(|kind| **kind == *"void");
        if self.plant == Some(PlantedBug::LostVoid) && table == Table::Messages && is_void {
            return Ok(Written::Done);
        }
        let only = match self.plant {
            Some(PlantedBug::Overwrite) if table == Table::Messages => Only::Always,
            _ => only,
        };
        match self.fate().await {
            RequestOutcome::Refused => Err(no_answer()),
            RequestOutcome::Done => self.rows.put(table, key, item, only).await,
            RequestOutcome::Unanswered => {
                self.rows.put(table, key, item, only).await?;
                Err(no_answer())
            }
            RequestOutcome::Late(by) => {
                let (rows, key, item) = (Arc::clone(&self.rows), key.clone(), item.clone());
                tokio::spawn(async move {
                    sleep(by).await;
                    rows.put(table, &key, &item, only).await
                });
                Err(no_answer())
            }
        }
    }

    async fn delete(&self, table: Table, key: &Key, only: Only) -> Result<Written, RowsError> {
        match self.fate().await {
            RequestOutcome::Refused => Err(no_answer()),
            RequestOutcome::Done => self.rows.delete(table, key, only).await,
            RequestOutcome::Unanswered => {
                self.rows.delete(table, key, only).await?;
                Err(no_answer())
            }
            RequestOutcome::Late(by) => {
                let (rows, key) = (Arc::clone(&self.rows), key.clone());
                tokio::spawn(async move {
                    sleep(by).await;
                    rows.delete(table, &key, only).await
                });
                Err(no_answer())
            }
        }
    }

    async fn put_all(&self, rows: Vec<(Table, Key, Item)>) -> Result<(), RowsError> {
        let fate = self.fate().await;
        let some = match fate {
            RequestOutcome::Refused => return Err(no_answer()),
            RequestOutcome::Done => return self.rows.put_all(rows).await,
            RequestOutcome::Unanswered | RequestOutcome::Late(_) => self.some_of(rows),
        };
        self.sooner_or_later(fate, |rows| async move { rows.put_all(some).await }).await
    }

    async fn delete_all(&self, rows: Vec<(Table, Key)>) -> Result<(), RowsError> {
        let fate = self.fate().await;
        let some = match fate {
            RequestOutcome::Refused => return Err(no_answer()),
            RequestOutcome::Done => return self.rows.delete_all(rows).await,
            RequestOutcome::Unanswered | RequestOutcome::Late(_) => self.some_of(rows),
        };
        self.sooner_or_later(fate, |rows| async move { rows.delete_all(some).await }).await
    }

    async fn query(&self, query: Query) -> Result<Slice, RowsError> {
        self.ask().await?;
        self.rows.query(query).await
    }

    async fn scan(&self, table: Table, after: Option<&Key>, limit: usize) -> Result<Scanned, RowsError> {
        self.ask().await?;
        self.rows.scan(table, after, limit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<(Table, Key, Item)> {
        (0..30).map(|number| (Table::Members, Key::text("all", number), Item::new().versioned(1))).collect()
    }

    async fn found(way: &FaultyRows) -> usize {
        let wanted = rows().into_iter().map(|(table, key, _)| (table, key)).collect();
        way.rows.get_many(wanted).await.unwrap().into_iter().flatten().count()
    }

    fn way() -> FaultyRows {
        FaultyRows::new(Arc::default(), Dice::new(7), None)
    }

    #[tokio::test(start_paused = true)]
    async fn unanswered_batch_is_applied_in_part() {
        let way = way();
        way.loses_answers.store(1, Ordering::SeqCst);
        assert!(way.put_all(rows()).await.is_err());
        let written = found(&way).await;
        assert!(written > 0 && written < 30, "{written}");
        way.heal();
        way.put_all(rows()).await.unwrap();
        assert_eq!(found(&way).await, 30);
        way.loses_answers.store(1, Ordering::SeqCst);
        let keys = rows().into_iter().map(|(table, key, _)| (table, key)).collect();
        assert!(way.delete_all(keys).await.is_err());
        let left = found(&way).await;
        assert!(left > 0 && left < 30, "{left}");
    }

    #[tokio::test(start_paused = true)]
    async fn late_operation_takes_effect_after_the_caller_got_an_error() {
        let way = way();
        way.acts_late.store(1, Ordering::SeqCst);
        assert!(way.put_all(rows()).await.is_err());
        assert_eq!(found(&way).await, 0);
        sleep(Duration::from_secs(4)).await;
        assert!(found(&way).await > 0);
        let (table, key, item) = rows().remove(0);
        way.rows.put(table, &key, &item, Only::Always).await.unwrap();
        assert!(way.delete(table, &key, Only::Always).await.is_err());
        assert!(way.rows.get(table, &key).await.unwrap().is_some());
        sleep(Duration::from_secs(4)).await;
        assert!(way.rows.get(table, &key).await.unwrap().is_none());
    }
}
