//! Simulated connections between clients and nodes: delayed, stalled and cut. Each connection
//! delivers bytes in order, as TCP does; separate connections are independent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::dice::Dice;

/// Capacity in bytes of the client's end of a connection, in each direction. Writes beyond it wait
/// until the other end reads.
const BUFFER_BYTES: usize = 64 * 1024;

#[derive(Clone)]
pub struct SimulatedNetwork(Arc<Links>);

struct Links {
    dice: Dice,
    next: AtomicU64,
    /// Maximum usual delay in milliseconds. One in `stuck_one_in` chunks is delayed by 0.1 to 4
    /// seconds more (0: none).
    delay_ms: AtomicU64,
    stuck_one_in: AtomicU64,
    open: Mutex<BTreeMap<u64, NetworkLink>>,
}

struct NetworkLink {
    node: usize,
    cut: watch::Sender<bool>,
}

impl SimulatedNetwork {
    pub fn new(dice: Dice) -> SimulatedNetwork {
        SimulatedNetwork(Arc::new(Links {
            dice,
            next: AtomicU64::new(0),
            delay_ms: AtomicU64::new(5),
            stuck_one_in: AtomicU64::new(0),
            open: Mutex::default(),
        }))
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, NetworkLink>> {
        self.0.open.lock()
    }

    pub fn set_weather(&self, delay_ms: u64, stuck_one_in: u64) {
        self.0.delay_ms.store(delay_ms, Ordering::SeqCst);
        self.0.stuck_one_in.store(stuck_one_in, Ordering::SeqCst);
    }

    /// Opens a connection to a node, given the node's end, and returns the client's end.
    pub fn lay(&self, node: usize, theirs: DuplexStream) -> DuplexStream {
        let number = self.0.next.fetch_add(1, Ordering::SeqCst);
        let (ours, near) = duplex(BUFFER_BYTES);
        let (cut, is_cut) = watch::channel(false);
        self.open().insert(number, NetworkLink { node, cut });
        let ((near_read, near_write), (far_read, far_write)) = (split(near), split(theirs));
        let network = self.clone();
        let (out, back) = (is_cut.clone(), is_cut);
        let dice = self.0.dice.of(&format!("line {number}"));
        tokio::spawn(async move {
            let there = pump(&network.0, near_read, far_write, out, dice.of("there"));
            let here = pump(&network.0, far_read, near_write, back, dice.of("here"));
            tokio::join!(biased; there, here);
            network.open().remove(&number);
        });
        ours
    }

    /// Cuts an open connection, selected by `chosen`. Returns whether there was one.
    pub fn cut_one(&self, chosen: u64) -> bool {
        let open = self.open();
        let index = usize::try_from(chosen % (open.len().max(1) as u64)).unwrap_or(0);
        let line = open.values().nth(index);
        line.inspect(|line| line.cut()).is_some()
    }

    /// Cuts all open connections of a node. They carry no further bytes.
    pub fn cut_all(&self, node: usize) {
        self.open().values().filter(|line| line.node == node).for_each(NetworkLink::cut);
    }
}

impl NetworkLink {
    fn cut(&self) {
        self.cut.send_replace(true);
    }
}

async fn pump(
    lines: &Links,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut cut: watch::Receiver<bool>,
    mut dice: Dice,
) {
    let mut cut_too = cut.clone();
    let passing = async {
        let mut bytes = vec![0; 8 * 1024];
        while let Ok(length @ 1..) = from.read(&mut bytes).await {
            let usual = lines.delay_ms.load(Ordering::SeqCst);
            let stuck = lines.stuck_one_in.load(Ordering::SeqCst);
            let mut delay = dice.between(0, usual);
            if stuck > 0 && dice.one_in(stuck) {
                delay += dice.between(100, 4_000);
            }
            sleep(Duration::from_millis(delay)).await;
            // The connection may have been cut during the delay.
            if *cut_too.borrow_and_update() || to.write_all(&bytes[..length]).await.is_err() {
                return;
            }
        }
        let _gone = to.shutdown().await;
    };
    tokio::select! {
        biased;
        _ = cut.wait_for(|cut| *cut) => {}
        () = passing => {}
    }
}
