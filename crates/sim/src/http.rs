//! A minimal HTTP client that makes one request per connection.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::cluster::Cluster;
use crate::dice::Dice;

pub struct JsonResponse {
    pub status: u16,
    pub body: Value,
}

impl JsonResponse {
    pub fn is_done(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns whether the server answered with a 4xx status. This includes the rate limit (429).
    pub fn is_refused(&self) -> bool {
        (400..500).contains(&self.status)
    }
}

/// Time limit for a request, in simulated time. If it is too short, requests that a fault delays
/// count as unanswered.
const PATIENCE: Duration = Duration::from_secs(15);

/// Sends a request to a random node. `None` means that no complete answer arrived; the server may
/// have executed the request.
pub async fn call(
    town: &Cluster,
    dice: &mut Dice,
    token: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Option<JsonResponse> {
    town.counts.requests.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    timeout(PATIENCE, ask(town, dice, token, method, path, body)).await.ok()?
}

async fn ask(
    town: &Cluster,
    dice: &mut Dice,
    token: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Option<JsonResponse> {
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

fn parse(answer: &[u8]) -> Option<JsonResponse> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?.to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = &answer[end + 4..];
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    // A truncated body does not count as an answer.
    let expected: usize = length.map_or(Some(0), |length| length.trim().parse().ok())?;
    if body.len() != expected {
        return None;
    }
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(body).ok()? };
    Some(JsonResponse { status, body })
}
