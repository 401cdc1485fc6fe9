//! Transport: the server's address and a byte stream to it, plain or TLS. The protocols on top
//! belong to `link` and `http`.

use std::io;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Timeout for the TCP connection and the TLS handshake together. It must be shorter than the
/// timeouts of `link` and `http`.
const DIAL: Duration = Duration::from_secs(10);

/// The base URL of a server, such as `https://chat.example.org`. Parse it from a string with
/// `http`, `https`, `ws` or `wss`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    secure: bool,
    /// Host name or IP address. An IPv6 address has no brackets.
    host: String,
    port: u16,
    /// Path in front of `/v1`, without a trailing slash. Usually empty.
    base_path: String,
}

/// Why a text is not a usable [`ServerUrl`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidUrl {
    #[error("a server's address looks like http://127.0.0.1:8080 or https://chat.example.org")]
    Shape,
    #[error("this program was built without TLS, so https is not possible")]
    NoTls,
}

impl ServerUrl {
    /// The value of the `Host` header: the host, and the port if it is not the default one.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual_port = if self.secure { 443 } else { 80 };
        if self.port == usual_port { host } else { format!("{host}:{}", self.port) }
    }

    pub(crate) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.base_path)
    }

    pub(crate) fn websocket(&self) -> String {
        let scheme = if self.secure { "wss" } else { "ws" };
        format!("{scheme}://{}{}", self.authority(), self.path("/v1/ws"))
    }
}

impl std::fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.base_path)
    }
}

impl FromStr for ServerUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<ServerUrl, InvalidUrl> {
        let (scheme, rest) = text.trim().split_once("://").ok_or(InvalidUrl::Shape)?;
        let secure = match scheme {
            "http" | "ws" => false,
            "https" | "wss" => true,
            _ => return Err(InvalidUrl::Shape),
        };
        if secure && !cfg!(feature = "tls") {
            return Err(InvalidUrl::NoTls);
        }
        let (authority, base_path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => bracketed.split_once(']').ok_or(InvalidUrl::Shape)?,
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| InvalidUrl::Shape)?,
            None if port.is_empty() => {
                if secure {
                    443
                } else {
                    80
                }
            }
            None => return Err(InvalidUrl::Shape),
        };
        let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && !"@?#\"<>\\".contains(c);
        if host.is_empty() || !host.chars().all(is_plain) || !base_path.chars().all(is_plain) {
            return Err(InvalidUrl::Shape);
        }
        let base_path = base_path.trim_end_matches('/').to_owned();
        Ok(ServerUrl { secure, host: host.to_owned(), port, base_path })
    }
}

/// A server URL with the TLS configuration to reach it. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    pub url: ServerUrl,
    #[cfg(feature = "tls")]
    tls: Option<tokio_rustls::TlsConnector>,
}

impl Server {
    /// Trusts the root certificates of the operating system. Fails for an `https` URL if there are
    /// none.
    pub fn new(url: ServerUrl) -> io::Result<Server> {
        Ok(Server {
            #[cfg(feature = "tls")]
            tls: if url.secure { Some(tls::connector()?) } else { None },
            url,
        })
    }

    /// Trusts only the given root certificates (PEM). Fails for an `https` URL if they do not parse
    /// or there are none.
    #[cfg(feature = "tls")]
    pub fn trusting(url: ServerUrl, roots_pem: &[u8]) -> io::Result<Server> {
        Ok(Server { tls: if url.secure { Some(tls::connector_of(roots_pem)?) } else { None }, url })
    }

    pub(crate) async fn dial(&self) -> io::Result<Stream> {
        timeout(DIAL, self.dial_patiently()).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    async fn dial_patiently(&self) -> io::Result<Stream> {
        let stream = TcpStream::connect((self.url.host.as_str(), self.url.port)).await?;
        stream.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls::wrap(tls, &self.url.host, stream).await;
        }
        Ok(Stream::Plain(stream))
    }
}

#[cfg(feature = "tls")]
mod tls {
    use std::io;
    use std::sync::Arc;

    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::Stream;

    /// Loads the root certificates of the operating system. They include an operator's private CA,
    /// which a list compiled into the program would not.
    pub fn connector() -> io::Result<TlsConnector> {
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(io::Error::other(
                "this machine has no root certificates; set SSL_CERT_FILE to a file with some",
            ));
        }
        trusting(roots)
    }

    pub fn connector_of(roots_pem: &[u8]) -> io::Result<TlsConnector> {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(roots_pem) {
            roots.add(root.map_err(io::Error::other)?).map_err(io::Error::other)?;
        }
        if roots.is_empty() {
            return Err(io::Error::other("there are no root certificates in it"));
        }
        trusting(roots)
    }

    fn trusting(roots: RootCertStore) -> io::Result<TlsConnector> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(TlsConnector::from(Arc::new(config)))
    }

    pub async fn wrap(connector: &TlsConnector, host: &str, stream: TcpStream) -> io::Result<Stream> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(connector.connect(name, stream).await?)))
    }
}

/// A connected byte stream, plain or TLS.
pub enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

macro_rules! either {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Plain($stream) => $call,
            #[cfg(feature = "tls")]
            Stream::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_address_accepts_common_spellings() {
        for (text, shown, websocket) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080", "ws://127.0.0.1:8080/v1/ws"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080", "ws://127.0.0.1:8080/v1/ws"),
            ("http://localhost:80", "http://localhost", "ws://localhost/v1/ws"),
            ("http://[::1]:81/chat/", "http://[::1]:81/chat", "ws://[::1]:81/chat/v1/ws"),
            #[cfg(feature = "tls")]
            ("https://chat.example.org", "https://chat.example.org", "wss://chat.example.org/v1/ws"),
        ] {
            let url: ServerUrl = text.parse().unwrap();
            assert_eq!((url.to_string().as_str(), url.websocket().as_str()), (shown, websocket));
        }
    }

    #[test]
    fn invalid_server_address_is_refused() {
        for bad in [
            "",
            "localhost",
            "ftp://x",
            "http://",
            "http://:80",
            "http://x:99999",
            "http://a b",
            "http://[::1",
        ] {
            assert_eq!(bad.parse::<ServerUrl>(), Err(InvalidUrl::Shape), "{bad}");
        }
    }
}
