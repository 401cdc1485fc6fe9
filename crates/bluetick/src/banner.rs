//! The text that `bluetick serve` prints at its start: the URL, the data directory, and how to
//! create a user.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

pub struct Banner<'a> {
    pub address: SocketAddr,
    /// Whether the server accepts only https.
    pub tls: bool,
    pub data_dir: &'a Path,
    /// How this program was invoked, so that the printed commands can be pasted.
    pub program: &'a str,
    /// Whether sign-up is open.
    pub signup: bool,
    /// Whether the server issues tokens. Otherwise the operator's product does.
    pub mints: bool,
    /// Whether the data is in the tables of a fleet and not in the data directory.
    pub is_fleet: bool,
}

impl Banner<'_> {
    pub fn text(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let url = format!("{scheme}://{}", reachable(self.address));
        let data_dir = quoted(&self.data_dir.to_string_lossy());
        let mut text = format!(
            "Bluetick {version} is running.\n\n  Open      {url}/\n  API docs  {url}/docs\n  Data      {data_dir}\n",
            version = env!("CARGO_PKG_VERSION"),
        );
        if self.mints {
            text += "\nCreate a user:\n";
            if self.signup {
                text += &format!(
                    "  curl {url}/v1/signup -H 'content-type: application/json' \\\n    \
                     -d '{{\"user_id\":\"alice\",\"password\":\"correct horse battery\"}}'\nor\n"
                );
            }
            let program = quoted(self.program);
            text += &match self.is_fleet {
                true => format!("  {program} user add alice    (with the settings of this server)\n"),
                false => format!("  {program} user add alice --data-dir {data_dir}\n"),
            };
        } else {
            text += "\nTokens come from your own product; this server verifies them with your public key.\n";
        }
        text + "\nCtrl-C stops it.\n"
    }
}

/// Replaces an unspecified address (0.0.0.0 or ::) with the loopback address, which can be opened.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Quotes the text for a shell, if needed.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn banner() -> Banner<'static> {
        Banner {
            address: "127.0.0.1:8080".parse().unwrap(),
            tls: false,
            data_dir: Path::new("./bluetick-data"),
            program: "target/release/bluetick",
            signup: true,
            mints: true,
            is_fleet: false,
        }
    }

    #[test]
    fn banner_shows_url_data_directory_and_user_command() {
        let text = banner().text();
        for part in [
            "http://127.0.0.1:8080/\n",
            "http://127.0.0.1:8080/docs",
            "./bluetick-data",
            "curl http://127.0.0.1:8080/v1/signup",
            "target/release/bluetick user add alice --data-dir ./bluetick-data",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    #[test]
    fn banner_with_tls_shows_https_addresses() {
        let text = Banner { tls: true, ..banner() }.text();
        assert!(text.contains("https://127.0.0.1:8080/docs") && !text.contains("http://"), "{text}");
    }

    #[test]
    fn banner_omits_sign_up_when_it_is_disabled() {
        assert!(!Banner { signup: false, ..banner() }.text().contains("curl"));
        let verify_only = Banner { mints: false, ..banner() }.text();
        assert!(!verify_only.contains("user add"), "{verify_only}");
    }

    #[test]
    fn banner_replaces_wildcard_addresses_with_reachable_ones() {
        let everywhere = Banner { address: "0.0.0.0:9000".parse().unwrap(), ..banner() }.text();
        assert!(everywhere.contains("http://127.0.0.1:9000/"), "{everywhere}");
        let everywhere = Banner { address: "[::]:9000".parse().unwrap(), ..banner() }.text();
        assert!(everywhere.contains("http://[::1]:9000/"), "{everywhere}");
    }

    #[test]
    fn banner_quotes_a_path_with_spaces() {
        let fleet = Banner { is_fleet: true, ..banner() }.text();
        assert!(fleet.contains("user add alice") && !fleet.contains("--data-dir"), "{fleet}");
        let text = Banner { data_dir: Path::new("/my data/it's"), ..banner() }.text();
        assert!(text.contains(r"--data-dir '/my data/it'\''s'"), "{text}");
    }
}
