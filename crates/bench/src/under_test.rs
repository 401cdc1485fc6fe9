//! The server under test: a child process of the same binary with its own store, and its resource
//! use.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bluetick_auth::{AuthSettings, Tokens};
use bluetick_client::Server;
use bluetick_client::link::ClientFrame;
use bluetick_core::UserId;
use bluetick_core::ports::SystemRandom;
use bluetick_core::time::{Clock, SystemClock};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::BenchError;
use crate::measure::{Usage, status_bytes};
use crate::pages::PageLine;
use crate::report::BenchReport;
use crate::websocket::{LoadConnection, ServerFrameKind};

/// Upper bound on the server's start-up time. A start on a large store recovers and loads for
/// minutes.
const START: Duration = Duration::from_secs(600);
/// Lifetime of the users' tokens. It must exceed the duration of a run.
const TOKEN_TTL: Duration = Duration::from_secs(24 * 3_600);

pub struct ServerUnderTest {
    child: Child,
    pub address: SocketAddr,
    /// The server address, for the client library.
    pub door: Server,
    /// Time from the start of the process until it accepts requests.
    pub started_in: Duration,
    tokens: Tokens,
}

pub fn client_failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Client(error.to_string())
}

fn server_failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Server(error.to_string())
}

impl ServerUnderTest {
    /// Starts the server on the store in `directory`. Rate limits are disabled, because one client
    /// address and few senders produce the load of many.
    pub async fn start(binary: &Path, directory: &Path) -> Result<ServerUnderTest, BenchError> {
        ServerUnderTest::start_with(binary, directory, &[]).await
    }

    /// Starts the server with additional settings, given as environment variables.
    pub async fn start_with(
        binary: &Path,
        directory: &Path,
        settings: &[(&str, &str)],
    ) -> Result<ServerUnderTest, BenchError> {
        // `Tokens::open` creates the signing key if it is missing. The server then loads the same
        // key.
        let tokens =
            Tokens::open(&AuthSettings::default(), directory, &SystemRandom).map_err(server_failed)?;
        let started = Instant::now();
        let mut child = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(directory)
            // The users of a run have tokens but no accounts.
            .env("BLUETICK_AUTH__SIGNUP", "false")
            .env("BLUETICK_LIMITS__SENDS_PER_SECOND", "0")
            .env("BLUETICK_LIMITS__REQUESTS_PER_SECOND", "0")
            .env("BLUETICK_LIMITS__ACKS_PER_SECOND", "0")
            .env("BLUETICK_LIMITS__CONNECTIONS_PER_ADDRESS", "0")
            .env("BLUETICK_LIMITS__CONNECTS_PER_ADDRESS_PER_SECOND", "0")
            .env("BLUETICK_LIMITS__CONNECTS_PER_USER_PER_MINUTE", "0")
            .env("BLUETICK_LIMITS__CONVERSATIONS_PER_USER_PER_DAY", "0")
            .env("BLUETICK_LIMITS__GROUP_INVITATIONS_PER_USER_PER_HOUR", "0")
            .env("BLUETICK_LIMITS__MEMBERS_ADDED_PER_USER_PER_HOUR", "0")
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
            let line = line.ok_or_else(|| server_failed("it ended before it accepted requests"))?;
            if let Some((_, rest)) = line.split_once("http://") {
                let started_in = started.elapsed();
                let authority = rest.split('/').next().unwrap_or(rest).trim();
                let address = authority.parse().map_err(server_failed)?;
                let url = format!("http://{authority}").parse().map_err(server_failed)?;
                let door = Server::new(url).map_err(server_failed)?;
                return Ok(ServerUnderTest { child, address, door, started_in, tokens });
            }
        }
    }

    /// Shuts the server down gracefully, so that the next start needs no recovery.
    pub async fn stop(mut self) -> Result<(), BenchError> {
        if let Some(id) = self.child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) {
            rustix::process::kill_process(id, rustix::process::Signal::TERM).map_err(server_failed)?;
        }
        self.child.wait().await.map(drop).map_err(server_failed)
    }

    pub fn token(&self, user: &UserId) -> Result<String, BenchError> {
        Ok(self.tokens.mint(user, TOKEN_TTL, SystemClock.now()).map_err(client_failed)?.token)
    }

    /// Connects as `user`, sends `hello` and returns at `caught_up`.
    pub async fn connect(&self, user: &UserId) -> Result<LoadConnection, BenchError> {
        connect(self.address, None, &self.token(user)?, |_| ()).await
    }

    fn process(&self) -> String {
        self.child.id().unwrap_or(0).to_string()
    }

    /// Returns the server's CPU time so far, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        let path = Path::new("/proc").join(self.process()).join("stat");
        let stat = std::fs::read_to_string(path).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<f64> = after_name.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        // User and system time in ticks of 10 ms. The process state is a letter, so `fields` omits
        // it.
        (fields.get(10).unwrap_or(&0.0) + fields.get(11).unwrap_or(&0.0)) / 100.0
    }

    pub fn resident_bytes(&self) -> u64 {
        status_bytes(&self.process(), "VmRSS:")
    }

    pub fn peak_bytes(&self) -> u64 {
        status_bytes(&self.process(), "VmHWM:")
    }

    /// Reads the server's own metrics.
    async fn counters(&self) -> Result<Counters, BenchError> {
        let mut line = PageLine::open(self.address, String::new()).await?;
        let text = String::from_utf8_lossy(line.get("/metrics").await?).into_owned();
        let value = |name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
            found.ok_or_else(|| server_failed(format_args!("its metrics lack {name}")))
        };
        Ok(Counters {
            fsyncs: value("bluetick_fsync_seconds_count ")?,
            checkpoints: value("bluetick_checkpoint_seconds_count ")?,
        })
    }

    /// Starts measuring costs. Disk writes are those of the device that holds `directory`.
    pub async fn meter(&self, directory: &Path) -> Result<UsageMeter<'_>, BenchError> {
        let counters = self.counters().await?;
        Ok(UsageMeter {
            server: self,
            counters,
            cpu_seconds: self.cpu_seconds(),
            usage: Usage::now(directory),
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Counters {
    fsyncs: f64,
    checkpoints: f64,
}

pub struct UsageMeter<'a> {
    server: &'a ServerUnderTest,
    counters: Counters,
    cpu_seconds: f64,
    usage: Usage,
}

/// The resources that a run used while the meter ran.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    pub seconds: f64,
    pub server_cpu_seconds: f64,
    pub bench_cpu_seconds: f64,
    fsyncs: f64,
    checkpoints: f64,
    written_bytes: u64,
    server_peak_bytes: u64,
}

