//! The server that is measured: this same program as a child process, on a store of its own, and clients that talk to
//! it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use bluetick_auth::{AuthSettings, Tokens};
use bluetick_client::Server;
use bluetick_client::link::{ClientFrame, Frame, FrameKind, Link};
use bluetick_core::UserId;
use bluetick_core::ports::SystemRandom;
use bluetick_core::time::{Clock, SystemClock};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::BenchError;

const START: Duration = Duration::from_secs(60);
const TOKEN_TTL: Duration = Duration::from_secs(3_600);

pub struct ServerUnderTest {
    child: Child,
    /// Where it listens.
    pub door: Server,
    tokens: Tokens,
}

pub fn client_failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Client(error.to_string())
}

fn server_failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Server(error.to_string())
}

impl ServerUnderTest {
    /// Starts it on what `directory` holds. One sender does the work of many here, so rates are not limited.
    pub async fn start(binary: &Path, directory: &Path) -> Result<ServerUnderTest, BenchError> {
        ServerUnderTest::start_with(binary, directory, &[]).await
    }

    /// With settings of the run, as they are spelled in the environment.
    pub async fn start_with(
        binary: &Path,
        directory: &Path,
        settings: &[(&str, &str)],
    ) -> Result<ServerUnderTest, BenchError> {
        // The first to come makes the signing key; the server then finds it.
        let tokens =
            Tokens::open(&AuthSettings::default(), directory, &SystemRandom).map_err(server_failed)?;
        let mut child = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(directory)
            .env("BLUETICK_LIMITS__SENDS_PER_SECOND", "0")
            .env("BLUETICK_LIMITS__REQUESTS_PER_SECOND", "0")
            .env("BLUETICK_LIMITS__ACKS_PER_SECOND", "0")
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(server_failed)?;
        let output = child.stdout.take().ok_or_else(|| server_failed("it has no output"))?;
        let mut lines = BufReader::new(output).lines();
        loop {
            let line = tokio::time::timeout(START, lines.next_line()).await.map_err(server_failed)?;
            let line = line.map_err(server_failed)?;
            let line = line.ok_or_else(|| server_failed("it ended before it served"))?;
            if let Some((_, rest)) = line.split_once("http://") {
                let address = rest.split('/').next().unwrap_or(rest);
                let url = format!("http://{address}").parse().map_err(server_failed)?;
                let door = Server::new(url).map_err(server_failed)?;
                return Ok(ServerUnderTest { child, door, tokens });
            }
        }
    }

    /// Ends it in order, so that the next one starts at once.
    pub async fn stop(mut self) -> Result<(), BenchError> {
        if let Some(id) = self.child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) {
            rustix::process::kill_process(id, rustix::process::Signal::TERM).map_err(server_failed)?;
        }
        self.child.wait().await.map(drop).map_err(server_failed)
    }

    pub fn token(&self, user: &UserId) -> Result<String, BenchError> {
        Ok(self.tokens.mint(user, TOKEN_TTL, SystemClock.now()).map_err(client_failed)?.token)
    }

    fn proc_file(&self, name: &str) -> String {
        let path = Path::new("/proc").join(self.child.id().unwrap_or(0).to_string()).join(name);
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// Processor time so far.
    pub fn cpu_seconds(&self) -> f64 {
        let stat = self.proc_file("stat");
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<f64> = after_name.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        // User and system time, in ticks of 10 ms; the state before them is a letter and not counted here.
        (fields.get(10).unwrap_or(&0.0) + fields.get(11).unwrap_or(&0.0)) / 100.0
    }

    pub fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    pub fn peak_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, field: &str) -> u64 {
        let status = self.proc_file("status");
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
    }
}

/// Connects and says hello. Gives each message of the backlog to `visit`; returns at `caught_up`.
pub async fn connect(door: &Server, token: &str, mut visit: impl FnMut(Frame)) -> Result<Link, BenchError> {
    let mut link = Link::open(door).await.map_err(client_failed)?;
    let hello = ClientFrame::Hello { token, device_id: None, positions: BTreeMap::new() };
    link.send(&hello).await.map_err(client_failed)?;
    loop {
        let frame = link.next().await.map_err(client_failed)?;
        match frame.kind() {
            FrameKind::Message => visit(frame),
            FrameKind::CaughtUp => return Ok(link),
            _ => {}
        }
    }
}
