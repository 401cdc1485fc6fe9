//! The TLS certificate and key, and how the server reloads them while it runs. A reload affects new
//! connections only.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bluetick_core::Timestamp;
use bluetick_core::time::Clock;
use parking_lot::{Mutex, RwLock};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;
use tokio_util::task::TaskTracker;

use super::validity::{CertificateValidity, ValidityProblem};
use crate::settings::{TlsSettings, seconds};

/// Why the configured TLS files cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error(
        "server.tls.certificate_file and server.tls.key_file must be set together, and only one of them is set"
    )]
    HalfSet,
    #[error("cannot read {} ({setting}): {source}", path.display())]
    Unreadable { setting: &'static str, path: PathBuf, source: io::Error },
    #[error("there is no certificate in {} (server.tls.certificate_file); expected a PEM file that starts with the server's own certificate", .0.display())]
    NoCertificate(PathBuf),
    #[error("there is no key in {} (server.tls.key_file); expected a PEM file with an unencrypted private key", .0.display())]
    NoKey(PathBuf),
    #[error("the key in {} (server.tls.key_file) does not belong to the first certificate in {} (server.tls.certificate_file)", key.display(), certificate.display())]
    NotAPair { certificate: PathBuf, key: PathBuf },
    #[error("the certificate in {} (server.tls.certificate_file) cannot be used: {reason}", path.display())]
    Unusable { path: PathBuf, reason: rustls::Error },
}

/// The configured paths.
struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
}

/// The content of the files: a certificate and its matching key.
struct LoadedCertificate {
    config: ServerConfig,
    certificate: CertificateDer<'static>,
}

/// Modification time and length of a file; `None` if the file cannot be read.
type FileStamp = Option<(SystemTime, u64)>;

/// The current TLS configuration, and the files it was read from.
pub(crate) struct Certificates {
    files: CertificateFiles,
    /// Interval of the check for changed files; `None` disables it.
    check_interval: Option<Duration>,
    /// The configuration for new connections.
    config: RwLock<Arc<ServerConfig>>,
    /// The certificate of `config` in DER, for clients that pin it.
    certificate: watch::Sender<Arc<[u8]>>,
    /// The validity problem that was logged last.
    reported: Mutex<Option<ValidityProblem>>,
    clock: Arc<dyn Clock>,
    /// State of the two files before the last read, successful or not.
    last_read: Mutex<[FileStamp; 2]>,
    /// Running reads of the files, on blocking threads.
    reads: TaskTracker,
}

impl Certificates {
    /// Reads the configured files. Returns `None` if TLS is not configured. Logs a certificate that
    /// is expired or not yet valid, and uses it.
    pub fn open(settings: &TlsSettings, clock: Arc<dyn Clock>) -> Result<Option<Certificates>, TlsError> {
        let Some(files) = CertificateFiles::of(settings)? else { return Ok(None) };
        let last_read = Mutex::new(files.file_stamps());
        let loaded = files.read()?;
        let certificates = Certificates {
            files,
            check_interval: seconds(settings.reload_seconds),
            config: RwLock::new(Arc::new(loaded.config)),
            certificate: watch::Sender::new(loaded.certificate.as_ref().into()),
            reported: Mutex::new(None),
            clock,
            last_read,
            reads: TaskTracker::new(),
        };
        certificates.log_if_not_valid();
        Ok(Some(certificates))
    }

    /// Watches the certificate of new connections, in DER.
    pub fn watch(&self) -> watch::Receiver<Arc<[u8]>> {
        self.certificate.subscribe()
    }

    /// Performs the TLS handshake with the current certificate.
    pub async fn handshake(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let config = Arc::clone(&self.config.read());
        TlsAcceptor::from(config).accept(stream).await
    }

