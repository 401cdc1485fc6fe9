//! Everybody comes back at once: devices that each missed some messages connect to a server that was just started.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use bluetick_core::ports::Store;
use futures_util::SinkExt;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use crate::BenchError;
use crate::measure::Latencies;
use crate::scratch::in_scratch;
use crate::seed::{Chat, fill, open, person};
use crate::under_test::{ServerUnderTest, Socket, client_failed, connect};

#[derive(Clone, Debug)]
pub struct ReconnectBench {
    pub directory: PathBuf,
    /// The program to measure.
    pub binary: PathBuf,
    pub devices: usize,
    pub missed: usize,
}

pub fn run(bench: ReconnectBench) -> Result<(), BenchError> {
    in_scratch(&bench.directory, 1, measure(&bench))
}

async fn measure(bench: &ReconnectBench) -> Result<(), BenchError> {
    println!("reconnect: {} devices, {} messages missed by each", bench.devices, bench.missed);
    let store = open(&bench.directory)?;
    let text: Arc<str> = "see you tomorrow at the station, platform five, bring the keys please".into();
    let chats = (0..bench.devices).map(|number| Chat {
        from: person("sender", number),
        to: person("device", number),
        messages: bench.missed,
    });
    fill(&store, chats, &text).await?;
    store.close().await;
    drop(store);

    let server = ServerUnderTest::start(&bench.binary, &bench.directory).await?;
    let mut devices = Vec::with_capacity(bench.devices);
    for number in 0..bench.devices {
        devices.push(server.token(&person("device", number))?);
    }
    let (cpu, resident) = (server.cpu_seconds(), server.resident_bytes());
    let started = Instant::now();
    let caught_up = Arc::new(Latencies::default());
    let mut connecting = JoinSet::new();
    for token in devices {
        let (address, caught_up) = (server.address.clone(), Arc::clone(&caught_up));
        connecting.spawn(async move {
            let received = catch_up(&address, &token).await?;
            caught_up.record(started.elapsed());
            Ok::<_, BenchError>(received)
        });
    }
    let (mut received, mut held) = (0, Vec::with_capacity(bench.devices));
    while let Some(joined) = connecting.join_next().await {
        let (messages, socket) = joined.map_err(client_failed)??;
        received += messages;
        held.push(socket);
    }
    let took = started.elapsed();
    let expected = bench.devices * bench.missed;
    if received != expected {
        return Err(BenchError::Client(format!("{received} messages came instead of {expected}")));
    }
    println!();
    println!("messages in the backlogs     {received:>12}");
    println!("time to the last caught_up   {:>12.2} s", took.as_secs_f64());
    println!("time to caught_up            {}", caught_up.summary());
    println!("backlog messages             {:>12.0} /s", received as f64 / took.as_secs_f64());
    println!("CPU of the server            {:>12.2} s", server.cpu_seconds() - cpu);
    println!("resident memory, before      {resident:>12} bytes");
    println!("resident memory, peak        {:>12} bytes, all of them connected", server.peak_bytes());
    drop(held);
    Ok(())
}

/// Catches up, acknowledges the last of the messages, and counts them. The connection stays.
async fn catch_up(address: &str, token: &str) -> Result<(usize, Socket), BenchError> {
    let (mut messages, mut last) = (0, None);
    let mut socket = connect(address, token, |message| {
        messages += 1;
        last = Some(message);
    })
    .await?;
    if let Some(ack) = last.as_deref().and_then(delivered) {
        socket.send(Message::text(ack)).await.map_err(client_failed)?;
    }
    Ok((messages, socket))
}

/// The ack of a message and all before it.
fn delivered(message: &str) -> Option<String> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let (id, seq) = (message["conversation_id"].as_str()?, message["seq"].as_u64()?);
    Some(format!(r#"{{"type":"delivered","conversation_id":"{id}","seq":{seq}}}"#))
}
