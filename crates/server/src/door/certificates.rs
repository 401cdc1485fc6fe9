//! The certificate and key that the server shows to those who come with TLS, and how new ones take the place of old
//! ones while it runs. A connection keeps what it was greeted with.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, SystemTime};

use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::settings::{TlsSettings, seconds};

/// Why there can be no TLS with these files.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error(
        "server.tls.certificate_file and server.tls.key_file belong together, and only one of them is set"
    )]
    HalfSet,
    #[error("cannot read {} ({setting}): {source}", path.display())]
    Unreadable { setting: &'static str, path: PathBuf, source: io::Error },
    #[error("there is no certificate in {} (server.tls.certificate_file): a PEM file with the server's own first is expected", .0.display())]
    NoCertificate(PathBuf),
    #[error("there is no key in {} (server.tls.key_file): a PEM file with a private key that has no password is expected", .0.display())]
    NoKey(PathBuf),
    #[error("the key in {} (server.tls.key_file) does not belong to the first certificate in {} (server.tls.certificate_file)", key.display(), certificate.display())]
    NotAPair { certificate: PathBuf, key: PathBuf },
    #[error("the certificate in {} (server.tls.certificate_file) cannot be used: {reason}", path.display())]
    Unusable { path: PathBuf, reason: rustls::Error },
}

struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// When a file changed last, and its length, where it is there at all.
type Trace = Option<(SystemTime, u64)>;

pub(crate) struct Certificates {
    files: Files,
    look_every: Option<Duration>,
    shown: RwLock<Arc<ServerConfig>>,
    /// What the files were like when they were last read, whether that went well or not.
    read: Mutex<[Trace; 2]>,
}

impl Certificates {
    /// `None` where the server is to speak without TLS.
    pub fn open(settings: &TlsSettings) -> Result<Option<Certificates>, TlsError> {
        let (certificate, key) = match (&settings.certificate_file, &settings.key_file) {
            (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
            (None, None) => return Ok(None),
            _ => return Err(TlsError::HalfSet),
        };
        let files = Files { certificate, key };
        let read = Mutex::new(files.traces());
        let shown = RwLock::new(Arc::new(files.read()?));
        Ok(Some(Certificates { files, look_every: seconds(settings.reload_seconds), shown, read }))
    }

    pub async fn greet(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let shown = Arc::clone(&self.shown.read().expect("nothing panics while it holds the lock"));
        TlsAcceptor::from(shown).accept(stream).await
    }

    /// Reads the files again. Where they cannot be used, what is shown stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let traces = self.files.traces();
        self.reread(traces)
    }

    /// Reads the files again if they are others than the last time.
    fn reload_if_changed(&self) {
        let traces = self.files.traces();
        if *self.read.lock().expect("nothing panics while it holds the lock") != traces {
            // The log has been told.
            let _unusable = self.reread(traces);
        }
    }

    /// The traces are older than what is read, so that a change in between is found the next time.
    fn reread(&self, traces: [Trace; 2]) -> Result<(), TlsError> {
        *self.read.lock().expect("nothing panics while it holds the lock") = traces;
        let certificate = self.files.certificate.display();
        match self.files.read() {
            Ok(config) => {
                *self.shown.write().expect("nothing panics while it holds the lock") = Arc::new(config);
                tracing::info!(%certificate, "the certificate was read again; new connections are shown it");
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, "the new certificate cannot be used; the old one stays");
                Err(error)
            }
        }
    }

    /// Looks at the files now and then, for ever.
    pub async fn keep_fresh(self: Arc<Self>) {
        let Some(look_every) = self.look_every else { return };
        loop {
            tokio::time::sleep(look_every).await;
            let certificates = Arc::clone(&self);
            // Files may lie where reading takes its time.
            let _ = tokio::task::spawn_blocking(move || certificates.reload_if_changed()).await;
        }
    }
}

impl Files {
    fn traces(&self) -> [Trace; 2] {
        [&self.certificate, &self.key].map(|path| {
            let known = fs::metadata(path).ok()?;
            Some((known.modified().ok()?, known.len()))
        })
    }

    fn read(&self) -> Result<ServerConfig, TlsError> {
        let chain = content("server.tls.certificate_file", &self.certificate)?;
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&chain)
            .collect::<Result<_, _>>()
            .map_err(|_| TlsError::NoCertificate(self.certificate.clone()))?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate(self.certificate.clone()));
        }
        let key = content("server.tls.key_file", &self.key)?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| TlsError::NoKey(self.key.clone()))?;
        config(chain, key).map_err(|reason| match reason {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::NotAPair { certificate: self.certificate.clone(), key: self.key.clone() }
            }
            reason => TlsError::Unusable { path: self.certificate.clone(), reason },
        })
    }
}

fn content(setting: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Unreadable { setting, path: path.into(), source })
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Whoever comes back is let in without the dear part, and the server remembers nobody for that.
    config.ticketer = ring::Ticketer::new()?;
    Ok(config)
}
