//! Attempts of one request: again and again with jitter, until it is answered or its deadline is over.

use std::future::Future;
use std::time::Duration;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use tokio::time::Instant;

use super::super::RowsError;
use super::connection::Connection;
use super::counters::{Operation, count};
use super::trouble::{Passing, Trouble, judge, refused};

const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(800);

/// Of one request, or of several that belong together.
pub struct Patience<'a> {
    connection: &'a Connection,
    operation: Operation,
    /// What it is about, for a sentence.
    tables: String,
    deadline: Instant,
    failures: u32,
    /// An attempt failed in such a way that it may have been done all the same.
    pub unsure: bool,
}

/// Why there is no answer that was hoped for.
pub enum Failure<E> {
    /// The engine has decided otherwise.
    Said(E),
    GaveUp(RowsError),
}

impl<'a> Patience<'a> {
    pub fn new(connection: &'a Connection, operation: Operation, tables: String) -> Patience<'a> {
        let deadline = Instant::now() + connection.settings().deadline();
        Patience { connection, operation, tables, deadline, failures: 0, unsure: false }
    }

    pub async fn ask<Answer, E, Asked>(&mut self, attempt: impl Fn() -> Asked) -> Result<Answer, Failure<E>>
    where
        E: ProvideErrorMetadata,
        Asked: Future<Output = Result<Answer, SdkError<E, HttpResponse>>>,
    {
        loop {
            // On the heap: the SDK's futures are large, and callers hold many of them.
            let trouble = match self.attempt(Box::pin(attempt())).await {
                Ok(answer) => return Ok(answer),
                Err(Trouble::Said(error)) => return Err(Failure::Said(error)),
                Err(Trouble::Passing(trouble)) => trouble,
            };
            self.unsure |= trouble.may_have_acted();
            if trouble == Passing::Throttled {
                count(&self.connection.counters().throttles);
            }
            self.pause(trouble).await.map_err(Failure::GaveUp)?;
        }
    }

    /// For requests of which every decision of the engine is an error.
    pub async fn demand<Answer, E, Asked>(&mut self, attempt: impl Fn() -> Asked) -> Result<Answer, RowsError>
    where
        E: ProvideErrorMetadata,
        Asked: Future<Output = Result<Answer, SdkError<E, HttpResponse>>>,
    {
        self.ask(attempt).await.map_err(|failure| self.error(failure))
    }

    pub fn error<E: ProvideErrorMetadata>(&self, failure: Failure<E>) -> RowsError {
        match failure {
            Failure::Said(error) => refused(&error, self.operation, &self.tables),
            Failure::GaveUp(error) => error,
        }
    }

    async fn attempt<Answer, E, Asked>(&self, asked: Asked) -> Result<Answer, Trouble<E>>
    where
        E: ProvideErrorMetadata,
        Asked: Future<Output = Result<Answer, SdkError<E, HttpResponse>>>,
    {
        let slow = |_| Trouble::Passing(Passing::Slow);
        let crowded = |_| Trouble::Passing(Passing::Crowded);
        let turn = tokio::time::timeout_at(self.deadline, self.connection.turn()).await.map_err(crowded)?;
        let end = self.deadline.min(Instant::now() + self.connection.settings().attempt_timeout());
        self.connection.counters().request(self.operation);
        let answer = tokio::time::timeout_at(end, asked).await.map_err(slow)?;
        drop(turn);
        answer.map_err(judge)
    }

    /// Before the next attempt; an error when there is no time for one. Full jitter: those who failed together do not
    /// come back together.
    pub async fn pause(&mut self, trouble: Passing) -> Result<(), RowsError> {
        let longest = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16)).min(LONGEST_PAUSE);
        let pause = longest.mul_f64(fastrand::f64());
        self.failures += 1;
        if Instant::now() + pause >= self.deadline {
            count(&self.connection.counters().unanswered);
            return Err(self.no_answer(trouble.sentence()));
        }
        count(&self.connection.counters().retries);
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// Something of it was done: the deadline starts again.
    pub fn progressed(&mut self) {
        self.deadline = Instant::now() + self.connection.settings().deadline();
        self.failures = 0;
    }

    pub fn no_answer(&self, why: &str) -> RowsError {
        let (what, tables) = (self.operation.name(), &self.tables);
        RowsError::NoAnswer(format!("{what} on {tables}: {why}"))
    }
}
