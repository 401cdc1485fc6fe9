//! How many requests were made, for metrics and for a test that counts them.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is asked of the engine, by the name it has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    GetItem,
    BatchGetItem,
    PutItem,
    DeleteItem,
    BatchWriteItem,
    Query,
    Scan,
    /// Making and looking at tables.
    Tables,
}

impl Operation {
    pub const ALL: [Operation; 8] = [
        Operation::GetItem,
        Operation::BatchGetItem,
        Operation::PutItem,
        Operation::DeleteItem,
        Operation::BatchWriteItem,
        Operation::Query,
        Operation::Scan,
        Operation::Tables,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Operation::GetItem => "GetItem",
            Operation::BatchGetItem => "BatchGetItem",
            Operation::PutItem => "PutItem",
            Operation::DeleteItem => "DeleteItem",
            Operation::BatchWriteItem => "BatchWriteItem",
            Operation::Query => "Query",
            Operation::Scan => "Scan",
            Operation::Tables => "Tables",
        }
    }
}

/// Since the start, all attempts included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    requests: [u64; Operation::ALL.len()],
    /// Attempts after the first of a request, and what a batch left over.
    pub retries: u64,
    /// How often the engine said that this is too much.
    pub throttles: u64,
    /// Requests given up at their deadline.
    pub unanswered: u64,
}

impl RequestCounts {
    pub fn of(&self, operation: Operation) -> u64 {
        self.requests[operation as usize]
    }

    /// Tables aside: those are looked at once.
    pub fn all(&self) -> u64 {
        let rows = Operation::ALL.into_iter().filter(|operation| *operation != Operation::Tables);
        rows.map(|operation| self.of(operation)).sum()
    }
}

#[derive(Default)]
pub struct Counters {
    requests: [AtomicU64; Operation::ALL.len()],
    pub retries: AtomicU64,
    pub throttles: AtomicU64,
    pub unanswered: AtomicU64,
}

pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    pub fn request(&self, operation: Operation) {
        count(&self.requests[operation as usize]);
    }

    pub fn read(&self) -> RequestCounts {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RequestCounts {
            requests: std::array::from_fn(|index| value(&self.requests[index])),
            retries: value(&self.retries),
            throttles: value(&self.throttles),
            unanswered: value(&self.unanswered),
        }
    }
}