    /// Reads the files again on a blocking thread. If they are not usable, the current certificate
    /// stays in use. Returns the error message.
    pub async fn reload_in_background(self: &Arc<Self>) -> Result<(), String> {
        let certificates = Arc::clone(self);
        let read =
            self.reads.spawn_blocking(move || certificates.reload().map_err(|error| error.to_string()));
        read.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Waits until no read of the files is running. Call it after the periodic task has ended.
    pub async fn reads_ended(&self) {
        self.reads.close();
        self.reads.wait().await;
    }

    /// Reads the files again. If they are not usable, the current certificate stays in use.
    fn reload(&self) -> Result<(), TlsError> {
        let file_stamps = self.files.file_stamps();
        self.reread(file_stamps)
    }

    /// Reads the files again if their modification time or length has changed.
    fn reload_if_changed(&self) {
        let file_stamps = self.files.file_stamps();
        if *self.last_read.lock() != file_stamps {
            // `reread` has logged the error.
            let _unusable = self.reread(file_stamps);
        }
    }

    /// Reads the files and replaces the configuration. The caller takes `file_stamps` before the
    /// read, so that the next check notices a change during the read. Returns and logs the error if
    /// the files are not usable.
    fn reread(&self, file_stamps: [FileStamp; 2]) -> Result<(), TlsError> {
        *self.last_read.lock() = file_stamps;
        let certificate = self.files.certificate.display();
        match self.files.read() {
            Ok(loaded) => {
                *self.config.write() = Arc::new(loaded.config);
                self.certificate.send_replace(loaded.certificate.as_ref().into());
                tracing::info!(%certificate, "certificate reloaded");
                // Log a problem of the new certificate even if the old one had the same problem.
                *self.reported.lock() = None;
                self.log_if_not_valid();
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, "certificate reload failed; the current certificate stays in use");
                Err(error)
            }
        }
    }

    /// Logs a certificate that is expired or not yet valid, once per problem. Clients refuse such a
    /// certificate.
    fn log_if_not_valid(&self) {
        let problem = CertificateValidity::of(&self.certificate.borrow())
            .and_then(|days| days.problem_at(self.clock.now()));
        let mut reported = self.reported.lock();
        if let Some(problem) = problem.filter(|problem| *reported != Some(*problem)) {
            let problem = self.files.warning(problem);
            tracing::error!(problem, "TLS certificate is outside its validity period");
        }
        *reported = problem;
    }

    /// Checks the files and the validity at every interval. Never returns, unless the interval is
    /// 0.
    pub async fn watch_files(self: Arc<Self>) {
        let Some(check_interval) = self.check_interval else { return };
        loop {
            tokio::time::sleep(check_interval).await;
            let certificates = Arc::clone(&self);
            // Reading can block for long, for example on a network file system.
            let check = self.reads.spawn_blocking(move || {
                certificates.reload_if_changed();
                certificates.log_if_not_valid();
            });
            // The panic hook has logged a panic of the check.
            let _ = check.await;
        }
    }
}

/// Checks the TLS settings without starting a server. Returns a warning about a certificate that
/// the server would use although clients refuse it. Returns an error if the server could not start.
pub fn tls_advice(settings: &TlsSettings, now: Timestamp) -> Result<Option<String>, TlsError> {
    let Some(files) = CertificateFiles::of(settings)? else { return Ok(None) };
    let loaded = files.read()?;
    let problem = CertificateValidity::of(&loaded.certificate).and_then(|days| days.problem_at(now));
    Ok(problem.map(|problem| files.warning(problem)))
}

impl CertificateFiles {
    /// Returns `None` if neither file is configured, and an error if only one is.
    fn of(settings: &TlsSettings) -> Result<Option<CertificateFiles>, TlsError> {
        match (&settings.certificate_file, &settings.key_file) {
            (Some(certificate), Some(key)) => {
                Ok(Some(CertificateFiles { certificate: certificate.clone(), key: key.clone() }))
            }
            (None, None) => Ok(None),
            _ => Err(TlsError::HalfSet),
        }
    }

    /// Formats the warning about the validity of the certificate.
    fn warning(&self, problem: ValidityProblem) -> String {
        let why = match problem {
            ValidityProblem::NotYetValid => "is not valid yet",
            ValidityProblem::Expired => "has expired",
        };
        let file = self.certificate.display();
        format!("the certificate in {file} (server.tls.certificate_file) {why}: clients refuse it")
    }

    /// Returns the current modification times and lengths.
    fn file_stamps(&self) -> [FileStamp; 2] {
        [&self.certificate, &self.key].map(|path| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        })
    }

    /// Reads both files and builds the TLS configuration.
    fn read(&self) -> Result<LoadedCertificate, TlsError> {
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
        Ok(LoadedCertificate { config, certificate })
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
