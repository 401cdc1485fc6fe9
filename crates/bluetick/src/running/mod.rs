//! Calls the server that uses the data directory, over HTTP with the admin key.

pub mod certificate_note;
mod http_client;
pub mod trust;

use std::net::SocketAddr;

use bluetick_auth::AdminKey;
use rustls::pki_types::CertificateDer;
use serde_json::Value;

pub use self::http_client::{HttpClient, JsonResponse};
use crate::failure::Failure;
use crate::settings::Settings;

pub struct RunningServer {
    client: HttpClient,
}

impl RunningServer {
    pub fn open(settings: &Settings, address: SocketAddr) -> Result<RunningServer, Failure> {
        let data_dir = &settings.store.data_dir;
        let key = AdminKey::read(&settings.admin, data_dir)?.ok_or_else(|| {
            let file = AdminKey::file_in(data_dir);
            Failure::usage(format!(
                "a server on {address} uses the data directory, and its admin key is not in {}; \
                 set BLUETICK_ADMIN__KEY to the key that the server was started with",
                file.display()
            ))
        })?;
        let client = HttpClient::new(address, key);
        let known = certificates(settings)?;
        let client = if known.is_empty() { client } else { client.with_tls(trust::shown(known)?, None) };
        Ok(RunningServer { client })
    }

    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<JsonResponse, Failure> {
        self.client.call(method, path, body).map_err(|error| {
            Failure::failed(format!("the server on {} did not answer: {error}", self.client.address()))
        })
    }
}

/// The certificates to trust: the one that the server announced, and the one in the settings, which
/// it loads next. Empty if the server uses no TLS.
fn certificates(settings: &Settings) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let data_dir = &settings.store.data_dir;
    let noted = certificate_note::read(data_dir)
        .map_err(|error| Failure::failed(format!("cannot read in {}: {error}", data_dir.display())))?;
    let in_force = noted.map(CertificateDer::from);
    let in_file = settings.server.tls.certificate_file.as_deref().map(trust::certificate_in);
    match (in_force, in_file) {
        (None, in_file) => Ok(in_file.transpose()?.into_iter().collect()),
        // Ignore an unreadable file: it may be replaced at this moment.
        (Some(in_force), in_file) => {
            Ok([Some(in_force), in_file.and_then(Result::ok)].into_iter().flatten().collect())
        }
    }
}

/// The failure for an answer that the caller does not handle.
pub fn refused(answer: &JsonResponse) -> Failure {
    let message = reason(answer);
    match answer.status {
        401 => Failure::usage(format!("the running server does not accept this admin key: {message}")),
        403 => Failure::usage(format!("the running server refused: {message}")),
        status => Failure::failed(format!("the running server answered {status}: {message}")),
    }
}

/// The error message of the server.
pub fn reason(answer: &JsonResponse) -> &str {
    answer.body["error"]["message"].as_str().unwrap_or("no reason was given")
}
