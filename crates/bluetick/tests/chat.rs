//! `bluetick chat` in pseudo-terminals, with a terminal emulator that renders the screen.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

#[path = "client/proxy.rs"]
mod proxy;

use std::io::{Read, Write};
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bluetick_testkit::http::request;
use bluetick_testkit::process::Launcher;
use proxy::Proxy;
use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, OutputModes, tcgetattr};
use serde_json::{Value, json};

/// Time limit for a text to appear on the screen. If it is too short, tests fail on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Height of the terminal, in rows.
const ROWS: u16 = 24;
/// Width of the terminal, in columns. Wide enough to show inbox and conversation.
const COLUMNS: u16 = 90;
/// The password of every account in these tests.
const PASSWORD: &str = "correct horse";

/// A pseudo-terminal that runs `bluetick chat`.
struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    seen: Arc<Mutex<Seen>>,
    reading: Option<JoinHandle<()>>,
    modes_before: (LocalModes, OutputModes),
}

struct Seen {
    screen: vt100::Parser,
    /// All output of the program.
    bytes: Vec<u8>,
}

fn modes(pty: &Pty) -> (LocalModes, OutputModes) {
    let attributes = tcgetattr(pty).unwrap();
    (attributes.local_modes, attributes.output_modes)
}

impl Terminal {
    fn start(home: &Path, arguments: &[&str]) -> Terminal {
        Terminal::start_with(home, arguments, &[])
    }

