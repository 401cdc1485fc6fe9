//! A TCP proxy between client and server that injects network faults.

#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub struct Proxy {
    pub address: String,
    state: Arc<ProxyState>,
    _listening: JoinSet<()>,
}

struct ProxyState {
    /// The address of the server. `None` refuses connections.
    target: watch::Sender<Option<String>>,
    /// Incremented by every cut.
    cuts: watch::Sender<u64>,
    /// Whether the proxy drops the server's answers.
    answers_are_lost: AtomicBool,
}

impl Proxy {
    pub async fn to(target: Option<&str>) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(ProxyState {
            target: watch::Sender::new(target.map(str::to_owned)),
            cuts: watch::Sender::new(0),
            answers_are_lost: AtomicBool::new(false),
        });
        let mut listening = JoinSet::new();
        listening.spawn(listen(listener, Arc::clone(&state)));
        Proxy { address, state, _listening: listening }
    }

    /// Sets the address of the server, or `None` for an outage.
    pub fn set_target(&self, target: Option<&str>) {
        self.state.target.send_replace(target.map(str::to_owned));
    }

    /// Ends all connections abruptly.
    pub fn cut(&self) {
        self.state.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Drops the server's answers while `lost` is true. Requests still reach the server.
    pub fn lose_answers(&self, lost: bool) {
        self.state.answers_are_lost.store(lost, Ordering::SeqCst);
    }
}

async fn listen(listener: TcpListener, state: Arc<ProxyState>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        connections.spawn(carry(client, Arc::clone(&state)));
    }
}

async fn carry(client: TcpStream, state: Arc<ProxyState>) {
    let mut cuts = state.cuts.subscribe();
    cuts.mark_unchanged();
    let Some(target) = state.target.borrow().clone() else { return };
    let Ok(server) = TcpStream::connect(target).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = pump(from_client, to_server, None) => {}
        () = pump(from_server, to_client, Some(&state.answers_are_lost)) => {}
        _cut = cuts.changed() => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, is_lost: Option<&AtomicBool>) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if is_lost.is_some_and(|is_lost| is_lost.load(Ordering::SeqCst)) {
            continue;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
