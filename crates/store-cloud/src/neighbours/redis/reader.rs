//! What comes into this node's letter box, and whether all of it does.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ::redis::Value;
use ::redis::aio::MultiplexedConnection;
use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{LetterBox, fresh_name, letters};
use crate::NodeId;
use crate::hints::Away;
use crate::neighbours::News;
use crate::redis::Redis;
use crate::redis::call::{Call, LETTER_BOX, bytes, list, odd, slot, text, unsigned};

/// Invariant: nothing changes between an answer and what is made of it but in one step, so that a caller may stop waiting
/// at any moment and lose nothing.
pub struct Reader {
    redis: Arc<Redis>,
    letter_box: LetterBox,
    /// Reading waits, so it has a connection to itself.
    connection: Option<MultiplexedConnection>,
    token: String,
    looked_after: Option<Instant>,
    last_entry: String,
    /// The number that each sender's next letter has.
    expected: HashMap<NodeId, u64>,
    comebacks: watch::Receiver<u64>,
    /// What is to be told before anything else.
    lost: bool,
}

const LOOK_AFTER_EVERY: Duration = Duration::from_secs(1);
const WAIT_MS: u64 = 1000;
const ENTRIES_AT_ONCE: u64 = 100;
const PAUSE: Duration = Duration::from_millis(100);
const FIRST_ENTRY: &str = "0-0";

impl Reader {
    pub fn new(redis: Arc<Redis>, letter_box: LetterBox) -> Reader {
        let comebacks = redis.comebacks();
        Reader {
            redis,
            letter_box,
            connection: None,
            token: String::new(),
            looked_after: None,
            last_entry: FIRST_ENTRY.to_owned(),
            expected: HashMap::new(),
            comebacks,
            lost: false,
        }
    }

    pub async fn next(&mut self) -> Result<Vec<News>, Away> {
        loop {
            let result = self.look_and_read().await;
            match result {
                Ok(news) if news.is_empty() => {}
                Ok(news) => return Ok(news),
                Err(away) => {
                    self.connection = None;
                    self.looked_after = None;
                    // Whoever asks again at once would ask all the time.
                    tokio::time::sleep(PAUSE).await;
                    return Err(away);
                }
            }
        }
    }

    async fn look_and_read(&mut self) -> Result<Vec<News>, Away> {
        if self.looked_after.is_none_or(|at| at.elapsed() >= LOOK_AFTER_EVERY) {
            self.look_after().await?;
        }
        // Another part of Redis has come back: what was written there meanwhile is lost, routes to this node included.
        if self.comebacks.has_changed().unwrap_or(false) {
            self.comebacks.mark_unchanged();
            self.lost = true;
        }
        if std::mem::take(&mut self.lost) {
            return Ok(vec![News::Lost]);
        }
        let answer = self.read().await?;
        self.sort(&answer)
    }

    /// Puts up a new box where ours is gone or of an earlier life. What was in it is lost, and what comes from now on is not.
    async fn look_after(&mut self) -> Result<(), Away> {
        let call = Call::script(&LETTER_BOX, &self.letter_box.letters)
            .key(&self.letter_box.token)
            .text(&self.token)
            .text(&fresh_name())
            .text(&self.last_entry);
        let answer = self.redis.run(call).await?;
        let token = text(&answer)?;
        if token != self.token {
            // Also the first one: somebody may have been connected here before it was up.
            self.lost = true;
            self.token = token.to_owned();
            self.last_entry = FIRST_ENTRY.to_owned();
            self.expected.clear();
            // It may lead to the server that had the box before.
            self.connection = None;
        }
        self.looked_after = Some(Instant::now());
        Ok(())
    }

    async fn read(&mut self) -> Result<Value, Away> {
        if self.connection.is_none() {
            let slot = slot(self.letter_box.letters.as_bytes());
            self.connection = Some(self.redis.own_connection(slot).await?);
        }
        let connection = self.connection.as_mut().ok_or_else(odd)?;
        let mut question = ::redis::cmd("XREAD");
        question.arg("COUNT").arg(ENTRIES_AT_ONCE).arg("BLOCK").arg(WAIT_MS).arg("STREAMS");
        question.arg(&self.letter_box.letters).arg(&self.last_entry);
        let patience = Duration::from_millis(WAIT_MS) + self.redis.settings().timeout();
        let answer = tokio::select! {
            answer = tokio::time::timeout(patience, connection.send_packed_command(&question)) => answer,
            _ = self.comebacks.changed() => {
                self.lost = true;
                // What is still being waited for would be an answer to nobody.
                self.connection = None;
                return Ok(Value::Nil);
            }
        };
        match answer {
            Ok(Ok(Value::ServerError(refusal))) => Err(Away(format!("it refuses: {}", refusal.code()))),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(Away("the connection for reading is broken".to_owned())),
            Err(_) => Err(Away("no answer in time".to_owned())),
        }
    }

    fn sort(&mut self, answer: &Value) -> Result<Vec<News>, Away> {
        let mut news = Vec::new();
        for stream in list(answer)? {
            let [_, entries] = list(stream)? else { return Err(odd()) };
            for entry in list(entries)? {
                let [id, fields] = list(entry)? else { return Err(odd()) };
                self.last_entry = text(id)?.to_owned();
                let whole = self.open(list(fields)?, &mut news);
                if !whole && !news.contains(&News::Lost) {
                    news.push(News::Lost);
                }
            }
        }
        Ok(news)
    }

    /// Whether the entry could be read and continues what came before.
    fn open(&mut self, fields: &[Value], news: &mut Vec<News>) -> bool {
        let Some((from, first, letters)) = parse(fields) else { return false };
        let expected = self.expected.entry(from.clone()).or_insert(1);
        let nothing_is_missing = *expected == first;
        *expected = first + letters.len() as u64;
        news.extend(letters.into_iter().map(|letter| News::From(from.clone(), letter)));
        nothing_is_missing
    }
}

fn parse(fields: &[Value]) -> Option<(NodeId, u64, Vec<Bytes>)> {
    let [_, from, _, first, _, packed] = fields else { return None };
    let letters = letters::unpack(Bytes::copy_from_slice(bytes(packed).ok()?))?;
    Some((NodeId::new(text(from).ok()?), unsigned(first).ok()?, letters))
}
