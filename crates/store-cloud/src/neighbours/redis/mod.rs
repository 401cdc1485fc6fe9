//! Neighbours through Redis streams: every node has a letter box, a stream that the others add to and it reads.
//!
//! A box has a token, which ends with the box: with the life of the data, with FLUSHALL, or when nobody looked after it for
//! a minute. Letters are numbered for each sender and token, so whatever is missing between two of them is noticed; a
//! sender that has gone quiet repeats its number, so that the last one is noticed too.

pub(crate) mod letters;
mod post;
mod reader;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::{Neighbours, News};
use crate::NodeId;
use crate::hints::Away;
use crate::hints::redis::without_braces;
use crate::redis::Redis;
use crate::redis::call::{BEAT, Call, list, text};
use post::Post;
use reader::Reader;

pub struct RedisNeighbours {
    node: NodeId,
    redis: Arc<Redis>,
    posts: Mutex<HashMap<NodeId, Arc<Post>>>,
    /// When each node was last among those who live, by this node's own clock.
    seen: Mutex<HashMap<NodeId, Instant>>,
    reader: tokio::sync::Mutex<Reader>,
}

/// Who has not said so for this long is dead.
const SILENCE: Duration = Duration::from_secs(10);

/// The keys of one letter box.
#[derive(Clone)]
struct LetterBox {
    letters: String,
    token: String,
}

impl LetterBox {
    fn of(redis: &Redis, node: &NodeId) -> LetterBox {
        let tag = format!("{}:{{n:{}}}", redis.settings().prefix, without_braces(node.as_str()));
        LetterBox { letters: format!("{tag}:letters"), token: format!("{tag}:box") }
    }
}

impl RedisNeighbours {
    pub fn new(redis: Arc<Redis>, node: NodeId) -> RedisNeighbours {
        let reader = Reader::new(redis.clone(), LetterBox::of(&redis, &node)).into();
        RedisNeighbours { node, redis, posts: Mutex::default(), seen: Mutex::default(), reader }
    }

    fn post_to(&self, node: &NodeId) -> Arc<Post> {
        let mut posts = lock(&self.posts);
        let post = posts.entry(node.clone()).or_insert_with(|| {
            Arc::new(Post::new(self.redis.clone(), self.node.clone(), LetterBox::of(&self.redis, node)))
        });
        post.clone()
    }

    fn nodes_key(&self) -> String {
        format!("{}:{{nodes}}", self.redis.settings().prefix)
    }

    /// Those who are noted; while that list is young, also those who were there just before it was lost.
    fn living(&self, noted: Vec<NodeId>, list_is_old: bool) -> Vec<NodeId> {
        let now = Instant::now();
        let mut seen = lock(&self.seen);
        if list_is_old {
            seen.clear();
        }
        seen.retain(|_, at| now - *at < SILENCE);
        seen.extend(noted.into_iter().map(|node| (node, now)));
        let mut living: Vec<_> = seen.keys().cloned().collect();
        living.sort();
        living
    }
}

#[async_trait]
impl Neighbours for RedisNeighbours {
    async fn beat(&self) -> Result<Vec<NodeId>, Away> {
        let nodes = self.nodes_key();
        let call = Call::script(&BEAT, &nodes)
            .key(&format!("{nodes}:since"))
            .text(self.node.as_str())
            .number(SILENCE.as_millis() as u64);
        let answer = self.redis.run(call).await?;
        let [list_is_old, noted @ ..] = list(&answer)? else { return Err(crate::redis::call::odd()) };
        let noted = noted.iter().map(|node| text(node).map(NodeId::new)).collect::<Result<Vec<_>, _>>()?;
        let living = self.living(noted, text(list_is_old)? == "1");
        let posts: Vec<_> = {
            let mut posts = lock(&self.posts);
            posts.retain(|node, post| living.contains(node) || !post.is_over());
            posts.values().cloned().collect()
        };
        join_all(posts.iter().map(|post| post.repeat_number())).await;
        Ok(living)
    }

    async fn send(&self, to: &NodeId, news: Bytes) -> Result<(), Away> {
        self.post_to(to).send(news).await
    }

    async fn receive(&self) -> Result<Vec<News>, Away> {
        self.reader.lock().await.next().await
    }

    async fn leave(&self) {
        let nodes = self.nodes_key();
        let letter_box = LetterBox::of(&self.redis, &self.node);
        let calls = vec![
            Call::command("ZREM", &nodes).text(self.node.as_str()),
            Call::command("DEL", &letter_box.token).key(&letter_box.letters),
        ];
        // Without an answer it is forgotten by itself, a little later.
        let _forgotten_anyway = self.redis.run_all(calls).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no call panics while it holds the lock")
}

/// Tells one box from the next of the same node.
fn fresh_name() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}
