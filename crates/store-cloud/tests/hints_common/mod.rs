//! Hints to run a case on: in memory, on one Redis, on a cluster. Cases of one binary share the servers and never meet,
//! since their names are fresh.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bluetick_core::{ConversationId, Seq, Timestamp, UserId};
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::hints::redis::RedisHints;
use bluetick_store_cloud::hints::{Hints, MessageKey, Place, Reserve, Reserved, Seed};
use bluetick_store_cloud::redis::{Redis, RedisMode, RedisSettings};
use bluetick_testkit::redis::{RedisCluster, RedisServer};

pub const DAY_MS: i64 = 24 * 60 * 60 * 1000;
pub const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

static SINGLE: LazyLock<RedisServer> = LazyLock::new(RedisServer::start);
static CLUSTER: LazyLock<RedisCluster> = LazyLock::new(RedisCluster::start);

pub async fn memory() -> Arc<dyn Hints> {
    Arc::new(MemoryHints::default())
}

pub async fn single() -> Arc<dyn Hints> {
    Arc::new(hints(to_single(SINGLE.url())).await)
}

pub async fn cluster() -> Arc<dyn Hints> {
    Arc::new(hints(to_cluster(CLUSTER.urls())).await)
}

/// Patient, since a busy machine is no failure.
pub fn to_single(url: String) -> RedisSettings {
    RedisSettings { urls: vec![url], timeout_ms: 10_000, ..RedisSettings::default() }
}

pub fn to_cluster(urls: Vec<String>) -> RedisSettings {
    RedisSettings { urls, mode: RedisMode::Cluster, timeout_ms: 10_000, ..RedisSettings::default() }
}

pub async fn hints(settings: RedisSettings) -> RedisHints {
    let redis = Redis::open(settings).await.unwrap();
    redis.up().await;
    RedisHints::new(Arc::new(redis))
}

fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Spread over the shards as real ids are.
pub fn conversation() -> ConversationId {
    let number = fresh();
    let mut bits = [0; 15];
    bits[..8].copy_from_slice(&number.to_be_bytes());
    bits[13..].copy_from_slice(&(number as u16).wrapping_mul(40_503).to_be_bytes());
    ConversationId::group(bits)
}

pub fn user() -> UserId {
    format!("user{}", fresh()).parse().unwrap()
}

pub fn seed(conversation: ConversationId, head: u64) -> Seed {
    Seed {
        is_whole: true,
        read_at: None,
        conversation,
        head: Seq::new(head),
        settled: Seq::ZERO,
        last_at: NOW,
        members_version: 1,
        ids: Vec::new(),
        sent: Vec::new(),
        registry: None,
    }
}

pub fn reserve(conversation: ConversationId, id: u64) -> Reserve {
    Reserve {
        conversation,
        id: MessageKey(id),
        sender: "sender".parse().unwrap(),
        now: NOW,
        instead_of: None,
        settled: Seq::ZERO,
        registry_version: 0,
    }
}

pub fn at(millis_later: i64) -> Timestamp {
    NOW.plus_millis(millis_later)
}

pub async fn place(hints: &dyn Hints, reserve: &Reserve) -> Place {
    match hints.reserve(reserve).await.unwrap() {
        Reserved::Place(place) => place,
        Reserved::Unseeded => panic!("unseeded"),
    }
}

/// The number and whether the id had it before.
pub async fn seq(hints: &dyn Hints, reserve: &Reserve) -> (u64, bool) {
    let place = place(hints, reserve).await;
    (place.seq.get(), place.known)
}

/// Asks again until it is so.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let start = Instant::now();
    while !is_so().await {
        assert!(start.elapsed() < Duration::from_secs(30), "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
