//! A real Redis as a child process: a single server, a cluster, or with sentinels. Its data belongs
//! to the tests.
//!
//! The functions are not async, so one server can be a static of a test binary whose tests use
//! different runtimes.

mod cluster;
mod reply;
mod sentinel;
mod tls;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub use cluster::RedisCluster;
pub use reply::Reply;
pub use sentinel::RedisSentinel;
pub use tls::RedisWithTls;

/// A running server on a free loopback port. It is killed when it is dropped and when the test
/// process ends in any way.
pub struct RedisServer {
    options: RedisOptions,
    running: Option<RedisProcess>,
    port: u16,
    directory: TempDir,
}

#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    pub password: Option<String>,
    /// Every write is on disk before it is answered.
    pub append_only: bool,
    /// Further settings, as in redis.conf.
    pub settings: Vec<(String, String)>,
    /// The server is a sentinel: it monitors others and stores no data.
    pub is_sentinel: bool,
}

/// A shell that runs the server as its child. It kills the server when the other end of its
/// standard input is closed.
struct RedisProcess {
    shell: Child,
    _leash: ChildStdin,
    server: u32,
}

/// Time limit for starting a server and for reaching an expected state. If it is too short, tests
/// fail on a slow machine.
const DEADLINE: Duration = Duration::from_secs(30);
/// The shell script of [`RedisProcess`]. It prints the process id of the server.
const LEASH: &str =
    "exec 3<&0; \"$@\" </dev/null >>log 2>&1 & echo $!; read -r _ <&3; kill -9 $! 2>/dev/null; wait";

impl RedisOptions {
    pub fn with(mut self, name: &str, value: &str) -> RedisOptions {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl RedisServer {
    pub fn start() -> RedisServer {
        RedisServer::start_with(RedisOptions::default())
    }

    pub fn start_with(options: RedisOptions) -> RedisServer {
        let directory = tempfile::tempdir().unwrap();
        let mut server = RedisServer { options, running: None, port: 0, directory };
        // Another process may take the free port before the server does.
        for _ in 0..5 {
            server.port = free_port();
            if server.launch() {
                return server;
            }
        }
        panic!("redis-server did not start:\n{}", server.log());
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Includes the password, if there is one.
    pub fn url(&self) -> String {
        let password = self.options.password.as_ref().map(|password| format!(":{password}@"));
        format!("redis://{}127.0.0.1:{}", password.unwrap_or_default(), self.port)
    }

    /// Kills the server with `kill -9` and waits until it has ended. Afterwards its port is closed.
    pub fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.end();
        }
    }

    /// Restarts the server at the same address with its data on disk, if any.
    pub fn start_again(&mut self) {
        self.stop();
        let start = Instant::now();
        // The port may take a moment to become free.
        while !self.launch() {
            assert!(start.elapsed() < DEADLINE, "redis-server did not start again:\n{}", self.log());
        }
    }

    /// Restarts the server at the same address without data.
    pub fn start_again_empty(&mut self) {
        self.stop();
        let _none = std::fs::remove_file(self.directory.path().join("dump.rdb"));
        let _none = std::fs::remove_dir_all(self.directory.path().join("appendonlydir"));
        self.start_again();
    }

    /// Stops the process with SIGSTOP: connections stay open, but the server does not answer.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Runs one command on a new connection. Panics if the server does not answer.
    pub fn command(&self, words: &[&str]) -> Reply {
        self.try_command(words).unwrap_or_else(|error| panic!("{words:?}: {error}\n{}", self.log()))
    }

    pub fn try_command(&self, words: &[&str]) -> std::io::Result<Reply> {
        reply::ask(self.port, self.options.password.as_deref(), words)
    }

    /// Returns one line of `INFO`, such as `master_link_status`.
    pub fn info(&self, section: &str, name: &str) -> Option<String> {
        let info = self.try_command(&["INFO", section]).ok()?.text();
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.trim().to_owned())
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the server's log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn signal(&self, name: &str) {
        signal(self.running.as_ref().expect("the server runs").server, name);
    }

    /// Starts the server. Returns whether it came up within `DEADLINE`.
    fn launch(&mut self) -> bool {
        let configuration = self.directory.path().join("redis.conf");
        // A sentinel writes its state into its configuration file, so keep an existing one.
        if !self.options.is_sentinel || !configuration.exists() {
            std::fs::write(&configuration, self.configuration()).unwrap();
        }
        let mut command = Command::new("sh");
        command.args(["-c", LEASH, "leash"]).arg(program()).arg("redis.conf");
        if self.options.is_sentinel {
            command.arg("--sentinel");
        }
        command.current_dir(self.directory.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = command.spawn().unwrap();
        let leash = shell.stdin.take().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let running = RedisProcess { shell, _leash: leash, server: line.trim().parse().unwrap() };
        let start = Instant::now();
        while start.elapsed() < DEADLINE && running.is_alive() {
            // Compare the process id, since another process could answer on this port.
            let answer = self.info("server", "process_id");
            if answer.is_some_and(|id| id == running.server.to_string()) && !self.is_loading() {
                self.running = Some(running);
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        running.end();
        false
    }

    fn is_loading(&self) -> bool {
        self.info("persistence", "loading").is_some_and(|loading| loading != "0")
    }

    fn configuration(&self) -> String {
        let mut lines = vec![format!("port {}", self.port), "bind 127.0.0.1".to_owned()];
        if !self.options.is_sentinel {
            let append_only = if self.options.append_only { "yes" } else { "no" };
            lines.push("save \"\"".to_owned());
            lines.push(format!("appendonly {append_only}"));
            lines.push("appendfsync always".to_owned());
        }
        if let Some(password) = &self.options.password {
            lines.push(format!("requirepass {password}"));
            lines.push(format!("masterauth {password}"));
        }
        lines.extend(self.options.settings.iter().map(|(name, value)| format!("{name} {value}")));
        lines.join("\n") + "\n"
    }
}

impl RedisProcess {
    fn is_alive(&self) -> bool {
        std::fs::read_to_string(format!("/proc/{}/stat", self.server))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
    }

    fn end(mut self) {
        if self.is_alive() {
            signal(self.server, "KILL");
        }
        drop(self._leash);
        self.shell.wait().unwrap();
    }
}

/// Uses the `kill` program, because this crate has no unsafe code for system calls.
fn signal(process: u32, name: &str) {
    let _gone_already = Command::new("kill")
        .args([&format!("-{name}"), &process.to_string()])
        .stderr(Stdio::null())
        .status()
        .unwrap();
}

fn program() -> PathBuf {
    let given = std::env::var_os("BLUETICK_TEST_REDIS").map(PathBuf::from);
    let program = given.unwrap_or_else(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut candidates = std::env::split_paths(&path).map(|folder| folder.join("redis-server"));
        candidates.find(|candidate| candidate.is_file()).unwrap_or_default()
    });
    assert!(
        program.is_file(),
        "redis-server is missing. On Debian: sudo apt-get install redis-server (or set BLUETICK_TEST_REDIS)"
    );
    program
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < DEADLINE, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