impl UsageMeter<'_> {
    pub async fn read(&self) -> Result<Costs, BenchError> {
        let (spent, cpu) = (self.usage.spent(), self.server.cpu_seconds());
        let counters = self.server.counters().await?;
        Ok(Costs {
            seconds: spent.wall.as_secs_f64(),
            server_cpu_seconds: cpu - self.cpu_seconds,
            bench_cpu_seconds: spent.cpu.as_secs_f64(),
            fsyncs: counters.fsyncs - self.counters.fsyncs,
            checkpoints: counters.checkpoints - self.counters.checkpoints,
            written_bytes: spent.written_bytes,
            server_peak_bytes: self.server.peak_bytes(),
        })
    }
}

impl Costs {
    /// Adds the rows that all network workloads share. `one` names the counted unit, such as a
    /// message or a page.
    pub fn put_into(&self, report: &mut BenchReport, one: &str, count: u64) {
        let count = count.max(1) as f64;
        let mut processor = |whose: &str, seconds: f64| {
            let key = format!("{whose}_cpu_seconds_per_million_{}", plural(one));
            let label = format!("CPU of the {whose}");
            report.figure(key, label, seconds * 1e6 / count, &format!("s a million {}", plural(one)));
        };
        processor("server", self.server_cpu_seconds);
        processor("bench", self.bench_cpu_seconds);
        report.figure("fsyncs", "fsyncs of the log", self.fsyncs, "");
        report.figure("checkpoints", "checkpoints", self.checkpoints, "");
        report.figure("device_written_bytes", "written to the device", self.written_bytes as f64, "bytes");
        let each = self.written_bytes as f64 / count;
        report.figure(
            format!("device_written_bytes_per_{one}"),
            "written to the device",
            each,
            &format!("bytes a {one}"),
        );
        let peak = self.server_peak_bytes as f64;
        report.figure("server_peak_resident_bytes", "resident memory of the server, peak", peak, "bytes");
    }
}

fn plural(one: &str) -> String {
    match one.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{one}s"),
    }
}

/// Connects and sends `hello`. Passes each message of the backlog to `visit` and returns at
/// `caught_up`.
pub async fn connect(
    to: SocketAddr,
    from: Option<SocketAddr>,
    token: &str,
    mut visit: impl FnMut(&[u8]),
) -> Result<LoadConnection, BenchError> {
    let mut line = LoadConnection::open(to, from).await?;
    line.put(&ClientFrame::Hello { token, device_id: None, positions: BTreeMap::new() });
    line.flush().await?;
    let (mut caught_up, mut refused) = (false, None);
    while !caught_up {
        line.frames(|kind, json| match kind {
            ServerFrameKind::Message => visit(json),
            ServerFrameKind::CaughtUp => caught_up = true,
            ServerFrameKind::Error => refused = Some(String::from_utf8_lossy(json).into_owned()),
            ServerFrameKind::Ack | ServerFrameKind::Other => {}
        })
        .await?;
        if let Some(refused) = refused {
            return Err(client_failed(refused));
        }
    }
    Ok(line)
}
