//! The server as a child process.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A running server on a free loopback port. It is killed when it is dropped.
pub struct ServerProcess {
    child: Child,
    pub address: String,
}

/// How to start the server, any number of times.
#[derive(Clone, Debug)]
pub struct Launcher {
    pub binary: PathBuf,
    pub data_dir: PathBuf,
    pub variables: Vec<(String, String)>,
}

/// Limits that are disabled unless a test sets them: all clients share one address, and a few users
/// do the work of many.
const OF_MANY_PEOPLE: [&str; 6] = [
    "BLUETICK_LIMITS__CONNECTIONS_PER_ADDRESS",
    "BLUETICK_LIMITS__CONNECTS_PER_ADDRESS_PER_SECOND",
    "BLUETICK_LIMITS__LOGINS_PER_ADDRESS_PER_MINUTE",
    "BLUETICK_LIMITS__CONVERSATIONS_PER_USER_PER_DAY",
    "BLUETICK_LIMITS__GROUP_INVITATIONS_PER_USER_PER_HOUR",
    "BLUETICK_LIMITS__MEMBERS_ADDED_PER_USER_PER_HOUR",
];

impl Launcher {
    /// Sign-up is closed: while it is open, conversations accept only known users, and most tests
    /// write to users without an account. [`Launcher::open`] opens it.
    pub fn new(binary: impl Into<PathBuf>, data_dir: &Path) -> Launcher {
        let closed = Launcher { binary: binary.into(), data_dir: data_dir.to_owned(), variables: Vec::new() };
        closed.with("BLUETICK_AUTH__SIGNUP", "false")
    }

    /// Opens sign-up.
    pub fn open(self) -> Launcher {
        self.with("BLUETICK_AUTH__SIGNUP", "true")
    }

    pub fn with(mut self, variable: &str, value: &str) -> Launcher {
        self.variables.push((variable.to_owned(), value.to_owned()));
        self
    }

    fn log_path(&self) -> PathBuf {
        self.data_dir.join("server.log")
    }

    /// Returns the log of all servers started here.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    pub async fn start(&self) -> ServerProcess {
        let log_path = self.log_path();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&log_path).unwrap();
        let mut command = Command::new(&self.binary);
        // `BLUETICK_` variables with sizes and seeds of a test are not settings of the server.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("BLUETICK_") {
                command.env_remove(name);
            }
        }
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&self.data_dir)
            .envs(OF_MANY_PEOPLE.map(|limit| (limit, "0")))
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = loop {
            let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await;
            let line = line.expect("the server prints its address in time").unwrap();
            let line = line
                .unwrap_or_else(|| panic!("the server ended before it accepted requests:\n{}", self.log()));
            if let Some((_, rest)) = line.split_once("://") {
                break rest.split('/').next().unwrap().to_owned();
            }
        };
        // Keep reading, so that the server never blocks on its output. The task ends with the
        // server.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        ServerProcess { child, address }
    }
}

impl ServerProcess {
    pub fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Kills the server with `kill -9` and waits until it has ended. Panics if it had ended before.
    pub async fn kill(mut self) {
        assert_eq!(self.child.try_wait().unwrap(), None, "the server ended before the test killed it");
        self.child.kill().await.unwrap();
    }

    pub async fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().await.unwrap()
    }
}
