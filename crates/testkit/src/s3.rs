//! A real S3 server as a child process. Its data belongs to the tests.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// The S3 implementation. They differ where the protocol is vague, so tests run on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum S3Kind {
    /// Verifies signatures and stores objects as files. Its put-if-absent is not atomic.
    S3sFs,
    /// Stores objects in memory and has an atomic put-if-absent. It accepts any signature.
    Ministack,
}

/// A running server on a free loopback port, with one bucket. It is killed when it is dropped.
pub struct S3Server {
    kind: S3Kind,
    child: Option<Child>,
    port: u16,
    directory: TempDir,
}

/// The bucket of every test server.
const BUCKET: &str = "bluetick-test";
// Credentials of the test server and its clients.
const ACCESS_KEY_ID: &str = "BLUETICKTEST";
const SECRET_ACCESS_KEY: &str = "not-a-secret-of-anybody";
/// Time limit for starting the server. If it is too short, tests fail on a slow machine.
const DEADLINE: Duration = Duration::from_secs(30);

impl S3Server {
    pub async fn start(kind: S3Kind) -> S3Server {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("data")).unwrap();
        let mut server = S3Server { kind, child: None, port: 0, directory };
        // Another process may take the free port before the server does.
        for _ in 0..5 {
            server.port = free_port();
            if server.launch().await {
                server.make_bucket().await;
                return server;
            }
        }
        panic!("{kind:?} did not start:\n{}", server.log());
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn bucket(&self) -> &'static str {
        BUCKET
    }

    /// Returns the environment variables with the credentials.
    pub fn credentials(&self) -> [(&'static str, &'static str); 2] {
        [("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID), ("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY)]
    }

    /// Kills the server with `kill -9` and waits until it has ended. Afterwards its port is closed.
    pub async fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().await.unwrap();
        }
    }

    /// Restarts the server at the same address. Only s3s-fs keeps its objects.
    pub async fn start_again(&mut self) {
        self.stop().await;
        assert!(self.launch().await, "{:?} did not start again:\n{}", self.kind, self.log());
        self.make_bucket().await;
    }

    /// Returns the server's log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Starts the server. Returns whether it came up within `DEADLINE`.
    async fn launch(&mut self) -> bool {
        let log = self.directory.path().join("log");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut command = self.command();
        command.current_dir(self.directory.path()).stdin(Stdio::null()).kill_on_drop(true);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let mut child = command.spawn().unwrap();
        let start = Instant::now();
        while start.elapsed() < DEADLINE {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            // Check again that our process runs: another process could answer on this port while
            // ours is about to fail.
            if self.answers().await && child.try_wait().unwrap().is_none() {
                self.child = Some(child);
                return true;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        child.kill().await.unwrap();
        false
    }

    fn command(&self) -> Command {
        let program = self.kind.program();
        let mut command = Command::new(program);
        let port = self.port.to_string();
        match self.kind {
            S3Kind::S3sFs => {
                command.args(["--host", "127.0.0.1", "--port", &port]);
                command.args(["--access-key", ACCESS_KEY_ID, "--secret-key", SECRET_ACCESS_KEY, "data"]);
            }
            S3Kind::Ministack => {
                command.env("GATEWAY_PORT", &port).env("BIND_HOST", "127.0.0.1").env("SERVICES", "s3");
                command.env("TMPDIR", self.directory.path());
            }
        }
        command
    }

    async fn answers(&self) -> bool {
        self.request("GET", "/").await.is_ok_and(|answer| answer.starts_with("HTTP/1.1 "))
    }

    async fn make_bucket(&self) {
        match self.kind {
            S3Kind::S3sFs => {
                std::fs::create_dir_all(self.directory.path().join("data").join(BUCKET)).unwrap()
            }
            S3Kind::Ministack => {
                let answer = self.request("PUT", &format!("/{BUCKET}")).await.unwrap();
                assert!(answer.starts_with("HTTP/1.1 200"), "no bucket: {answer}");
            }
        }
    }

    async fn request(&self, method: &str, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            self.port
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

impl S3Kind {
    /// Returns the program: from the environment variable, or where `./test` installs it.
    fn program(self) -> PathBuf {
        let (variable, installed, fix) = match self {
            S3Kind::S3sFs => (
                "BLUETICK_TEST_S3S_FS",
                "bin/s3s-fs",
                "cargo install --locked --debug s3s-fs --version 0.14.1 --features binary --root target/s3",
            ),
            S3Kind::Ministack => (
                "BLUETICK_TEST_MINISTACK",
                "venv/bin/ministack",
                "python3 -m venv target/s3/venv && target/s3/venv/bin/pip install ministack==1.5.33",
            ),
        };
        let program = match std::env::var_os(variable) {
            Some(program) => PathBuf::from(program),
            None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/s3").join(installed),
        };
        assert!(program.is_file(), "{} is missing. Run: {fix} (or set {variable})", program.display());
        program.canonicalize().unwrap()
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
