//! One HTTP call, by hand: what a client on a bad network does.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::dice::Dice;
use crate::town::Town;

pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    pub fn is_done(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The caller was told that it may not, or that there is no such thing.
    pub fn is_refused(&self) -> bool {
        (400..500).contains(&self.status)
    }
}

const PATIENCE: Duration = Duration::from_secs(15);

/// `None`: no answer, and nobody knows what became of it.
pub async fn call(
    town: &Town,
    dice: &mut Dice,
    token: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Option<Answer> {
    town.counts.requests.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    timeout(PATIENCE, ask(town, dice, token, method, path, body)).await.ok()?
}

async fn ask(
    town: &Town,
    dice: &mut Dice,
    token: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Option<Answer> {
    let (_, mut line) = town.connect(dice)?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: sim\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    line.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    line.read_to_end(&mut answer).await.ok()?;
    parse(&answer)
}

fn parse(answer: &[u8]) -> Option<Answer> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?.to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = &answer[end + 4..];
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    // Cut off in the middle is no answer.
    let expected: usize = length.map_or(Some(0), |length| length.trim().parse().ok())?;
    if body.len() != expected {
        return None;
    }
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(body).ok()? };
    Some(Answer { status, body })
}
