//! The server that is using the data directory, asked over HTTP with the admin key.

mod http_client;
pub mod trust;

use std::net::SocketAddr;

use bluetick_auth::AdminKey;
use serde_json::Value;

pub use self::http_client::{Answer, Client};
use crate::failure::Failure;
use crate::settings::Settings;

pub struct RunningServer {
    client: Client,
}

impl RunningServer {
    pub fn open(settings: &Settings, address: SocketAddr) -> Result<RunningServer, Failure> {
        let data_dir = &settings.store.data_dir;
        let key = AdminKey::read(&settings.admin, data_dir)?.ok_or_else(|| {
            let file = AdminKey::file_in(data_dir);
            Failure::usage(format!(
                "a server on {address} uses the data directory, and its admin key is not in {}; \
                 give the key that it was started with as BLUETICK_ADMIN__KEY",
                file.display()
            ))
        })?;
        let client = Client::new(address, key);
        let client = match &settings.server.tls.certificate_file {
            Some(file) => client.with_tls(trust::shown_in(file)?, None),
            None => client,
        };
        Ok(RunningServer { client })
    }

    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer, Failure> {
        self.client.call(method, path, body).map_err(|error| {
            Failure::failed(format!("the server on {} did not answer: {error}", self.client.address()))
        })
    }
}

/// What a refusal comes to that nobody expected.
pub fn refused(answer: &Answer) -> Failure {
    let message = reason(answer);
    match answer.status {
        401 | 403 => Failure::usage(format!("the running server does not accept this admin key: {message}")),
        status => Failure::failed(format!("the running server answered {status}: {message}")),
    }
}

/// Why the server refused, in its own words.
pub fn reason(answer: &Answer) -> &str {
    answer.body["error"]["message"].as_str().unwrap_or("no reason was given")
}
