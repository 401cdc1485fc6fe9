//! What hints cost: run by hand, `cargo test -p bluetick-store-cloud --test hints_measure -- --ignored --nocapture`.
#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod hints_common;

use bluetick_core::Seq;
use bluetick_store_cloud::hints::{Hints, MessageKey, Seed};
use bluetick_testkit::redis::RedisServer;
use hints_common::*;

const CALLS: u64 = 20_000;

/// Microseconds of the server's one thread for each call since the last reset.
fn script_us(server: &RedisServer) -> String {
    server.info("commandstats", "cmdstat_evalsha").unwrap()
}

#[tokio::test]
#[ignore = "it measures, and asserts nothing"]
async fn what_the_scripts_cost() {
    let server = RedisServer::start();
    let hints = hints(to_single(server.url())).await;
    for ids_a_day in [0_u64, 20, 200, 2000] {
        let id = conversation();
        let ids = (0..8 * ids_a_day).map(|index| {
            let day = (index % 8) as i64;
            (MessageKey(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)), Seq::new(index + 1), at(-day * DAY_MS))
        });
        hints.seed(&Seed { ids: ids.collect(), ..seed(id, 100_000) }).await.unwrap();
        server.command(&["CONFIG", "RESETSTAT"]);
        for message in 0..200 {
            place(&hints, &reserve(id, (1 << 40) + message)).await;
        }
        println!("reserve, new id, {ids_a_day} ids on each of 8 days: {}", script_us(&server));
    }
    let conversations: Vec<_> = (0..1000).map(|_| conversation()).collect();
    for id in &conversations {
        hints.seed(&seed(*id, 0)).await.unwrap();
    }
    server.command(&["CONFIG", "RESETSTAT"]);
    for message in 0..CALLS {
        place(&hints, &reserve(conversations[message as usize % 1000], message)).await;
    }
    println!("reserve, 1,000 conversations: {}", script_us(&server));
    server.command(&["CONFIG", "RESETSTAT"]);
    for message in 0..CALLS {
        place(&hints, &reserve(conversations[message as usize % 1000], message)).await;
    }
    println!("reserve, known id: {}", script_us(&server));
    let people: Vec<_> = (0..1000).map(|_| user()).collect();
    for person in &people {
        hints.connect(person, &bluetick_store_cloud::NodeId::new("node-1")).await.unwrap();
    }
    server.command(&["CONFIG", "RESETSTAT"]);
    for message in 0..CALLS {
        let people = &people[message as usize % 500 * 2..][..2];
        hints.touch(conversations[message as usize % 1000], at(message as i64), people).await.unwrap();
    }
    println!("touch, each of two users: {}", script_us(&server));
    server.command(&["CONFIG", "RESETSTAT"]);
    for _ in 0..20 {
        hints.recently_reserved(NOW).await.unwrap();
    }
    println!("recently_reserved, 1,024 shards: {:?}", server.info("commandstats", "cmdstat_zrangebyscore"));
}

#[tokio::test]
#[ignore = "it measures, and asserts nothing"]
async fn how_many_bytes_an_id_takes() {
    let server = RedisServer::start();
    let hints = hints(to_single(server.url())).await;
    for count in [1, 10, 100, 500, 600, 10_000_u64] {
        let id = conversation();
        let ids = (0..count).map(|index| {
            (MessageKey(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)), Seq::new(1_000_000 + index), NOW)
        });
        hints.seed(&Seed { ids: ids.collect(), ..seed(id, 2_000_000) }).await.unwrap();
        let set = server.command(&["HGET", &hints.key_of(id), "ids"]).text();
        let bucket = format!("{}:{set}:{}", hints.key_of(id), NOW.millis() / DAY_MS);
        let bytes = server.command(&["MEMORY", "USAGE", &bucket, "SAMPLES", "0"]).number();
        println!("{count} ids: {bytes} bytes, {:.1} each", bytes as f64 / count as f64);
        if count == 1 {
            place(&hints, &reserve(id, 7)).await;
            let own = server.command(&["MEMORY", "USAGE", &hints.key_of(id)]).number();
            println!("a conversation itself: {own} bytes");
        }
    }
}
