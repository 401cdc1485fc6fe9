//! `bluetick health`: reports by exit code whether a server is ready.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use rustls::CertificateError;
use rustls::pki_types::ServerName;

use crate::cli::HealthArgs;
use crate::failure::Failure;
use crate::running::{HttpClient, trust};
use crate::settings::{Inputs, Loaded};

/// Bounds connecting, and each read and write. A health check of a container must not hang.
const TIMEOUT: Duration = Duration::from_secs(5);

pub fn run(arguments: &HealthArgs) -> Result<(), Failure> {
    let client = match &arguments.url {
        Some(url) => client_of(url)?,
        None => {
            let settings = Loaded::load(&Inputs::of_this_process(arguments.places.flags()))?.settings;
            let client = HttpClient::without_key(address(&settings.server.listen, 80)?, TIMEOUT);
            // Accept any certificate: after a change of the file the server may still use the old
            // one.
            if settings.server.tls.is_on() { client.with_tls(trust::anyone()?, None) } else { client }
        }
    };
    let answer = client.call("GET", "/readyz", None).map_err(|error| unanswered(&client, &error))?;
    if answer.status == 200 {
        return Ok(());
    }
    let reason = answer.body["reason"].as_str().unwrap_or("no reason given");
    Err(Failure::failed(format!("the server on {} does not accept requests: {reason}", client.address())))
}

/// Describes a failed request. A server with an untrusted certificate did answer.
fn unanswered(client: &HttpClient, error: &io::Error) -> Failure {
    let address = client.address();
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref());
    if let Some(rustls::Error::InvalidCertificate(reason)) = cause {
        // The other reasons print internal values of the verifier.
        let reason = match reason {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => ": it has expired",
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                ": it is for another name"
            }
            CertificateError::UnknownIssuer => ": its issuer is unknown",
            _ => "",
        };
        return Failure::failed(format!(
            "a server answers on {address}, but this machine does not trust its certificate{reason}; \
             SSL_CERT_FILE can name the root certificates"
        ));
    }
    Failure::failed(format!("no server answers on {address}: {error}"))
}

/// A client for `url`. With https, the root certificates of this machine must verify the server.
fn client_of(url: &str) -> Result<HttpClient, Failure> {
    let (is_secure, server) = authority(url)?;
    let client = HttpClient::without_key(address(server, if is_secure { 443 } else { 80 })?, TIMEOUT);
    if !is_secure {
        return Ok(client);
    }
    let host = server.rsplit_once(':').filter(|_| !server.ends_with(']')).map_or(server, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host).map_err(|_| unexpected(url))?;
    Ok(client.with_tls(trust::machine()?, Some(name)))
}

/// Returns whether the URL uses TLS, and its `HOST:PORT`.
fn authority(url: &str) -> Result<(bool, &str), Failure> {
    let (is_secure, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (None, Some(rest)) => (true, rest),
        (None, None) => return Err(unexpected(url)),
    };
    let rest = rest.trim_end_matches('/');
    if rest.is_empty() || rest.contains('/') { Err(unexpected(url)) } else { Ok((is_secure, rest)) }
}

fn unexpected(url: &str) -> Failure {
    Failure::usage(format!(
        "--url cannot be {url:?}: expected http://HOST:PORT or https://HOST:PORT, such as http://127.0.0.1:8080"
    ))
}

fn address(server: &str, usual_port: u16) -> Result<SocketAddr, Failure> {
    let has_port = server.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    let named = if has_port { server.to_owned() } else { format!("{server}:{usual_port}") };
    let found = named
        .to_socket_addrs()
        .map_err(|error| Failure::failed(format!("cannot resolve {named}: {error}")))?
        .next();
    match found {
        Some(address) if address.port() == 0 => {
            Err(Failure::usage("server.listen has port 0 (any free port); pass the actual port with --url"))
        }
        Some(address) => Ok(address),
        None => Err(Failure::failed(format!("cannot resolve {named}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_address_becomes_host_port_and_scheme() {
        for (url, server) in [
            ("http://127.0.0.1:8080", (false, "127.0.0.1:8080")),
            ("http://[::1]:80/", (false, "[::1]:80")),
            ("https://chat.example.org", (true, "chat.example.org")),
        ] {
            assert_eq!(authority(url).unwrap(), server);
        }
        for wrong in ["ftp://127.0.0.1", "127.0.0.1:8080", "http://", "https://", "http://host/readyz", ""] {
            assert!(authority(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn missing_port_uses_the_default_and_port_0_is_refused() {
        assert!(matches!(address("127.0.0.1:0", 80), Err(Failure::Usage(_))));
        assert_eq!(address("127.0.0.1", 80).unwrap().port(), 80);
        assert_eq!(address("[::1]", 443).unwrap().port(), 443);
        assert_eq!(address("[::1]:81", 443).unwrap().port(), 81);
    }
}
