//! Optional TLS below the handshake by the fleet key. It adds forward secrecy and hides node ids.
//!
//! The fleet key authenticates both nodes in any case, so clients need no certificate.

use std::io;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A byte stream: TCP, with or without TLS.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<Stream: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for Stream {}

/// The certificates of a node, in PEM. All nodes of a fleet use TLS, or none does.
#[derive(Clone)]
pub struct ClusterTlsSettings {
    /// The certificate of this node, then its intermediate ones.
    pub certificate_chain: Vec<u8>,
    pub key: Vec<u8>,
    /// The certificates that sign the ones of other nodes.
    pub roots: Vec<u8>,
    /// The name in the certificates of all nodes.
    pub server_name: String,
}

/// The TLS configuration in both directions.
pub(super) struct ClusterTls {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    server_name: ServerName<'static>,
}

impl ClusterTls {
    pub fn new(settings: &ClusterTlsSettings) -> io::Result<ClusterTls> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
        let certificates = |pem: &[u8]| CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
        let chain = certificates(&settings.certificate_chain).map_err(|_| invalid("cluster certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(&settings.key).map_err(|_| invalid("cluster key"))?;
        let mut roots = RootCertStore::empty();
        for root in certificates(&settings.roots).map_err(|_| invalid("cluster roots"))? {
            roots.add(root).map_err(io::Error::other)?;
        }
        let provider = Arc::new(ring::default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .and_then(|server| server.with_no_client_auth().with_single_cert(chain, key))
            .map_err(io::Error::other)?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server_name = ServerName::try_from(settings.server_name.clone());
        Ok(ClusterTls {
            acceptor: TlsAcceptor::from(Arc::new(server)),
            connector: TlsConnector::from(Arc::new(client)),
            server_name: server_name.map_err(|_| invalid("cluster server name"))?,
        })
    }
}

/// Prepares a connection that this node has accepted.
pub(super) async fn accept(tls: Option<&ClusterTls>, tcp: TcpStream) -> io::Result<Box<dyn ByteStream>> {
    tcp.set_nodelay(true)?;
    Ok(match tls {
        Some(tls) => Box::new(tls.acceptor.accept(tcp).await?),
        None => Box::new(tcp),
    })
}

/// Opens a connection.
pub(super) async fn connect(tls: Option<&ClusterTls>, address: &str) -> io::Result<Box<dyn ByteStream>> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    Ok(match tls {
        Some(tls) => Box::new(tls.connector.connect(tls.server_name.clone(), tcp).await?),
        None => Box::new(tcp),
    })
}
