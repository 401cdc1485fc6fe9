//! Everybody comes back at once: devices that each missed some messages connect to a server that was just started.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use bluetick_client::Server;
use bluetick_client::link::{ClientFrame, Frame, Link, ServerFrame};
use bluetick_core::ports::Store;
use tokio::task::JoinSet;

use crate::BenchError;
use crate::measure::Latencies;
use crate::scratch::in_scratch;
use crate::seed::{Chat, always, fill, open, person};
use crate::under_test::{ServerUnderTest, client_failed, connect};

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
    let text = always("see you tomorrow at the station, platform five, bring the keys please");
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
        let (door, caught_up) = (server.door.clone(), Arc::clone(&caught_up));
        connecting.spawn(async move {
            let received = catch_up(&door, &token).await?;
            caught_up.record(started.elapsed());
            Ok::<_, BenchError>(received)
        });
    }
    let (mut received, mut held) = (0, Vec::with_capacity(bench.devices));
    while let Some(joined) = connecting.join_next().await {
        let (messages, link) = joined.map_err(client_failed)??;
        received += messages;
        held.push(link);
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
async fn catch_up(door: &Server, token: &str) -> Result<(usize, Link), BenchError> {
    let (mut messages, mut last): (usize, Option<Frame>) = (0, None);
    let mut link = connect(door, token, |message| {
        messages += 1;
        last = Some(message);
    })
    .await?;
    if let Some(ServerFrame::Message(last)) =
        last.map(|last| last.decode().map_err(client_failed)).transpose()?
    {
        let (conversation_id, seq) = (last.conversation_id, last.seq);
        link.send(&ClientFrame::Delivered { conversation_id, seq }).await.map_err(client_failed)?;
    }
    Ok((messages, link))
}
