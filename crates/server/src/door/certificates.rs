//! The TLS certificate and key, and how the server reloads them while it runs. A reload affects new
//! connections only.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, SystemTime};

use bluetick_core::Timestamp;
use bluetick_core::time::Clock;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use super::validity::{OutOfDate, Validity};
use crate::settings::{TlsSettings, seconds};

/// Why the configured TLS files cannot be used.
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

/// The configured paths.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// The content of the files: a certificate and its matching key.
struct Pair {
    config: ServerConfig,
    certificate: CertificateDer<'static>,
}

/// Modification time and length of a file; `None` if the file cannot be read.
type Trace = Option<(SystemTime, u64)>;

/// The current TLS configuration, and the files it was read from.
pub(crate) struct Certificates {
    files: Files,
    /// Interval of the check for changed files; `None` disables it.
    look_every: Option<Duration>,
    /// The configuration for new connections.
    shown: RwLock<Arc<ServerConfig>>,
    /// The certificate of `shown` in DER, for clients that pin it.
    certificate: watch::Sender<Arc<[u8]>>,
    /// The validity problem that was logged last.
    told: Mutex<Option<OutOfDate>>,
    clock: Arc<dyn Clock>,
    /// State of the two files before the last read, successful or not.
    read: Mutex<[Trace; 2]>,
}

impl Certificates {
    /// Reads the configured files. Returns `None` if TLS is not configured. Logs a certificate that
    /// is expired or not yet valid, and uses it.
    pub fn open(settings: &TlsSettings, clock: Arc<dyn Clock>) -> Result<Option<Certificates>, TlsError> {
        let Some(files) = Files::of(settings)? else { return Ok(None) };
        let read = Mutex::new(files.traces());
        let pair = files.read()?;
        let certificates = Certificates {
            files,
            look_every: seconds(settings.reload_seconds),
            shown: RwLock::new(Arc::new(pair.config)),
            certificate: watch::Sender::new(pair.certificate.as_ref().into()),
            told: Mutex::new(None),
            clock,
            read,
        };
        certificates.tell_if_out_of_date();
        Ok(Some(certificates))
    }

    /// Watches the certificate of new connections, in DER.
    pub fn watch(&self) -> watch::Receiver<Arc<[u8]>> {
        self.certificate.subscribe()
    }

    /// Performs the TLS handshake with the current certificate.
    pub async fn greet(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let shown = Arc::clone(&self.shown.read().expect("nothing panics while it holds the lock"));
        TlsAcceptor::from(shown).accept(stream).await
    }

    /// Reads the files again. If they are not usable, the current certificate stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let traces = self.files.traces();
        self.reread(traces)
    }

    /// Reads the files again if their modification time or length has changed.
    fn reload_if_changed(&self) {
        let traces = self.files.traces();
        if *self.read.lock().expect("nothing panics while it holds the lock") != traces {
            // `reread` has logged the error.
            let _unusable = self.reread(traces);
        }
    }

    /// Reads the files and replaces the configuration. The caller takes `traces` before the read,
    /// so that the next check notices a change during the read. Returns and logs the error if the
    /// files are not usable.
    fn reread(&self, traces: [Trace; 2]) -> Result<(), TlsError> {
        *self.read.lock().expect("nothing panics while it holds the lock") = traces;
        let certificate = self.files.certificate.display();
        match self.files.read() {
            Ok(pair) => {
                *self.shown.write().expect("nothing panics while it holds the lock") = Arc::new(pair.config);
                self.certificate.send_replace(pair.certificate.as_ref().into());
                tracing::info!(%certificate, "the certificate was read again; new connections are shown it");
                // The problem of the old certificate says nothing about the new one.
                *self.told.lock().expect("nothing panics while it holds the lock") = None;
                self.tell_if_out_of_date();
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, "the new certificate cannot be used; the old one stays");
                Err(error)
            }
        }
    }

    /// Logs a certificate that is expired or not yet valid, once per problem. Clients refuse such a
    /// certificate.
    fn tell_if_out_of_date(&self) {
        let judged = Validity::of(&self.certificate.borrow()).and_then(|days| days.judge(self.clock.now()));
        let mut told = self.told.lock().expect("nothing panics while it holds the lock");
        if let Some(judged) = judged.filter(|judged| *told != Some(*judged)) {
            tracing::error!("{}", self.files.complaint(judged));
        }
        *told = judged;
    }

    /// Checks the files and the validity at every interval. Never returns, unless the interval is
    /// 0.
    pub async fn keep_fresh(self: Arc<Self>) {
        let Some(look_every) = self.look_every else { return };
        loop {
            tokio::time::sleep(look_every).await;
            let certificates = Arc::clone(&self);
            // Reading can block for long, for example on a network file system.
            let _ = tokio::task::spawn_blocking(move || {
                certificates.reload_if_changed();
                certificates.tell_if_out_of_date();
            })
            .await;
        }
    }
}

/// Checks the TLS settings without starting a server. Returns a warning about a certificate that
/// the server would use although clients refuse it. Returns an error if the server could not start.
pub fn tls_advice(settings: &TlsSettings, now: Timestamp) -> Result<Option<String>, TlsError> {
    let Some(files) = Files::of(settings)? else { return Ok(None) };
    let pair = files.read()?;
    let judged = Validity::of(&pair.certificate).and_then(|days| days.judge(now));
    Ok(judged.map(|judged| files.complaint(judged)))
}

impl Files {
    /// Returns `None` if neither file is configured, and an error if only one is.
    fn of(settings: &TlsSettings) -> Result<Option<Files>, TlsError> {
        match (&settings.certificate_file, &settings.key_file) {
            (Some(certificate), Some(key)) => {
                Ok(Some(Files { certificate: certificate.clone(), key: key.clone() }))
            }
            (None, None) => Ok(None),
            _ => Err(TlsError::HalfSet),
        }
    }

    /// Formats the warning about the validity of the certificate.
    fn complaint(&self, judged: OutOfDate) -> String {
        let why = match judged {
            OutOfDate::NotYet => "is not valid yet",
            OutOfDate::Expired => "has expired",
        };
        let file = self.certificate.display();
        format!("the certificate in {file} (server.tls.certificate_file) {why}: clients refuse it")
    }

    /// Returns the current modification times and lengths.
    fn traces(&self) -> [Trace; 2] {
        [&self.certificate, &self.key].map(|path| {
            let known = fs::metadata(path).ok()?;
            Some((known.modified().ok()?, known.len()))
        })
    }

    /// Reads both files and builds the TLS configuration.
    fn read(&self) -> Result<Pair, TlsError> {
        let chain = content("server.tls.certificate_file", &self.certificate)?;
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&chain)
            .collect::<Result<_, _>>()
            .map_err(|_| TlsError::NoCertificate(self.certificate.clone()))?;
        let Some(certificate) = chain.first().cloned() else {
            return Err(TlsError::NoCertificate(self.certificate.clone()));
        };
        let key = content("server.tls.key_file", &self.key)?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| TlsError::NoKey(self.key.clone()))?;
        let config = config(chain, key).map_err(|reason| match reason {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::NotAPair { certificate: self.certificate.clone(), key: self.key.clone() }
            }
            reason => TlsError::Unusable { path: self.certificate.clone(), reason },
        })?;
        Ok(Pair { config, certificate })
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
    // Session tickets let returning clients skip the expensive part of the handshake, without state
    // on the server.
    config.ticketer = ring::Ticketer::new()?;
    Ok(config)
}
