//! What one node sends to another: what waits while an entry is on its way goes with the next one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::redis::Value;
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{LetterBox, letters, lock};
use crate::NodeId;
use crate::hints::Away;
use crate::redis::Redis;
use crate::redis::call::{Call, POST, text};

pub struct Post {
    waiting: mpsc::Sender<Letter>,
    /// When the last letter left, or was lost on the way.
    last: Arc<Mutex<Last>>,
    postman: JoinHandle<()>,
}

struct Letter {
    /// None: only the number is repeated.
    news: Option<Bytes>,
    done: oneshot::Sender<Result<(), Away>>,
}

struct Last {
    at: Instant,
    was_lost: bool,
    /// How many found no room since.
    dropped: u64,
}

const MAX_WAITING: usize = 4096;
const MAX_IN_ENTRY: usize = 256;
const MAX_ENTRY_BYTES: usize = 64 << 10;
/// More than a node that reads is ever behind.
const MAX_ENTRIES: u64 = 4096;
/// How long after the last letter its number is repeated.
const REPEAT_FOR: Duration = Duration::from_secs(10);
/// A node that seems dead may only have been cut off, and must miss what it has missed.
const KEEP_NUMBER_FOR: Duration = Duration::from_secs(600);

impl Post {
    pub fn new(redis: Arc<Redis>, from: NodeId, to: LetterBox) -> Post {
        let (waiting, letters) = mpsc::channel(MAX_WAITING);
        let last = Last { at: Instant::now(), was_lost: false, dropped: 0 };
        let last = Arc::new(Mutex::new(last));
        let route = Route { redis, from, to, token: String::new(), sent: 0, last: last.clone() };
        Post { waiting, last, postman: tokio::spawn(route.walk(letters)) }
    }

    pub async fn send(&self, news: Bytes) -> Result<(), Away> {
        self.hand_over(Some(news)).await
    }

    /// Lets the other side notice when the last letter has not come.
    pub async fn repeat_number(&self) {
        let worth_it = {
            let last = lock(&self.last);
            last.was_lost || last.at.elapsed() < REPEAT_FOR
        };
        if worth_it {
            let _next_time = self.hand_over(None).await;
        }
    }

    /// Nothing was sent for so long that the box of a node that is dead is gone.
    pub fn is_over(&self) -> bool {
        lock(&self.last).at.elapsed() > KEEP_NUMBER_FOR
    }

    async fn hand_over(&self, news: Option<Bytes>) -> Result<(), Away> {
        let (done, answer) = oneshot::channel();
        let is_news = u64::from(news.is_some());
        if self.waiting.try_send(Letter { news, done }).is_err() {
            let mut last = lock(&self.last);
            last.was_lost = true;
            last.dropped += is_news;
            return Err(Away("too much waits for that node".to_owned()));
        }
        answer.await.unwrap_or_else(|_| Err(Away("the node ends".to_owned())))
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.postman.abort();
    }
}

struct Route {
    redis: Arc<Redis>,
    from: NodeId,
    to: LetterBox,
    token: String,
    /// The number of the last letter under this token, sent or lost.
    sent: u64,
    last: Arc<Mutex<Last>>,
}

impl Route {
    async fn walk(mut self, mut waiting: mpsc::Receiver<Letter>) {
        let mut next = waiting.recv().await;
        while let Some(first) = next.take() {
            let mut bytes = first.news.as_ref().map_or(0, Bytes::len);
            let mut bag = vec![first];
            while bag.len() < MAX_IN_ENTRY
                && let Ok(letter) = waiting.try_recv()
            {
                bytes += letter.news.as_ref().map_or(0, Bytes::len);
                if bytes > MAX_ENTRY_BYTES {
                    next = Some(letter);
                    break;
                }
                bag.push(letter);
            }
            let news: Vec<_> = bag.iter().filter_map(|letter| letter.news.clone()).collect();
            let result = self.deliver(&news).await;
            for letter in bag {
                let _waits_no_more = letter.done.send(result.clone());
            }
            if next.is_none() {
                next = waiting.recv().await;
            }
        }
    }

    async fn deliver(&mut self, news: &[Bytes]) -> Result<(), Away> {
        let packed = letters::pack(news);
        // Those have a number too, so that they are missed.
        self.sent += std::mem::take(&mut lock(&self.last).dropped);
        let mut result = self.put_in(&packed).await;
        // Another box than the last time: its owner knows that everything before is lost, and counts from the start.
        if let Ok(Some(token)) = &result
            && *token != self.token
        {
            self.token = token.clone();
            self.sent = 0;
            result = self.put_in(&packed).await;
        }
        self.sent += news.len() as u64;
        let mut last = lock(&self.last);
        if !news.is_empty() {
            last.at = Instant::now();
        }
        last.was_lost = match &result {
            Ok(Some(token)) => *token != self.token,
            Ok(None) => false,
            Err(_) => true,
        };
        result.map(|_| ())
    }

    /// The token of the box that is there; nothing is in it unless that is ours.
    async fn put_in(&self, packed: &Bytes) -> Result<Option<String>, Away> {
        let call = Call::script(&POST, &self.to.letters)
            .key(&self.to.token)
            .text(&self.token)
            .number(MAX_ENTRIES)
            .text(self.from.as_str())
            .number(self.sent + 1)
            .bytes(packed);
        match self.redis.run(call).await? {
            Value::Nil => Ok(None),
            token => Ok(Some(text(&token)?.to_owned())),
        }
    }
}
