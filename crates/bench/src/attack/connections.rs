//! Connection attacks: connections that trickle bytes, connections that never read, a reconnect
//! storm, and one user with too many connections.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bluetick_client::link::{ClientFrame, SendFrame};
use bluetick_core::MessageId;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::running::AttackControl;
use crate::under_test::connect;
use crate::websocket::{LoadConnection, dial};

/// The incomplete HTTP request that even-numbered attackers trickle. Odd-numbered attackers open a
/// WebSocket and trickle `HELLO`.
const REQUEST: &[u8] =
    b"GET /v1/conversations HTTP/1.1\r\nHost: localhost\r\nX-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
/// The header of a masked 100-byte text frame and the first bytes of its payload.
const HELLO: &[u8] =
    b"\x81\xe4\0\0\0\0{\"type\":\"hello\",\"token\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
/// Delay before an attacker retries a refused connection. A shorter delay costs the attacker more
/// CPU.
const PAUSE: Duration = Duration::from_millis(100);

pub async fn trickle(orders: Arc<AttackControl>, number: usize) {
    loop {
        let from = orders.field.source(number);
        let trickled = async {
            if number.is_multiple_of(2) {
                trickle_into(dial(orders.field.to, from).await.ok()?, REQUEST, &orders).await
            } else {
                trickle_into(
                    LoadConnection::open(orders.field.to, from).await.ok()?.into_stream(),
                    HELLO,
                    &orders,
                )
                .await
            }
        };
        let _closed: Option<()> = trickled.await;
        orders.refused();
        tokio::time::sleep(PAUSE).await;
    }
}

/// Writes `bytes` one at a time until the server closes the connection.
async fn trickle_into(mut stream: TcpStream, bytes: &[u8], orders: &AttackControl) -> Option<()> {
    for byte in bytes {
        orders.turn().await;
        stream.write_all(&[*byte]).await.ok()?;
        orders.acted();
    }
    // All bytes are sent. Wait for the server to answer or close.
    let mut nothing = [0];
    stream.readable().await.ok()?;
    stream.try_read(&mut nothing).ok().map(drop)
}

/// Number of non-reading connections that one attacker holds open. It must stay below the limit of
/// connections per user.
const MUTE: usize = 15;
/// Size of a message to a non-reading connection, in bytes. With a smaller one, the outbox of such
/// a connection fills more slowly and the attack costs the server less.
const BODY_BYTES: usize = 16_000;
/// Number of attackers that send messages to non-reading connections. The other attackers stay
/// idle.
const WRITERS: usize = 4;

pub async fn never_read(orders: Arc<AttackControl>, number: usize) {
    if number >= WRITERS {
        return std::future::pending().await;
    }
    let account = orders.field.account(number);
    let body = "x".repeat(BODY_BYTES);
    let (mut mute, mut sent): (VecDeque<LoadConnection>, u128) = (VecDeque::new(), 0);
    loop {
        let from = orders.field.source(number);
        let Ok(mut writer) = connect(orders.field.to, from, &account.peer_token, |_| ()).await else {
            orders.refused();
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        loop {
            orders.turn().await;
            // Replace the oldest connection after every 16 messages, because the server may have
            // closed it.
            if mute.len() == MUTE && sent.is_multiple_of(16) {
                mute.pop_front();
            }
            if mute.len() < MUTE {
                match hello(&orders, from, &account.token).await {
                    Some(line) => mute.push_back(line),
                    None => orders.refused(),
                }
            }
            sent += 1;
            let id = MessageId::Uuid((u128::from(std::process::id()) << 64 | sent).to_be_bytes());
            writer.put(&ClientFrame::Send(SendFrame::text(account.conversation, id, &body)));
            if writer.flush().await.is_err() || writer.skip().is_err() {
                orders.refused();
                break;
            }
            orders.acted();
        }
    }
}

/// Opens a WebSocket and sends `hello` without waiting for the answer.
async fn hello(orders: &AttackControl, from: Option<SocketAddr>, token: &str) -> Option<LoadConnection> {
    let mut line = LoadConnection::open(orders.field.to, from).await.ok()?;
    line.put(&ClientFrame::Hello { token, device_id: None, positions: Default::default() });
    line.flush().await.ok()?;
    Some(line)
}

/// Connects, waits for `caught_up` and disconnects, in a loop.
pub async fn come_and_go(orders: Arc<AttackControl>, number: usize) {
    loop {
        orders.turn().await;
        let token = &orders.field.account(number).token;
        match connect(orders.field.to, orders.field.source(number), token, |_| ()).await {
            Ok(line) => drop(line),
            Err(_) => orders.refused(),
        }
        orders.acted();
    }
}

/// Opens connections of one user account and holds them until the server closes them.
pub async fn pile_up(orders: Arc<AttackControl>, number: usize) {
    let most = orders.field.connections / orders.field.accounts.len();
    let mut held: VecDeque<LoadConnection> = VecDeque::with_capacity(most);
    loop {
        orders.turn().await;
        let token = &orders.field.account(0).token;
        match connect(orders.field.to, orders.field.source(number), token, |_| ()).await {
            Ok(line) => held.push_back(line),
            Err(_) => orders.refused(),
        }
        orders.acted();
        if held.len() > most {
            held.pop_front();
        }
    }
}
