//! Checks the `Host` names that the server accepts. A web page whose own DNS name points to this
//! machine (DNS rebinding) counts as the same origin in the browser. Only the name in `Host`
//! reveals it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::http::{HeaderMap, Uri, header};
use bluetick_wire::ErrorCode;

use crate::problem::Problem;
use crate::settings::ServerSettings;

/// The names that are accepted.
#[derive(Debug)]
pub(crate) enum Hosts {
    Any,
    /// Loopback names, `names` in lower case, and the IP address that the server listens on. DNS
    /// rebinding needs a name, so an IP address in `Host` is safe to accept.
    Named {
        names: Vec<String>,
        address: Option<IpAddr>,
    },
}

impl Hosts {
    /// `listens_on` is `None` for a server without a socket. A server that listens on loopback has
    /// only local clients and proxies, so any other name has to be configured.
    pub fn new(settings: &ServerSettings, listens_on: Option<IpAddr>) -> Hosts {
        let is_local = listens_on.is_some_and(|address| address.to_canonical().is_loopback());
        if !is_local && settings.hostnames.is_empty() {
            return Hosts::Any;
        }
        let of_origins = settings.allowed_origins.iter().filter_map(|origin| origin.split_once("://"));
        let of_origins = of_origins.map(|(_, authority)| name_in(authority.trim_end_matches('/')));
        let names = settings.hostnames.iter().map(|name| name_in(name)).chain(of_origins);
        let address = listens_on.map(|address| address.to_canonical()).filter(|ip| !ip.is_unspecified());
        Hosts::Named { names: names.collect(), address }
    }

    /// Returns `host_not_allowed` if `Host`, or the authority of an absolute URI, is not an
    /// accepted name. Accepts a request without `Host` (HTTP/1.0), because browsers always send
    /// one.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let Hosts::Named { names, address } = self else { return Ok(()) };
        let mut hosts = headers.get_all(header::HOST).iter();
        let (host, second) = (hosts.next(), hosts.next());
        let is_accepted = |text: &str| {
            let name = name_in(text);
            let is_own =
                |address: IpAddr| name.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical() == address);
            is_loopback(&name) || names.contains(&name) || address.is_some_and(is_own)
        };
        let host_is_accepted =
            host.is_none_or(|host| second.is_none() && host.to_str().is_ok_and(is_accepted));
        if host_is_accepted && uri.authority().is_none_or(|authority| is_accepted(authority.as_str())) {
            return Ok(());
        }
        let message =
            "the server does not accept this Host name; the operator can add it to server.hostnames";
        Err(Problem::new(ErrorCode::HostNotAllowed, message))
    }
}

/// Returns the host name without its port, in lower case and without a trailing dot.
fn name_in(authority: &str) -> String {
    let authority = authority.to_ascii_lowercase();
    if authority.parse::<Ipv6Addr>().is_ok() {
        return authority;
    }
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (name, rest) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) if address.parse::<Ipv6Addr>().is_ok() => (address, rest),
        // Only an IPv6 address has brackets.
        Some(_) => return authority,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if !rest.is_empty() && !rest.strip_prefix(':').is_some_and(is_port) {
        return authority;
    }
    name.strip_suffix('.').unwrap_or(name).to_owned()
}

fn is_loopback(name: &str) -> bool {
    name == "localhost"
        || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || name.parse::<Ipv6Addr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(listens_on: &str, hostnames: &[&str], allowed_origins: &[&str]) -> Hosts {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let settings = ServerSettings {
            hostnames: owned(hostnames),
            allowed_origins: owned(allowed_origins),
            ..ServerSettings::default()
        };
        Hosts::new(&settings, Some(listens_on.parse().unwrap()))
    }

    fn accepts(hosts: &Hosts, uri: &str, names: &[&str]) -> bool {
        let headers = names.iter().map(|name| (header::HOST, name.parse().unwrap())).collect();
        hosts.check(&uri.parse().unwrap(), &headers).is_ok()
    }

    #[test]
    fn server_on_loopback_accepts_loopback_and_configured_names_only() {
        for listens_on in ["127.0.0.1", "::1", "127.3.2.1"] {
            let hosts = hosts(listens_on, &["Chat.example.org"], &["https://app.example:8443"]);
            for good in [
                "localhost",
                "LOCALHOST:8080",
                "localhost.",
                "127.0.0.1:8080",
                "127.9.9.9",
                "[::1]:8080",
                "[::1]",
                "chat.example.org",
                "chat.example.org:443",
                "app.example",
                "app.example:1",
            ] {
                assert!(accepts(&hosts, "/", &[good]), "{good}");
            }
            for bad in [
                "evil.example",
                "evil.example:8080",
                "localhost.evil.example",
                "127.0.0.1.evil.example",
                "0.0.0.0",
                "10.0.0.1",
                "[::2]",
                "127.1",
                "2130706433",
                "[::1].evil.example",
                "[::1]evil",
                "localhost:evil.example",
                "[localhost]",
                "[127.0.0.1]",
                "chat.example.org.evil.example",
                "",
            ] {
                assert!(!accepts(&hosts, "/", &[bad]), "{bad}");
            }
        }
    }

    #[test]
    fn server_on_other_addresses_checks_names_only_when_some_are_configured() {
        let open = hosts("0.0.0.0", &[], &["https://app.example"]);
        assert!(accepts(&open, "/", &["evil.example"]));
        let named = hosts("192.0.2.1", &["chat.example.org"], &[]);
        assert!(accepts(&named, "/", &["chat.example.org"]) && accepts(&named, "/", &["localhost"]));
        assert!(!accepts(&named, "/", &["evil.example"]));
    }

    #[test]
    fn server_with_hostnames_accepts_its_own_listen_address() {
        let configured = &["chat.example.org"];
        let on_ipv4 = hosts("192.0.2.1", configured, &[]);
        assert!(accepts(&on_ipv4, "/", &["192.0.2.1:8080"]) && accepts(&on_ipv4, "/", &["192.0.2.1"]));
        let on_ipv6 = hosts("2001:db8::1", configured, &[]);
        assert!(accepts(&on_ipv6, "/", &["[2001:db8::1]:8080"]));
        assert!(accepts(&on_ipv6, "/", &["[2001:DB8:0::1]:8080"]));
        for (hosts, bad) in [
            (&on_ipv4, "192.0.2.2:8080"),
            (&on_ipv4, "192.0.2.1.evil.example"),
            (&on_ipv6, "[2001:db8::2]:8080"),
            (&hosts("0.0.0.0", configured, &[]), "0.0.0.0:8080"),
            (&hosts("::", configured, &[]), "[::]:8080"),
        ] {
            assert!(!accepts(hosts, "/", &[bad]), "{bad}");
        }
    }

    #[test]
    fn request_without_host_is_accepted_and_two_hosts_or_another_authority_are_refused() {
        let hosts = hosts("127.0.0.1", &[], &[]);
        assert!(accepts(&hosts, "/", &[]));
        assert!(!accepts(&hosts, "/", &["localhost", "localhost"]));
        assert!(!accepts(&hosts, "http://evil.example/", &["localhost"]));
        assert!(accepts(&hosts, "http://localhost:8080/", &["localhost:8080"]));
    }
}
