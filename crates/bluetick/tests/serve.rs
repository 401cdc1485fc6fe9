//! The server as a child process: start, access to the data directory, and shutdown.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::Shell;

/// Time limit for a log line and for the exit. If it is too short, tests fail on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. Dropping it kills the process.
struct Server {
    child: Child,
    address: SocketAddr,
    banner: String,
    /// Kept open, so that the server can write to standard output.
    _stdout: BufReader<ChildStdout>,
    log_lines: Receiver<String>,
    log: String,
}

impl Server {
    fn start(shell: &Shell) -> Server {
        Server::start_with(shell, &[])
    }

    fn start_with(shell: &Shell, variables: &[(&str, &str)]) -> Server {
        let mut command = shell.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        // Read continuously, so that the server never blocks on a full pipe.
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (lines, log_lines) = channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| lines.send(line))
        });
        let mut banner = String::new();
        while !banner.contains("Ctrl-C") {
            if stdout.read_line(&mut banner).unwrap() == 0 {
                let log: Vec<String> = log_lines.iter().collect();
                panic!("the server ended before it accepted requests:\n{banner}{}", log.join("\n"));
            }
        }
        let url = banner.lines().find_map(|line| line.trim().strip_prefix("Open")).unwrap().trim();
        let address = url.strip_prefix("http://").unwrap().strip_suffix('/').unwrap().parse().unwrap();
        Server { child, address, banner, _stdout: stdout, log_lines, log: String::new() }
    }

    /// Waits until the server logs a line that contains `text`.
    fn wait_for_log(&mut self, text: &str) {
        loop {
            let line = self.log_lines.recv_timeout(PATIENCE).unwrap();
            self.log += &line;
            self.log.push('\n');
            if line.contains(text) {
                return;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until the server exits. Returns its status and its log.
    fn ended(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.log_lines.iter().for_each(|line| self.log += &format!("{line}\n"));
                return (status, std::mem::take(&mut self.log));
            }
            assert!(Instant::now() < deadline, "the server did not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a request and returns the whole response.
    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{body}",
            self.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn log_in(&self, user: &str, password: &str) -> bool {
        let body = format!(r#"{{"user_id":"{user}","password":"{password}"}}"#);
        self.ask("POST", "/v1/login", &body).starts_with("HTTP/1.1 200 ")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // In most tests the server has exited already; then killing it fails.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

#[test]
fn first_start_prints_the_url_and_creates_keys() {
    let shell = Shell::new();
    let server = Server::start(&shell);
    let data_dir = shell.path("bluetick-data");
    assert!(server.banner.contains(&format!("http://{}/docs", server.address)), "{}", server.banner);
    assert!(server.banner.contains(data_dir.to_str().unwrap()), "{}", server.banner);
    assert!(data_dir.join("token.key").exists() && data_dir.join("admin.key").exists());
    assert!(server.ask("GET", "/readyz", "").starts_with("HTTP/1.1 200 "));
}

#[test]
fn banner_command_creates_a_user_while_the_server_runs() {
    let shell = Shell::new();
    let server = Server::start(&shell);
    let add = ["user", "add", "alice", "--display-name", "Alice", "--password-stdin"];
    shell.run_with_input("correct horse\n", &add).printed();
    assert!(server.log_in("alice", "correct horse"));
    let again = shell.run_with_input("correct horse\n", &add);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("the user alice exists"), "{}", again.stderr);

    let generated = shell.run(&["user", "password", "alice", "--generate"]).printed();
    assert!(server.log_in("alice", generated.trim_end()));
    assert!(!server.log_in("alice", "correct horse"));

    let shown = shell.run(&["user", "show", "alice"]).printed();
    assert!(shown.contains("display_name  Alice") && shown.contains("can log in    yes"), "{shown}");
    let nobody = shell.run(&["user", "show", "nobody"]);
    assert_eq!((nobody.code, nobody.stderr.as_str()), (1, "bluetick: there is no user nobody\n"));
}

#[test]
fn user_created_offline_can_log_in_later() {
    let shell = Shell::new();
    shell.run_with_input("correct horse\n", &["user", "add", "alice", "--password-stdin"]).printed();
    let shown = shell.run(&["user", "show", "alice"]).printed();
    assert!(shown.contains("user_id       alice"), "{shown}");
    assert!(Server::start(&shell).log_in("alice", "correct horse"));
}

#[test]
fn user_show_in_a_missing_directory_creates_nothing() {
    let shell = Shell::new();
    let sentence = shell.run(&["user", "show", "alice", "--data-dir", "dta"]).refused();
    assert_eq!(sentence, "bluetick: the data directory dta does not exist\n");
    assert!(!shell.path("dta").exists());
}

#[test]
fn commands_use_the_configured_admin_key() {
    let shell = Shell::new();
    let key = ("BLUETICK_ADMIN__KEY", "the operator's own key".replace(' ', "-"));
    let _server = Server::start_with(&shell, &[(key.0, &key.1)]);
    let without = shell.run(&["user", "add", "alice", "--generate"]).refused();
    assert!(without.contains("BLUETICK_ADMIN__KEY"), "{without}");
    shell.run_with((key.0, &key.1), &["user", "add", "alice", "--generate"]).printed();
}

#[test]
fn token_from_the_command_line_is_accepted_by_the_server() {
    let shell = Shell::new();
    let server = Server::start(&shell);
    let token = shell.run(&["token", "alice"]).printed();
    let path = format!("/v1/conversations/d{}", "0".repeat(24));
    let mut stream = TcpStream::connect(server.address).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
        token.trim_end()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "the token is valid, and its user is no member: {answer}");
    assert!(server.ask("GET", &path, "").starts_with("HTTP/1.1 401 "), "the call without a token is refused");
}

#[test]
fn data_directory_in_use_is_refused_with_the_process_that_uses_it() {
    let shell = Shell::new();
    let server = Server::start(&shell);
    let second = shell.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, 1);
    let pid = server.child.id().to_string();
    assert!(second.stderr.contains("in use") && second.stderr.contains(&pid), "{}", second.stderr);
    assert!(
        server.ask("GET", "/healthz", "").starts_with("HTTP/1.1 200 "),
        "the first server is not affected"
    );
}

#[test]
fn address_in_use_is_reported_and_no_directory_is_created() {
    let shell = Shell::new();
    let server = Server::start(&shell);
    let listen = server.address.to_string();
    let second = shell.run(&["serve", "--data-dir", "other", "--listen", &listen]);
    assert_eq!(second.code, 1);
    assert!(second.stderr.contains(&listen), "{}", second.stderr);
    assert!(!shell.path("other").exists());
}

#[test]
fn sigterm_and_ctrl_c_shut_down_gracefully_and_keep_users() {
    let shell = Shell::new();
    for signal in [Signal::TERM, Signal::INT] {
        let server = Server::start(&shell);
        let body = r#"{"user_id":"alice","password":"correct horse"}"#;
        if !server.log_in("alice", "correct horse") {
            assert!(server.ask("POST", "/v1/signup", body).starts_with("HTTP/1.1 201 "));
        }
        server.signal(signal);
        let (status, log) = server.ended();
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(log.contains(r#""message":"stopped""#), "{log}");
    }
    assert!(Server::start(&shell).log_in("alice", "correct horse"));
}

#[test]
fn second_signal_ends_a_draining_server_immediately() {
    let shell = Shell::new();
    let mut server = Server::start_with(&shell, &[("BLUETICK_SERVER__DRAIN_SECONDS", "600")]);
    // An incomplete request delays the drain.
    let mut unfinished = TcpStream::connect(server.address).unwrap();
    unfinished
        .write_all(b"POST /v1/login HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{")
        .unwrap();
    server.signal(Signal::TERM);
    server.wait_for_log("stopping");
    server.signal(Signal::TERM);
    let (status, log) = server.ended();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("stopped immediately"), "{log}");
}

#[test]
fn logs_without_a_terminal_are_json_and_contain_no_secrets() {
    let shell = Shell::new();
    let secret = "the-admin-key-of-this-test";
    let server = Server::start_with(&shell, &[("BLUETICK_ADMIN__KEY", secret), ("BLUETICK_LOG", "trace")]);
    let body = r#"{"user_id":"alice","password":"correct horse"}"#;
    let answer = server.ask("POST", "/v1/signup", body);
    let token = answer.split("\"token\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    server.signal(Signal::TERM);
    let (_, log) = server.ended();
    for line in log.lines() {
        let parsed: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(parsed["level"].is_string() && parsed["timestamp"].is_string(), "{line}");
    }
    for hidden in [secret, "correct horse", token.as_str()] {
        assert!(!log.contains(hidden), "the log shows {hidden}");
    }
}
