//! `bluetick health`: whether a server takes work, as an exit code.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use crate::cli::HealthArgs;
use crate::failure::Failure;
use crate::running::Client;
use crate::settings::{Inputs, Loaded};

const TIMEOUT: Duration = Duration::from_secs(5);

pub fn run(arguments: &HealthArgs) -> Result<(), Failure> {
    let server = match &arguments.url {
        Some(url) => authority(url)?.to_owned(),
        None => Loaded::load(&Inputs::of_this_process(arguments.places.flags()))?.settings.server.listen,
    };
    let client = Client::without_key(address(&server)?, TIMEOUT);
    let answer = client
        .call("GET", "/readyz", None)
        .map_err(|error| Failure::failed(format!("nobody answers on {}: {error}", client.address())))?;
    if answer.status == 200 {
        return Ok(());
    }
    let reason = answer.body["reason"].as_str().unwrap_or("it gives no reason");
    Err(Failure::failed(format!("the server on {} takes no work: {reason}", client.address())))
}

/// `HOST:PORT` of an address without TLS: the question does not leave the machine.
fn authority(url: &str) -> Result<&str, Failure> {
    let rest = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    rest.filter(|rest| !rest.is_empty() && !rest.contains('/')).ok_or_else(|| {
        Failure::usage(format!(
            "--url cannot be {url:?}: expected http://HOST:PORT, such as http://127.0.0.1:8080"
        ))
    })
}

fn address(server: &str) -> Result<SocketAddr, Failure> {
    let named = if server.contains(':') { server.to_owned() } else { format!("{server}:80") };
    let found = named
        .to_socket_addrs()
        .map_err(|error| Failure::failed(format!("there is no address for {named}: {error}")))?
        .next();
    match found {
        Some(address) if address.port() == 0 => {
            Err(Failure::usage("the server listens on any free port (server.listen): say which with --url"))
        }
        Some(address) => Ok(address),
        None => Err(Failure::failed(format!("there is no address for {named}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port_without_tls() {
        for (url, server) in [("http://127.0.0.1:8080", "127.0.0.1:8080"), ("http://[::1]:80/", "[::1]:80")] {
            assert_eq!(authority(url).unwrap(), server);
        }
        for wrong in ["https://127.0.0.1", "127.0.0.1:8080", "http://", "http://host/readyz", ""] {
            assert!(authority(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn any_free_port_cannot_be_asked() {
        assert!(matches!(address("127.0.0.1:0"), Err(Failure::Usage(_))));
        assert_eq!(address("127.0.0.1").unwrap().port(), 80);
    }
}
