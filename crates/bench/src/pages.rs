//! The HTTP client of the load generator: one kept-alive connection with one request at a time. It
//! parses an answer only as far as needed to find its end.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::BenchError;
use crate::under_test::client_failed;

pub struct PageLine {
    stream: TcpStream,
    host: SocketAddr,
    token: String,
    answer: Vec<u8>,
}

/// A field that occurs exactly once per message of a page.
const FIELD_OF_MESSAGE: &[u8] = br#""message_id":"#;

impl PageLine {
    /// Connects to the server. `token` may be empty for calls that need no token.
    pub async fn open(to: SocketAddr, token: String) -> Result<PageLine, BenchError> {
        let stream = TcpStream::connect(to).await.map_err(client_failed)?;
        stream.set_nodelay(true).map_err(client_failed)?;
        Ok(PageLine { stream, host: to, token, answer: Vec::with_capacity(16 * 1024) })
    }

    /// Sends a GET request and returns the body. Returns an error if the status is not 200.
    pub async fn get(&mut self, path: &str) -> Result<&[u8], BenchError> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
            self.host, self.token
        );
        self.stream.write_all(request.as_bytes()).await.map_err(client_failed)?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await.map_err(client_failed)? == 0 {
                return Err(client_failed("the server closed a connection in the middle of an answer"));
            }
            if let Some(whole) = whole_answer(&self.answer)? {
                return Ok(&self.answer[whole]);
            }
        }
    }

    /// Returns the number of messages on the page at `path`.
    pub async fn messages(&mut self, path: &str) -> Result<usize, BenchError> {
        let body = self.get(path).await?;
        Ok(memchr::memmem::find_iter(body, FIELD_OF_MESSAGE).count())
    }
}

/// Returns the range of the body once the answer is complete, or `None` before.
fn whole_answer(bytes: &[u8]) -> Result<Option<std::ops::Range<usize>>, BenchError> {
    let Some(head) = memchr::memmem::find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes[..head]);
    if !text.starts_with("HTTP/1.1 200") {
        let status = text.lines().next().unwrap_or_default();
        return Err(client_failed(format!("unexpected answer that begins with {status}")));
    }
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok()).flatten()
    });
    let length = length.ok_or_else(|| client_failed("an answer without content-length"))?;
    let body = head + 4;
    Ok((bytes.len() >= body + length).then(|| body..body + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_is_complete_with_its_body() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        for cut in 0..answer.len() {
            assert_eq!(whole_answer(&answer[..cut]).unwrap(), None, "{cut}");
        }
        assert_eq!(whole_answer(answer).unwrap().map(|body| &answer[body]), Some(&b"{}"[..]));
    }

    #[test]
    fn response_other_than_200_is_an_error() {
        let error = whole_answer(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n").unwrap_err();
        assert!(error.to_string().contains("429"), "{error}");
    }
}
