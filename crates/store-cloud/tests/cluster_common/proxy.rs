//! A TCP proxy on loopback that records, cuts, blocks and stalls.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Controls {
    /// The number of cuts. A connection ends when it changes.
    cuts: u64,
    is_blocked: bool,
    is_stalled: bool,
}

/// Stops when it is dropped.
pub struct Proxy {
    pub address: SocketAddr,
    controls: watch::Sender<Controls>,
    /// The bytes of all connections towards the target.
    recorded: Arc<Mutex<Vec<u8>>>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    pub async fn to(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let controls = watch::Sender::new(Controls::default());
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, target, controls.clone(), Arc::clone(&recorded)));
        Proxy { address, controls, recorded, _tasks: tasks }
    }

    /// Ends all connections.
    pub fn cut(&self) {
        self.controls.send_modify(|controls| controls.cuts += 1);
    }

    /// Ends all connections, and all new ones at once.
    pub fn set_blocked(&self, is_blocked: bool) {
        self.controls.send_modify(|controls| controls.is_blocked = is_blocked);
    }

    /// Stops reading, without ending a connection.
    pub fn set_stalled(&self, is_stalled: bool) {
        self.controls.send_modify(|controls| controls.is_stalled = is_stalled);
    }

    pub fn recorded(&self) -> Vec<u8> {
        self.recorded.lock().unwrap().clone()
    }
}

async fn accept(
    listener: TcpListener,
    target: SocketAddr,
    controls: watch::Sender<Controls>,
    recorded: Arc<Mutex<Vec<u8>>>,
) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        connections.spawn(forward(client, target, controls.subscribe(), Arc::clone(&recorded)));
    }
}

async fn forward(
    client: TcpStream,
    target: SocketAddr,
    controls: watch::Receiver<Controls>,
    recorded: Arc<Mutex<Vec<u8>>>,
) {
    if controls.borrow().is_blocked {
        return;
    }
    let Ok(server) = TcpStream::connect(target).await else { return };
    let (client, server) = (client.into_split(), server.into_split());
    tokio::select! {
        () = copy(client.0, server.1, controls.clone(), Some(recorded)) => {}
        () = copy(server.0, client.1, controls.clone(), None) => {}
        () = until_cut(controls) => {}
    }
}

async fn until_cut(mut controls: watch::Receiver<Controls>) {
    let cuts = controls.borrow().cuts;
    let is_cut = |controls: &Controls| controls.is_blocked || controls.cuts != cuts;
    let _proxy_dropped = controls.wait_for(is_cut).await;
}

async fn copy(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut controls: watch::Receiver<Controls>,
    recorded: Option<Arc<Mutex<Vec<u8>>>>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        if controls.wait_for(|controls| !controls.is_stalled).await.is_err() {
            return;
        }
        let Ok(length) = from.read(&mut buffer).await else { return };
        if let Some(recorded) = &recorded {
            recorded.lock().unwrap().extend(&buffer[..length]);
        }
        if length == 0 || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