    fn start_with(home: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Terminal {
        Terminal::start_command(home, "chat", arguments, variables)
    }

    fn start_command(home: &Path, command: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Terminal {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(ROWS, COLUMNS)).unwrap();
        let modes_before = modes(&pty);
        let command = Command::new(env!("CARGO_BIN_EXE_bluetick"))
            .arg(command)
            .args(arguments)
            .env_clear()
            .env("HOME", home)
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .envs(variables.iter().copied());
        let child = command.spawn(pts).unwrap();
        let seen =
            Arc::new(Mutex::new(Seen { screen: vt100::Parser::new(ROWS, COLUMNS, 0), bytes: Vec::new() }));
        let pty = Arc::new(pty);
        let (from, to) = (Arc::clone(&pty), Arc::clone(&seen));
        let reading = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails when the last process closes the other side of the pseudo-terminal.
            while let Ok(count @ 1..) = (&*from).read(&mut bytes) {
                let mut seen = to.lock().unwrap();
                seen.screen.process(&bytes[..count]);
                seen.bytes.extend_from_slice(&bytes[..count]);
            }
        });
        Terminal { pty, child, seen, reading: Some(reading), modes_before }
    }

    fn press(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    fn shown(&self) -> String {
        self.seen.lock().unwrap().screen.screen().contents()
    }

    #[track_caller]
    fn wait_until(&self, what: &str, mut holds: impl FnMut(&vt100::Screen) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self.seen.lock().unwrap().screen.screen()) {
            assert!(Instant::now() < deadline, "not in time: {what}; the screen shows\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[track_caller]
    fn wait_for(&self, text: &str) {
        self.wait_until(text, |screen| screen.contents().contains(text));
    }

    /// The colour of the first cell right of the inbox that shows `sign`.
    fn colour_of(screen: &vt100::Screen, sign: &str) -> Option<vt100::Color> {
        let places = (0..ROWS).flat_map(|row| (30..COLUMNS).map(move |column| (row, column)));
        let mut cells = places.filter_map(|(row, column)| screen.cell(row, column));
        cells.find(|cell| cell.contents() == sign).map(vt100::Cell::fgcolor)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until the program exits. Asserts that it restored the terminal.
    #[track_caller]
    fn ended(mut self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the command did not end; the screen shows\n{}", self.shown());
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(modes(&self.pty), self.modes_before, "the terminal modes are restored");
        self.reading.take().unwrap().join().unwrap();
        let seen = self.seen.lock().unwrap();
        let screen = seen.screen.screen();
        assert!(!screen.alternate_screen() && !screen.bracketed_paste() && !screen.hide_cursor());
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        status.code().unwrap_or(-1)
    }

    /// Tries to open a chat with an unknown user, which the server refuses while sign-up is open.
    fn begin_with_nobody(&self, user: &str) {
        self.press(&format!("\u{e}{user}\r"));
        self.wait_for(&format!("User {user} was not found."));
        self.press("\r");
        self.wait_for(&format!("there is no user {user}"));
    }

    /// Opens a chat with a user who has an account.
    fn begin_with(&self, user: &str) {
        self.press(&format!("\u{e}{user}\r"));
        // Wait for the header: keys pressed earlier would go to a conversation that was open
        // before.
        self.wait_until("it is open", |screen| {
            let contents = screen.contents();
            let header = contents.lines().next().and_then(|line| line.split(['│', '|']).nth(1));
            let is_open = header.is_some_and(|header| header.starts_with(user));
            is_open && contents.contains("Enter send")
        });
    }

    /// Creates an account at the prompts.
    fn sign_up(home: &Path, server: &str, user: &str) -> Terminal {
        Terminal::sign_up_with(home, server, user, &[])
    }

    fn sign_up_with(home: &Path, server: &str, user: &str, more: &[&str]) -> Terminal {
        let arguments = [&["--server", server, "--user", user, "--sign-up"], more].concat();
        let terminal = Terminal::start(home, &arguments);
        for prompt in ["New password of", "Repeat the password:"] {
            terminal.wait_for(prompt);
            terminal.press(&format!("{PASSWORD}\r"));
        }
        terminal.wait_for(&format!("Bluetick {user}"));
        // The program captures no mouse events, so that text can be selected.
        terminal
            .wait_until("no mouse", |screen| screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None);
        terminal
            .wait_until("the client is online", |screen| !screen.contents().contains("waiting for network"));
        terminal
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // In most tests the program has exited already; then killing it fails.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

struct Server {
    launcher: Launcher,
    process: Option<bluetick_testkit::process::ServerProcess>,
    proxy: Proxy,
    _data_dir: tempfile::TempDir,
}

impl Server {
    async fn start() -> Server {
        let data_dir = tempfile::tempdir().unwrap();
        let launcher = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), data_dir.path()).open();
        let process = launcher.start().await;
        let proxy = Proxy::to(Some(&process.address)).await;
        Server { launcher, process: Some(process), proxy, _data_dir: data_dir }
    }

    fn url(&self) -> String {
        format!("http://{}", self.proxy.address)
    }

    async fn kill(&mut self) {
        self.proxy.set_target(None);
        self.process.take().unwrap().kill().await;
    }

    async fn start_again(&mut self) {
        let process = self.launcher.start().await;
        self.proxy.set_target(Some(&process.address));
        self.process = Some(process);
    }

    async fn ask(&self, method: &str, path: &str, token: &str, body: Value) -> Value {
        let (status, answer) = request(&self.proxy.address, method, path, token, Some(&body)).await.unwrap();
        assert!(status < 300, "{answer}");
        answer
    }

    async fn sign_up(&self, user: &str) {
        self.ask("POST", "/v1/signup", "", json!({"user_id": user, "password": PASSWORD})).await;
    }

    /// Logs a user in over HTTP and returns the token.
    async fn log_in(&self, user: &str) -> String {
        let body = json!({"user_id": user, "password": PASSWORD});
        let answer = self.ask("POST", "/v1/login", "", body).await;
        answer["token"].as_str().unwrap().to_owned()
    }

    async fn say(&self, token: &str, peer: &str, content: &str) {
        let opened =
            self.ask("POST", "/v1/conversations", token, json!({"kind": "direct", "peer": peer})).await;
        let path = format!("/v1/conversations/{}/messages", opened["conversation_id"].as_str().unwrap());
        let id =
            format!("{:x}", content.len() * 1_000 + usize::from(content.bytes().fold(0, u8::wrapping_add)));
        self.ask("POST", &path, token, json!({"message_id": id, "content": content})).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminal_chat_continues_after_a_server_restart() {
    let mut server = Server::start().await;
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let alice = Terminal::sign_up(homes[0].path(), &server.url(), "alice");
    let bob = Terminal::sign_up(homes[1].path(), &server.url(), "bob");

    alice.press("n");
    alice.wait_for("New chat");
    // Press Enter after a part of the name, before the server answers.
    alice.press("bo\r");
    alice.wait_for("Enter send");
    alice.press("Hi bob\r");
    alice.wait_for("✓✓");
    assert_ne!(
        Terminal::colour_of(alice.seen.lock().unwrap().screen.screen(), "✓"),
        Some(vt100::Color::Idx(12))
    );

    bob.wait_for("(1)");
    bob.press("\r");
    bob.wait_until("bob's message is shown", |screen| {
        screen.contents().contains("Hi bob") && !screen.contents().contains("(1)")
    });
    alice.wait_until("the ticks are blue", |screen| {
        Terminal::colour_of(screen, "✓") == Some(vt100::Color::Idx(12))
    });

    bob.press("x");
    alice.wait_for("typing…");
    bob.press("\u{7f}back at you\r");
    alice.wait_for("back at you");

    server.kill().await;
    alice.wait_for("waiting for network…");
    alice.press("written while nobody was there\r");
    alice.wait_for("◷");
    server.start_again().await;
    bob.wait_for("written while nobody was there");
    alice.wait_until("the message is sent", |screen| !screen.contents().contains('◷'));
    alice.wait_until("both messages are read", |screen| screen.contents().matches("✓✓").count() >= 2);

    for terminal in [alice, bob] {
        assert!(
            !terminal
                .seen
                .lock()
                .unwrap()
                .bytes
                .windows(PASSWORD.len())
                .any(|part| part == PASSWORD.as_bytes())
        );
        terminal.press("\u{3}");
        assert_eq!(terminal.ended(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_written_offline_is_sent_at_the_next_start() {
    let mut server = Server::start().await;
    let home = tempfile::tempdir().unwrap();
    let alice = Terminal::sign_up(home.path(), &server.url(), "alice");
    alice.begin_with_nobody("bob");
    server.sign_up("bob").await;
    alice.begin_with("bob");
    alice.press("first\r");
    alice.wait_for("✓");
    alice.press("\u{3}");
    assert_eq!(alice.ended(), 0);

    server.kill().await;
    // The client remembers user, server and messages.
    let alice = Terminal::start(home.path(), &[]);
    alice.wait_for("first");
    alice.press("\r");
    alice.wait_for("Enter send");
    alice.press("second\r");
    alice.wait_for("1 message waits");
    alice.press("\u{3}");
    assert_eq!(alice.ended(), 0);

    server.start_again().await;
    let alice = Terminal::start(home.path(), &[]);
    alice.press("\r");
    alice.wait_until("it is sent", |screen| {
        screen.contents().contains("second") && !screen.contents().contains('◷')
    });
    let token = server.log_in("alice").await;
    let inbox = server.ask("GET", "/v1/conversations", &token, json!({})).await;
    assert_eq!(inbox["conversations"][0]["last_message"]["content"], "second");
    assert_eq!(inbox["conversations"][0]["last_seq"], 2);
    alice.signal(Signal::TERM);
    assert_eq!(alice.ended(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draft_stays_with_its_conversation_after_a_restart() {
    let server = Server::start().await;
    let home = tempfile::tempdir().unwrap();
    let alice = Terminal::sign_up(home.path(), &server.url(), "alice");
    server.sign_up("bob").await;
    server.sign_up("carol").await;
    alice.begin_with("bob");
    alice.press("sent\r");
    alice.wait_for("✓");
    alice.begin_with("carol");
    alice.press("half a word to carol");
    alice.wait_for("> half a word to carol");
    alice.press("\u{1b}[1;3B");
    alice.wait_until("bob is open", |screen| {
        screen.contents().contains("sent") && !screen.contents().contains("half a word")
    });
    alice.press("?");
    alice.wait_for("> ?");
    alice.press("\u{1b}[1;3A");
    alice.wait_for("> half a word to carol");
    alice.press("\u{3}");
    assert_eq!(alice.ended(), 0);

    let alice = Terminal::start(home.path(), &[]);
    alice.wait_for("carol");
    alice.press("\r");
    alice.wait_for("> half a word to carol");
    alice.press("\u{1b}[1;3B");
    alice.wait_for("> ?");
    alice.press("\u{3}");
    assert_eq!(alice.ended(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_characters_are_neutralised_and_every_terminal_size_works() {
    let server = Server::start().await;
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let bob = Terminal::sign_up(homes[1].path(), &server.url(), "bob");
    bob.press("\u{3}");
    assert_eq!(bob.ended(), 0);
    let alice = Terminal::sign_up(homes[0].path(), &server.url(), "alice");
    let bob = server.log_in("bob").await;
    server.say(&bob, "alice", "\u{1b}]0;taken over\u{7}\u{1b}[2Jgone? \u{9b}31m").await;
    alice.wait_for("␛]0;taken over␇");
    alice.press("\r");
    alice.wait_for("Enter send");
    server.say(&bob, "alice", &format!("{} 日本語 👩‍👩‍👧 שלום", "long ".repeat(60))).await;
    alice.wait_for("日本語");
    let bytes = alice.seen.lock().unwrap().bytes.clone();
    for steering in [&b"\x1b]0;taken"[..], b"\x1b[2Jgone"] {
        assert!(!bytes.windows(steering.len()).any(|part| part == steering));
    }

    alice.press("\u{1b}[200~pasted\nin two lines\u{1b}[201~");
    alice.wait_for("in two lines");
    for (rows, columns) in [(10, 30), (5, 10), (40, 150), (24, 59), (24, 80)] {
        alice.seen.lock().unwrap().screen.screen_mut().set_size(rows, columns);
        alice.pty.resize(Size::new(rows, columns)).unwrap();
    }
    alice.wait_for("in two lines");
    alice.press("\r");
    alice.wait_for("✓");
    alice.press("\u{1b}[11~");
    alice.wait_for("switch between inbox and message");
    alice.press("\u{3}");
    assert_eq!(alice.ended(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_color_shows_ticks_as_words() {
    let server = Server::start().await;
    let home = tempfile::tempdir().unwrap();
    let alice = Terminal::sign_up(home.path(), &server.url(), "alice");
    alice.press("\u{3}");
    assert_eq!(alice.ended(), 0);
    let alice = Terminal::start_with(home.path(), &[], &[("NO_COLOR", "1"), ("LC_ALL", "C")]);
    alice.wait_for("Bluetick alice");
    server.sign_up("bob").await;
    alice.begin_with("bob");
    alice.press("plain\r");
    alice.wait_until("sent", |screen| screen.contents().contains("sent"));
    let seen = alice.seen.lock().unwrap();
    let is_plain = |cell: &vt100::Cell| cell.fgcolor() == vt100::Color::Default;
    assert!(
        (0..ROWS).all(|row| (0..COLUMNS).all(|column| seen
            .screen
            .screen()
            .cell(row, column)
            .is_none_or(is_plain)))
    );
    drop(seen);
    alice.press("\u{3}");
    assert_eq!(alice.ended(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_stored_login_is_reported_and_asked_for_again() {
    let server = Server::start().await;
    let home = tempfile::tempdir().unwrap();
    let alice = Terminal::sign_up(home.path(), &server.url(), "alice");
    alice.press("\u{3}");
    assert_eq!(alice.ended(), 0);
    let alice_at =
        |url: &str| home.path().join(".local/share/bluetick/chat").join(url).join("alice/session.json");
    let file = alice_at(&server.url().replace(':', "%3A").replace('/', "%2F").replace('.', "%2E"));
    let kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    std::fs::write(&file, json!({"token": "forged", "expires_at": kept["expires_at"]}).to_string()).unwrap();

    let alice = Terminal::start(home.path(), &[]);
    alice.wait_for("your log-in has expired");
    alice.press("\u{3}");
    assert_eq!(alice.ended(), 1);
    let alice = Terminal::start(home.path(), &[]);
    alice.wait_for("Password of alice");
    alice.press(&format!("{PASSWORD}\r"));
    alice.wait_for("Bluetick alice");
    alice.press("\u{3}");
    assert_eq!(alice.ended(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_of_another_user_ends_the_client_with_one_error() {
    let mut server = Server::start().await;
    let home = tempfile::tempdir().unwrap();
    let bob = Terminal::sign_up(home.path(), &server.url(), "bob");
    bob.press("\u{3}");
    assert_eq!(bob.ended(), 0);
    let token = server.log_in("bob").await;
    // While the server is unreachable, the client accepts the token.
    server.kill().await;
    let arguments = ["--server", &server.url(), "--user", "alice"];
    let alice = Terminal::start_with(home.path(), &arguments, &[("BLUETICK_TOKEN", &token)]);
    alice.wait_for("waiting for network");
    server.start_again().await;
    alice.wait_for("this token belongs to another user");
    alice.press("\u{3}");
    alice.wait_for("the token does not belong to alice");
    assert_eq!(alice.ended(), 2);
}

#[test]
fn cancelled_password_prompt_restores_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    let data_dir = home.path().join("data");
    let chat = ["--server", "http://127.0.0.1:1", "--user", "alice"];
    let user = ["add", "alice", "--data-dir", data_dir.to_str().unwrap()];
    for (command, arguments) in [("chat", &chat[..]), ("user", &user[..])] {
        let alice = Terminal::start_command(home.path(), command, arguments, &[]);
        alice.wait_for("Password");
        alice.press("half a pass\u{3}");
        let end = if interrupts_are_ignored() { 1 } else { -1 };
        assert_eq!(alice.ended(), end, "the signal of Ctrl-C ends the process");
    }
}

/// Whether this process ignores SIGINT, as background processes of a shell without job control do.
fn interrupts_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|signals| u64::from_str_radix(signals.trim(), 16).ok());
    ignored.is_some_and(|signals| signals & (1 << 1) != 0)
}

#[test]
fn wrong_password_and_unreachable_server_print_one_error() {
    let home = tempfile::tempdir().unwrap();
    let alice = Terminal::start(home.path(), &["--server", "http://127.0.0.1:1", "--user", "alice"]);
    alice.wait_for("Password of alice");
    alice.press("whatever it is\r");
    alice.wait_for("cannot be reached");
    assert_eq!(alice.ended(), 1);
    let piped = std::process::Command::new(env!("CARGO_BIN_EXE_bluetick"))
        .args(["chat", "--user", "alice"])
        .env("HOME", home.path())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert_eq!(piped.status.code(), Some(2));
    assert!(String::from_utf8(piped.stderr).unwrap().contains("chat needs a terminal"));
}

/// Uses a self-signed certificate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_server_is_trusted_only_through_the_named_ca_file() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).display().to_string();
    let (certificate, key) = (path("server.pem"), path("server.key"));
    let made = std::process::Command::new("openssl")
        .args(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=self"
                .split(' '),
        )
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", &key, "-out", &certificate])
        .output()
        .expect("openssl is needed. On Debian: sudo apt-get install openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let data_dir = tempfile::tempdir().unwrap();
    let launcher = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), data_dir.path())
        .open()
        .with("BLUETICK_SERVER__TLS__CERTIFICATE_FILE", &certificate)
        .with("BLUETICK_SERVER__TLS__KEY_FILE", &key);
    let made = std::process::Command::new(env!("CARGO_BIN_EXE_bluetick"))
        .args(["token", "bob", "--data-dir"])
        .arg(data_dir.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let process = launcher.start().await;
    let url = format!("https://{}", process.address);

    let alice = Terminal::sign_up_with(home.path(), &url, "alice", &["--ca-file", &certificate]);
    alice.begin_with("bob");
    alice.press("in secret\r");
    alice.wait_for("✓");
    alice.press("\u{3}");
    assert_eq!(alice.ended(), 0);

    let token = [("BLUETICK_TOKEN", "x")];
    let stranger = Terminal::start_with(home.path(), &["--server", &url, "--ca-file", &key], &token);
    stranger.wait_for("there are no root certificates in it");
    assert_eq!(stranger.ended(), 2);
}
