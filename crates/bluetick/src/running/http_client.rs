//! A minimal HTTP/1.1 client for servers on this machine, with optional TLS. It sends one request
//! per connection and follows no redirects.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bluetick_server::audit::CommandLine;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::Value;

use crate::banner::reachable;

/// Bounds connecting, and each read and write. A shorter time fails requests to a busy server.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Bounds the size of an answer in memory. Answers have a few hundred bytes; larger ones are cut.
const MAX_ANSWER_BYTES: u64 = 1024 * 1024;
/// The first byte of a TLS alert, with which a TLS server answers a plaintext request.
const TLS_ALERT: u8 = 0x15;

pub struct HttpClient {
    address: SocketAddr,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    admin_key: Option<String>,
    timeout: Duration,
}

pub struct JsonResponse {
    pub status: u16,
    /// `null` if the answer has no body or the body is not JSON.
    pub body: Value,
}

impl HttpClient {
    pub fn new(address: SocketAddr, admin_key: String) -> HttpClient {
        HttpClient { address: reachable(address), tls: None, admin_key: Some(admin_key), timeout: TIMEOUT }
    }

    /// A client for requests that need no admin key.
    pub fn without_key(address: SocketAddr, timeout: Duration) -> HttpClient {
        HttpClient { address: reachable(address), tls: None, admin_key: None, timeout }
    }

    /// Uses TLS and verifies the server by `trust`. The server name defaults to the IP address.
    pub fn with_tls(self, trust: Arc<ClientConfig>, name: Option<ServerName<'static>>) -> HttpClient {
        let name = name.unwrap_or_else(|| self.address.ip().into());
        HttpClient { tls: Some((trust, name)), ..self }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<JsonResponse> {
        let body = body.map(Value::to_string).unwrap_or_default();
        // The header names the person at the command line, for the audit trail of the server.
        let authorization = self.admin_key.as_ref().map(|key| {
            let whose = CommandLine::of_this_process().in_a_header();
            format!("authorization: Bearer {key}\r\n{}: {whose}\r\n", CommandLine::HEADER)
        });
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\n{}content-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.address,
            authorization.unwrap_or_default(),
            body.len(),
        );
        let mut stream = TcpStream::connect_timeout(&self.address, self.timeout)?;
        stream.set_read_timeout(Some(self.timeout))?;
        stream.set_write_timeout(Some(self.timeout))?;
        let answer = match &self.tls {
            None => exchange(&mut stream, &request)?,
            Some((trust, name)) => {
                let tls = ClientConnection::new(Arc::clone(trust), name.clone()).map_err(io::Error::other)?;
                exchange(&mut StreamOwned::new(tls, stream), &request)?
            }
        };
        parse(&answer).ok_or_else(|| {
            let reason = match answer.first() {
                Some(&TLS_ALERT) if self.tls.is_none() => {
                    "the server uses TLS, but these settings do not (server.tls.certificate_file)"
                }
                _ => "the answer is not HTTP",
            };
            io::Error::new(io::ErrorKind::InvalidData, reason)
        })
    }
}

fn exchange(stream: &mut (impl Read + Write), request: &str) -> io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
    Ok(answer)
}

fn parse(answer: &[u8]) -> Option<JsonResponse> {
    let head_end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..head_end]).ok()?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let body = serde_json::from_slice(&answer[head_end + 4..]).unwrap_or_default();
    Some(JsonResponse { status, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_response_is_parsed_into_status_and_json() {
        let answer = parse(b"HTTP/1.1 201 Created\r\ncontent-length: 7\r\n\r\n{\"a\":1}").unwrap();
        assert_eq!((answer.status, answer.body["a"].as_i64()), (201, Some(1)));
        assert_eq!(parse(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().body, Value::Null);
        for broken in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 2\r\n\r\n",
            "SSH-2.0\r\n\r\n",
            "HTTP/1.1 \u{e9}\u{e9}\r\n\r\n",
        ] {
            assert!(parse(broken.as_bytes()).is_none(), "{broken}");
        }
    }
}
