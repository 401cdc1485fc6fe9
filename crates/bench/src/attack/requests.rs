//! Attacks without a valid account: password guessing and forged tokens.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::running::AttackControl;
use crate::under_test::connect;
use crate::websocket::dial;
use crate::workload::Dice;

/// Delay before an attacker reconnects after the server closed or refused its connection. A shorter
/// delay turns the attack into a reconnect storm.
const PAUSE: Duration = Duration::from_millis(50);

/// Sends HTTP requests in a loop. Reuses each connection while the server answers, then reconnects.
async fn ask_again_and_again(orders: &AttackControl, number: usize, mut request: impl FnMut() -> String) {
    loop {
        if let Ok(mut stream) = dial(orders.field.to, orders.field.source(number)).await {
            while asked(&mut stream, &request(), orders).await.is_some() {}
        }
        orders.refused();
        tokio::time::sleep(PAUSE).await;
    }
}

async fn asked(stream: &mut TcpStream, request: &str, orders: &AttackControl) -> Option<()> {
    orders.turn().await;
    stream.write_all(request.as_bytes()).await.ok()?;
    // Answers are short, so one read returns the whole answer.
    let mut answer = [0; 4_096];
    let answered = stream.read(&mut answer).await.ok().filter(|count| *count > 0);
    if answered.is_some_and(|count| !answer[..count].starts_with(b"HTTP/1.1 200")) {
        orders.refused();
    }
    orders.acted();
    answered.map(drop)
}

/// Attempts log-ins. Each attempt uses a different user id, so per-account limits do not apply.
pub async fn log_ins(orders: Arc<AttackControl>, number: usize) {
    let mut dice = Dice::new(number as u64 + 1);
    ask_again_and_again(&orders, number, || {
        let body = format!(r#"{{"user_id":"user{}","password":"password-{}"}}"#, dice.next(), dice.next());
        format!(
            "POST /v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    })
    .await;
}

/// Sends well-formed tokens with a wrong signature. Even-numbered attackers send them in HTTP
/// calls, odd-numbered attackers in a WebSocket `hello`.
pub async fn bad_tokens(orders: Arc<AttackControl>, number: usize) {
    let mut dice = Dice::new(number as u64 + 1);
    let good = orders.field.account(number).token.clone();
    let signed = good.rfind('.').map_or(0, |dot| dot + 1);
    let mut bad = move || {
        format!("{}{:016x}{:016x}{:011x}", &good[..signed], dice.next(), dice.next(), dice.next() >> 20)
    };
    if number.is_multiple_of(2) {
        return ask_again_and_again(&orders, number, || {
            format!(
                "GET /v1/conversations HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
                bad()
            )
        })
        .await;
    }
    loop {
        orders.turn().await;
        if connect(orders.field.to, orders.field.source(number), &bad(), |_| ()).await.is_err() {
            orders.refused();
        }
        orders.acted();
    }
}
