//! A minimal HTTP client: one request per connection.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::checker::HistoryMessage;

/// How long `request_until_answered` retries. It is longer than a running server stays unavailable.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the status and the JSON body (`Null` if it is not JSON). Fails if the server is down or
/// ends meanwhile.
pub async fn request(
    address: &str,
    method: &str,
    path: &str,
    token: &str,
    body: Option<&Value>,
) -> std::io::Result<(u16, Value)> {
    let mut stream = TcpStream::connect(address).await?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let broken = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(broken)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
    Ok((status, serde_json::from_str(body).unwrap_or(Value::Null)))
}

/// Repeats the request while the server answers 503, for at most `PATIENCE`. Use it for idempotent
/// requests only.
pub async fn request_until_answered(
    address: &str,
    method: &str,
    path: &str,
    token: &str,
    body: Option<&Value>,
) -> std::io::Result<(u16, Value)> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (status, answer) = request(address, method, path, token, body).await?;
        if status != 503 || Instant::now() > deadline {
            return Ok((status, answer));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns the body of a text page.
pub async fn get_text(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// Reads a whole conversation, paging with `after_seq`.
pub async fn history(address: &str, token: &str, conversation: &str) -> Vec<HistoryMessage> {
    messages(address, token, conversation).await.iter().map(stored).collect()
}

/// Like [`history`], but returns the messages as JSON.
pub async fn messages(address: &str, token: &str, conversation: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let mut after = 0;
    loop {
        let path = format!("/v1/conversations/{conversation}/messages?after_seq={after}&limit=100");
        let asked = request_until_answered(address, "GET", &path, token, None).await;
        let (status, mut page) = asked.unwrap();
        assert_eq!(status, 200, "{page}");
        all.append(page["messages"].as_array_mut().unwrap());
        match page["next_after_seq"].as_u64() {
            Some(next) => after = next,
            None => return all,
        }
    }
}

fn stored(message: &Value) -> HistoryMessage {
    let text = |field: &str| message[field].as_str().unwrap().to_owned();
    HistoryMessage {
        seq: message["seq"].as_u64().unwrap(),
        sender: text("sender_id"),
        message_id: text("message_id"),
        content: text("content"),
        system: message["content_type"] == "system" || message["content_type"] == "void",
    }
}
