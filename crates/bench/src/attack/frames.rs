//! Frame attacks on authenticated WebSocket connections: tiny frames, huge frames, too many frames,
//! and frames about conversations the user is not a member of.

use std::sync::Arc;
use std::time::Duration;

use bluetick_client::link::ClientFrame;
use bluetick_core::{ConversationId, Seq};

use super::running::AttackControl;
use crate::under_test::connect;
use crate::websocket::{CONTINUATION, FINAL, LoadConnection, PING, TEXT};
use crate::workload::Dice;

/// Delay before an attacker reconnects after the server closed or refused its connection. A shorter
/// delay turns the attack into a reconnect storm.
const PAUSE: Duration = Duration::from_millis(50);
/// Number of frames that an attacker writes per flush. Smaller batches spend more system calls and
/// slow down the attacker.
const TOGETHER: u64 = 10;

/// Connects in a loop and calls `act` on each connection until the server closes it.
async fn again_and_again(
    orders: Arc<AttackControl>,
    number: usize,
    mut act: impl FnMut(&mut LoadConnection, u64),
) {
    loop {
        let token = &orders.field.account(number).token;
        let Ok(mut line) = connect(orders.field.to, orders.field.source(number), token, |_| ()).await else {
            orders.refused();
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let mut count = 0;
        // Stagger the flushes of different attackers.
        let offset = number as u64 % TOGETHER;
        loop {
            orders.turn().await;
            count += 1;
            act(&mut line, count);
            orders.acted();
            if (count + offset).is_multiple_of(TOGETHER)
                && (line.flush().await.is_err() || line.skip().is_err())
            {
                orders.refused();
                break;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Even-numbered attackers send text messages of one byte. Odd-numbered attackers send one endless
/// message in fragments of one byte.
pub async fn one_byte(orders: Arc<AttackControl>, number: usize) {
    again_and_again(orders, number, |line, count| match number % 2 {
        0 => line.put_frame(FINAL | TEXT, b"x"),
        _ if count == 1 => line.put_frame(TEXT, b"x"),
        _ => line.put_frame(CONTINUATION, b"x"),
    })
    .await;
}

/// Payload size of a large frame, in bytes. It is just below the default of `limits.frame_bytes`,
/// so that the server reads and parses the whole frame.
const LARGE_BYTES: usize = 500_000;
/// The header of a masked text frame that declares a payload of 1 GiB. The payload never follows.
const SAID_TO_BE_HUGE: [u8; 14] = [FINAL | TEXT, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 1, 2, 3, 4];

/// Even-numbered attackers send large frames that are not valid JSON. Odd-numbered attackers send
/// only a frame header that declares 1 GiB.
pub async fn giant(orders: Arc<AttackControl>, number: usize) {
    let large = vec![b'['; LARGE_BYTES];
    loop {
        let token = &orders.field.account(number).token;
        if let Ok(mut line) = connect(orders.field.to, orders.field.source(number), token, |_| ()).await {
            loop {
                orders.turn().await;
                match number % 2 {
                    0 => line.put_frame(FINAL | TEXT, &large),
                    _ => line.put_raw(&SAID_TO_BE_HUGE),
                }
                orders.acted();
                if line.flush().await.is_err() || line.skip().is_err() {
                    break;
                }
            }
        }
        orders.refused();
        tokio::time::sleep(PAUSE).await;
    }
}

/// Even-numbered attackers send WebSocket pings. Odd-numbered attackers send `ping` frames of the
/// API.
pub async fn pings(orders: Arc<AttackControl>, number: usize) {
    again_and_again(orders, number, |line, _| match number % 2 {
        0 => line.put_frame(FINAL | PING, b"are you there"),
        _ => line.put(&ClientFrame::Ping),
    })
    .await;
}

/// Sends `typing`, `read` and other frames for random conversation ids, which do not exist.
pub async fn guesses(orders: Arc<AttackControl>, number: usize) {
    let mut dice = Dice::new(number as u64 + 1);
    again_and_again(orders, number, |line, _| {
        let mut bytes = [0; 15];
        bytes[..8].copy_from_slice(&dice.next().to_be_bytes());
        bytes[7..].copy_from_slice(&dice.next().to_be_bytes());
        let conversation_id = ConversationId::group(bytes);
        line.put(&match dice.below(3) {
            0 => ClientFrame::Typing { conversation_id },
            1 => ClientFrame::Read { conversation_id, seq: Seq::new(1) },
            _ => ClientFrame::Delivered { conversation_id, seq: Seq::new(1) },
        });
    })
    .await;
}
