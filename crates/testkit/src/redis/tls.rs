//! A Redis server with TLS, whose certificate is signed by a private certificate authority.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{RedisOptions, RedisServer, free_port};

pub struct RedisWithTls {
    _server: RedisServer,
    port: u16,
    papers: TempDir,
}

impl RedisWithTls {
    pub fn start() -> RedisWithTls {
        let papers = tempfile::tempdir().unwrap();
        let port = free_port();
        let file = |name: &str| papers.path().join(name).display().to_string();
        issue(papers.path());
        let options = RedisOptions::default()
            .with("tls-port", &port.to_string())
            .with("tls-cert-file", &file("server.pem"))
            .with("tls-key-file", &file("server.key"))
            .with("tls-ca-cert-file", &file("authority.pem"))
            .with("tls-auth-clients", "no");
        let server = RedisServer::start_with(options);
        RedisWithTls { _server: server, port, papers }
    }

    pub fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.port)
    }

    pub fn authority(&self) -> PathBuf {
        self.papers.path().join("authority.pem")
    }
}

fn issue(folder: &Path) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    openssl(folder, &format!("req -x509 {key} -keyout authority.key -out authority.pem -subj /CN=authority"));
    openssl(
        folder,
        &format!(
            "req -x509 -CA authority.pem -CAkey authority.key {key} -keyout server.key -out server.pem -subj /CN=server \
             -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
        ),
    );
}

fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl").args(arguments.split_whitespace()).current_dir(folder).output();
    let output = output.expect("openssl is needed. On Debian: sudo apt-get install openssl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
