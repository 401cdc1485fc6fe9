//! Everybody comes back at once: devices that each missed some messages connect to a server that was just started.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluetick_auth::{AuthSettings, Tokens};
use bluetick_core::UserId;
use bluetick_core::ports::{Store, SystemRandom};
use bluetick_core::time::{Clock, SystemClock};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use crate::BenchError;
use crate::measure::Latencies;
use crate::scratch::in_scratch;
use crate::seed::{Chat, fill, open, person};

#[derive(Clone, Debug)]
pub struct ReconnectBench {
    pub directory: PathBuf,
    /// The program to measure.
    pub binary: PathBuf,
    pub devices: usize,
    pub missed: usize,
}

type Socket = tokio_tungstenite::WebSocketStream<TcpStream>;

const START: Duration = Duration::from_secs(60);

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

    let client = |error: &dyn std::fmt::Display| BenchError::Client(error.to_string());
    // The server makes its signing key at the first start; the tokens are made with the same one.
    let tokens =
        Tokens::open(&AuthSettings::default(), &bench.directory, &SystemRandom).map_err(|e| client(&e))?;
    let mint = |user: &UserId| tokens.mint(user, Duration::from_secs(3600), SystemClock.now());
    let mut devices = Vec::with_capacity(bench.devices);
    for number in 0..bench.devices {
        devices.push(mint(&person("device", number)).map_err(|e| client(&e))?.token);
    }
    let (server, address) = start(bench).await?;
    let (cpu, resident) = (cpu_seconds(&server), resident_bytes(&server));
    let started = Instant::now();
    let caught_up = Arc::new(Latencies::default());
    let mut connecting = JoinSet::new();
    for token in devices {
        let (address, caught_up) = (address.clone(), Arc::clone(&caught_up));
        connecting.spawn(async move {
            let received = catch_up(&address, &token).await?;
            caught_up.record(started.elapsed());
            Ok::<_, BenchError>(received)
        });
    }
    let (mut received, mut held) = (0, Vec::with_capacity(bench.devices));
    while let Some(joined) = connecting.join_next().await {
        let (messages, socket) = joined.map_err(|e| client(&e))??;
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
    println!("CPU of the server            {:>12.2} s", cpu_seconds(&server) - cpu);
    println!("resident memory, before      {resident:>12} bytes");
    println!("resident memory, peak        {:>12} bytes, all of them connected", peak_bytes(&server));
    drop(held);
    Ok(())
}

/// Says hello, reads up to `caught_up`, acknowledges the last of the messages, and counts them. The connection stays.
async fn catch_up(address: &str, token: &str) -> Result<(usize, Socket), BenchError> {
    let client = |error: &dyn std::fmt::Display| BenchError::Client(error.to_string());
    let stream = TcpStream::connect(address).await.map_err(|e| client(&e))?;
    let url = format!("ws://{address}/v1/ws");
    let (mut socket, _) = tokio_tungstenite::client_async(url, stream).await.map_err(|e| client(&e))?;
    let hello = format!(r#"{{"type":"hello","token":"{token}"}}"#);
    socket.send(Message::text(hello)).await.map_err(|e| client(&e))?;
    let (mut messages, mut last) = (0, None);
    loop {
        let Some(frame) = socket.next().await else { return Err(client(&"closed before caught_up")) };
        let Message::Text(text) = frame.map_err(|e| client(&e))? else { continue };
        if text.starts_with(r#"{"type":"message""#) {
            messages += 1;
            last = Some(text);
        } else if text.starts_with(r#"{"type":"caught_up""#) {
            if let Some(ack) = last.as_deref().and_then(delivered) {
                socket.send(Message::text(ack)).await.map_err(|e| client(&e))?;
            }
            return Ok((messages, socket));
        }
    }
}

/// The ack of a message and all before it.
fn delivered(message: &str) -> Option<String> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let (id, seq) = (message["conversation_id"].as_str()?, message["seq"].as_u64()?);
    Some(format!(r#"{{"type":"delivered","conversation_id":"{id}","seq":{seq}}}"#))
}

async fn start(bench: &ReconnectBench) -> Result<(Child, String), BenchError> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Server(error.to_string());
    let mut child = Command::new(&bench.binary)
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(&bench.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| failed(&e))?;
    let output = child.stdout.take().ok_or_else(|| failed(&"it has no output"))?;
    let mut lines = BufReader::new(output).lines();
    loop {
        let line = tokio::time::timeout(START, lines.next_line()).await.map_err(|e| failed(&e))?;
        let line = line.map_err(|e| failed(&e))?.ok_or_else(|| failed(&"it ended before it served"))?;
        if let Some((_, rest)) = line.split_once("http://") {
            let address = rest.split('/').next().unwrap_or(rest).to_owned();
            return Ok((child, address));
        }
    }
}

fn proc_file(child: &Child, name: &str) -> String {
    let path = Path::new("/proc").join(child.id().unwrap_or(0).to_string()).join(name);
    std::fs::read_to_string(path).unwrap_or_default()
}

fn cpu_seconds(child: &Child) -> f64 {
    let stat = proc_file(child, "stat");
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<f64> = after_name.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    // User and system time, in ticks of 10 ms; the state before them is a letter and not counted here.
    (fields.get(10).unwrap_or(&0.0) + fields.get(11).unwrap_or(&0.0)) / 100.0
}

fn status_bytes(child: &Child, field: &str) -> u64 {
    let status = proc_file(child, "status");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn resident_bytes(child: &Child) -> u64 {
    status_bytes(child, "VmRSS:")
}

fn peak_bytes(child: &Child) -> u64 {
    status_bytes(child, "VmHWM:")
}
