//! The certificate and key that the server shows to those who come with TLS, and how new ones take the place of old
//! ones while it runs. A connection keeps what it was greeted with.

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

/// What is in the files: a pair that fits.
struct Pair {
    config: ServerConfig,
    certificate: CertificateDer<'static>,
}

/// When a file changed last, and its length, where it is there at all.
type Trace = Option<(SystemTime, u64)>;

pub(crate) struct Certificates {
    files: Files,
    look_every: Option<Duration>,
    shown: RwLock<Arc<ServerConfig>>,
    /// The certificate of what is shown, for those who have to know it by sight.
    certificate: watch::Sender<Arc<[u8]>>,
    /// What the log was last told about its days.
    told: Mutex<Option<OutOfDate>>,
    clock: Arc<dyn Clock>,
    /// What the files were like when they were last read, whether that went well or not.
    read: Mutex<[Trace; 2]>,
}

impl Certificates {
    /// `None` where the server is to speak without TLS.
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

    /// The certificate that new connections are shown, in DER, and each that takes its place.
    pub fn watch(&self) -> watch::Receiver<Arc<[u8]>> {
        self.certificate.subscribe()
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
            Ok(pair) => {
                *self.shown.write().expect("nothing panics while it holds the lock") = Arc::new(pair.config);
                self.certificate.send_replace(pair.certificate.as_ref().into());
                tracing::info!(%certificate, "the certificate was read again; new connections are shown it");
                // A new one, of which nothing was said yet.
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

    /// Clients refuse such a certificate, so whoever runs the server should hear of it before they do; once, since it is
    /// looked at all the time.
    fn tell_if_out_of_date(&self) {
        let judged = Validity::of(&self.certificate.borrow()).and_then(|days| days.judge(self.clock.now()));
        let mut told = self.told.lock().expect("nothing panics while it holds the lock");
        if let Some(judged) = judged.filter(|judged| *told != Some(*judged)) {
            tracing::error!("{}", self.files.complaint(judged));
        }
        *told = judged;
    }

    /// Looks at the files now and then, for ever.
    pub async fn keep_fresh(self: Arc<Self>) {
        let Some(look_every) = self.look_every else { return };
        loop {
            tokio::time::sleep(look_every).await;
            let certificates = Arc::clone(&self);
            // Files may lie where reading takes its time.
            let _ = tokio::task::spawn_blocking(move || {
                certificates.reload_if_changed();
                certificates.tell_if_out_of_date();
            })
            .await;
        }
    }
}

/// What a server with these settings would say about its certificate and serve all the same; an error is what would
/// keep it from starting.
pub fn tls_advice(settings: &TlsSettings, now: Timestamp) -> Result<Option<String>, TlsError> {
    let Some(files) = Files::of(settings)? else { return Ok(None) };
    let pair = files.read()?;
    let judged = Validity::of(&pair.certificate).and_then(|days| days.judge(now));
    Ok(judged.map(|judged| files.complaint(judged)))
}

impl Files {
    /// `None` where neither is set.
    fn of(settings: &TlsSettings) -> Result<Option<Files>, TlsError> {
        match (&settings.certificate_file, &settings.key_file) {
            (Some(certificate), Some(key)) => {
                Ok(Some(Files { certificate: certificate.clone(), key: key.clone() }))
            }
            (None, None) => Ok(None),
            _ => Err(TlsError::HalfSet),
        }
    }

    fn complaint(&self, judged: OutOfDate) -> String {
        let why = match judged {
            OutOfDate::NotYet => "is not valid yet",
            OutOfDate::Expired => "has expired",
        };
        let file = self.certificate.display();
        format!("the certificate in {file} (server.tls.certificate_file) {why}: clients refuse it")
    }

    fn traces(&self) -> [Trace; 2] {
        [&self.certificate, &self.key].map(|path| {
            let known = fs::metadata(path).ok()?;
            Some((known.modified().ok()?, known.len()))
        })
    }

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
    // Whoever comes back is let in without the dear part, and the server remembers nobody for that.
    config.ticketer = ring::Ticketer::new()?;
    Ok(config)
}
