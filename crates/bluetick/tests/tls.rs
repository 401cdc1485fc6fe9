//! The server with TLS: access, and replacement of the certificate.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bluetick_client::link::{ClientFrame, FrameKind, Link, LinkError, SendFrame, ServerFrame};
use bluetick_client::{Api, FixedToken, Server, sign_up};
use bluetick_core::{ConversationId, UserId};
use bluetick_testkit::process::{Launcher, ServerProcess};
use rustix::process::{Pid, Signal, kill_process};
use support::Shell;
use tokio::time::timeout;

/// Bounds every wait. It allows for a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Creates a CA and a certificate for 127.0.0.1 signed by it: `NAME.ca`, `NAME.pem`, `NAME.key`.
fn issue(folder: &Path, name: &str) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    openssl(
        folder,
        &format!("req -x509 {key} -keyout {name}.ca.key -out {name}.ca -subj /CN=authority-{name}"),
    );
    openssl(
        folder,
        &format!(
            "req -x509 -CA {name}.ca -CAkey {name}.ca.key {key} -keyout {name}.key -out {name}.pem -subj /CN={name} \
             -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
        ),
    );
}

fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl").args(arguments.split_whitespace()).current_dir(folder).output();
    let output = output.expect("openssl is needed. On Debian: sudo apt-get install openssl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A server that uses `shown.pem`, at first a copy of `one.pem`. Tests replace it with `two.pem`.
struct World {
    shell: Shell,
    launcher: Launcher,
    process: ServerProcess,
}

impl World {
    async fn start(variables: &[(&str, &str)]) -> World {
        let shell = Shell::new();
        for name in ["one", "two"] {
            issue(shell.directory.path(), name);
        }
        show(&shell, "one", "one");
        fs::create_dir(shell.path("bluetick-data")).unwrap();
        let mut launcher = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), &shell.path("bluetick-data"))
            .open()
            .with("BLUETICK_SERVER__TLS__CERTIFICATE_FILE", shell.path("shown.pem").to_str().unwrap())
            .with("BLUETICK_SERVER__TLS__KEY_FILE", shell.path("shown.key").to_str().unwrap());
        for (name, value) in variables {
            launcher = launcher.with(name, value);
        }
        let process = launcher.start().await;
        World { shell, launcher, process }
    }

    /// The server as a client sees it that trusts one of the two CAs.
    fn trusted_by(&self, authority: &str) -> Server {
        let url = format!("https://{}", self.process.address).parse().unwrap();
        let roots = fs::read(self.shell.path(&format!("{authority}.ca"))).unwrap();
        Server::trusting(url, &roots).unwrap()
    }

    async fn is_trusted_by(&self, authority: &str) -> bool {
        match Link::open(&self.trusted_by(authority)).await {
            Ok(_) => true,
            Err(LinkError::Unreachable(error)) => {
                assert!(error.to_string().contains("certificate"), "{error}");
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn hang_up(&self) {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).unwrap()).unwrap();
        kill_process(pid, Signal::HUP).unwrap();
    }

    async fn wait_for_log(&self, text: &str) {
        let logged = async {
            while !self.launcher.log().contains(text) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = timeout(PATIENCE, logged).await;
        assert!(waited.is_ok(), "{text:?} was never logged:\n{}", self.launcher.log());
    }

    /// Two users with a direct conversation. Both trust `one`.
    async fn pair(&self) -> Pair {
        let server = self.trusted_by("one");
        let [alice, bob] = ["alice", "bob"].map(|name| name.parse::<UserId>().unwrap());
        let mut links = Vec::new();
        let mut tokens = Vec::new();
        for user in [&alice, &bob] {
            let token = sign_up(&server, user, "correct horse", None).await.unwrap().token;
            let mut link = Link::open(&server).await.unwrap();
            let hello = ClientFrame::Hello { token: &token, device_id: None, positions: Default::default() };
            link.send(&hello).await.unwrap();
            hear(&mut link, FrameKind::CaughtUp).await;
            links.push(link);
            tokens.push(token);
        }
        let api = Api::new(server, Arc::new(FixedToken(tokens.remove(0))));
        let chat = api.open_direct(&bob).await.unwrap().conversation_id;
        let bob = links.pop().unwrap();
        let alice = links.pop().unwrap();
        Pair { alice, bob, chat, sent: 0 }
    }
}

/// Replaces the certificate and the key that the server loads.
fn show(shell: &Shell, certificate: &str, key: &str) {
    for (from, to) in [(format!("{certificate}.pem"), "shown.pem"), (format!("{key}.key"), "shown.key")] {
        fs::copy(shell.path(&from), shell.path("new")).unwrap();
        fs::rename(shell.path("new"), shell.path(to)).unwrap();
    }
}

async fn hear(link: &mut Link, kind: FrameKind) -> ServerFrame {
    let heard = async {
        loop {
            let frame = link.next().await.unwrap();
            if frame.kind() == kind {
                return frame.decode().unwrap();
            }
        }
    };
    timeout(PATIENCE, heard).await.expect("the server answers in time")
}

struct Pair {
    alice: Link,
    bob: Link,
    chat: ConversationId,
    sent: usize,
}

impl Pair {
    async fn talk(&mut self) {
        self.send("hello").await;
        let ServerFrame::Message(message) = hear(&mut self.bob, FrameKind::Message).await else {
            unreachable!()
        };
        assert_eq!(message.content, "hello");
    }

    async fn send(&mut self, content: &str) {
        self.sent += 1;
        let id = format!("m{}", self.sent).parse().unwrap();
        self.alice.send(&ClientFrame::Send(SendFrame::text(self.chat, id, content))).await.unwrap();
        hear(&mut self.alice, FrameKind::Ack).await;
    }
}

/// Runs `openssl s_client` and sends `asked`. Returns whether it succeeded, and its output.
fn client(world: &World, options: &[&str], asked: &str) -> (bool, String) {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &world.process.address, "-CAfile"]).arg(world.shell.path("one.ca"));
    command.args(["-verify_return_error", "-ign_eof"]).args(options);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), asked.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.success(), said.concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_works_over_tls_and_every_response_has_the_hsts_header() {
    let world = World::start(&[]).await;
    world.pair().await.talk().await;
    let question = "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let (ok, said) = client(&world, &[version, "-alpn", "h2,http/1.1"], question);
        assert!(ok, "{said}");
        assert!(said.contains("HTTP/1.1 200 OK") && said.contains(name), "{said}");
        assert!(said.contains("ALPN protocol: http/1.1"), "{said}");
        assert!(said.contains("strict-transport-security: max-age=31536000"), "{said}");
    }
    let (ok, said) = client(&world, &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], question);
    assert!(!ok && !said.contains("HTTP/1.1"), "a protocol older than TLS 1.2 was accepted:\n{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sighup_gives_new_connections_the_new_certificate_and_keeps_old_ones() {
    // Disable the periodic reload.
    let world = World::start(&[("BLUETICK_SERVER__TLS__RELOAD_SECONDS", "0")]).await;
    let mut pair = world.pair().await;
    show(&world.shell, "two", "two");
    assert!(world.is_trusted_by("one").await && !world.is_trusted_by("two").await);
    world.hang_up();
    world.wait_for_log("certificate reloaded").await;
    assert!(world.is_trusted_by("two").await && !world.is_trusted_by("one").await);
    pair.talk().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_certificate_files_are_loaded_and_mismatched_pairs_ignored() {
    let world = World::start(&[("BLUETICK_SERVER__TLS__RELOAD_SECONDS", "1")]).await;
    let mut pair = world.pair().await;
    show(&world.shell, "two", "one");
    world.wait_for_log("does not belong to the first certificate").await;
    assert!(world.is_trusted_by("one").await);
    fs::write(world.shell.path("shown.pem"), "not a certificate").unwrap();
    world.wait_for_log("there is no certificate in").await;
    fs::remove_file(world.shell.path("shown.key")).unwrap();
    fs::copy(world.shell.path("one.pem"), world.shell.path("shown.pem")).unwrap();
    world.wait_for_log("cannot read").await;
    assert!(world.is_trusted_by("one").await && !world.is_trusted_by("two").await);
    show(&world.shell, "two", "two");
    world.wait_for_log("certificate reloaded").await;
    assert!(world.is_trusted_by("two").await);
    pair.talk().await;
}

#[test]
fn unusable_certificate_stops_serve_and_config_check_with_a_reason() {
    let shell = Shell::new();
    for name in ["one", "two"] {
        issue(shell.directory.path(), name);
    }
    shell.file("empty.pem", "");
    let refusal = |certificate: &str, key: &str| {
        let variables = [
            ("BLUETICK_SERVER__TLS__CERTIFICATE_FILE", certificate),
            ("BLUETICK_SERVER__TLS__KEY_FILE", key),
        ];
        let variables = variables.into_iter().filter(|(_, value)| !value.is_empty());
        let run = |arguments: &[&str]| {
            let output = shell.command(arguments).envs(variables.clone()).output();
            support::Outcome::of(output.unwrap())
        };
        let checked = run(&["config", "check", "--listen", "127.0.0.1:0"]);
        let outcome = run(&["serve", "--listen", "127.0.0.1:0"]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{}", outcome.stderr);
        let said = outcome.stderr.lines().last().unwrap().to_owned();
        assert_eq!((checked.code, checked.stderr.lines().last()), (2, Some(said.as_str())));
        said
    };
    for (certificate, key, sentence) in [
        ("one.pem", "", "server.tls.key_file must be set too"),
        ("", "one.key", "server.tls.certificate_file must be set too"),
        ("none.pem", "one.key", "cannot read none.pem (server.tls.certificate_file)"),
        ("one.pem", "none.key", "cannot read none.key (server.tls.key_file)"),
        ("empty.pem", "one.key", "there is no certificate in empty.pem"),
        ("one.key", "one.key", "there is no certificate in one.key"),
        ("one.pem", "one.pem", "there is no key in one.pem"),
        ("one.pem", "two.key", "the key in two.key (server.tls.key_file) does not belong to"),
    ] {
        let said = refusal(certificate, key);
        assert!(said.contains(sentence), "{certificate} {key}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn local_commands_reach_a_tls_server_through_its_settings() {
    let world = World::start(&[]).await;
    let (shell, address) = (&world.shell, world.process.address.clone());
    let run = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = shell.command(arguments);
        command.envs(variables.iter().copied());
        support::Outcome::of(command.output().unwrap())
    };
    shell.file("bluetick.toml", "[server.tls]\ncertificate_file = \"shown.pem\"\nkey_file = \"shown.key\"\n");
    run(&["health"], &[("BLUETICK_SERVER__LISTEN", &address)]).printed();
    run(&["user", "add", "carol", "--generate"], &[]).printed();
    assert!(run(&["user", "show", "carol"], &[]).printed().contains("carol"));
    // With a URL, the root certificates of the machine apply, here set by SSL_CERT_FILE.
    let url = format!("https://{address}");
    let roots = shell.path("one.ca");
    run(&["health", "--url", &url], &[("SSL_CERT_FILE", roots.to_str().unwrap())]).printed();
    let others = shell.path("two.ca");
    let refused = run(&["health", "--url", &url], &[("SSL_CERT_FILE", others.to_str().unwrap())]);
    let sentence = "but this machine does not trust its certificate: its issuer is unknown";
    assert!(refused.code == 1 && refused.stderr.contains(sentence), "{}", refused.stderr);

    // Without settings the commands trust only the certificate that the server stored.
    fs::remove_file(shell.path("bluetick.toml")).unwrap();
    assert!(run(&["user", "show", "carol"], &[]).printed().contains("carol"));
    let der = "x509 -in two.pem -outform der -out bluetick-data/certificate.der";
    openssl(shell.directory.path(), der);
    let other = run(&["user", "show", "carol"], &[]);
    assert!(other.code == 1 && other.stderr.contains("it presents another certificate"), "{}", other.stderr);
    fs::remove_file(shell.path("bluetick-data/certificate.der")).unwrap();
    let without = run(&["user", "show", "carol"], &[]);
    assert!(without.code == 1 && without.stderr.contains("the server uses TLS"), "{}", without.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn local_commands_work_before_a_new_certificate_is_loaded() {
    let world = World::start(&[("BLUETICK_SERVER__TLS__RELOAD_SECONDS", "0")]).await;
    let (shell, address) = (&world.shell, world.process.address.clone());
    shell.file("bluetick.toml", "[server.tls]\ncertificate_file = \"shown.pem\"\nkey_file = \"shown.key\"\n");
    let run = |arguments: &[&str]| shell.run_with(("BLUETICK_SERVER__LISTEN", &address), arguments);
    run(&["user", "add", "carol", "--generate"]).printed();
    let all_work = || {
        run(&["health"]).printed();
        assert!(run(&["user", "show", "carol"]).printed().contains("carol"));
    };
    show(shell, "two", "two");
    all_work();
    fs::remove_file(shell.path("shown.pem")).unwrap();
    all_work();
    run(&["backup", "copy"]).printed();
    show(shell, "two", "two");
    world.hang_up();
    world.wait_for_log("certificate reloaded").await;
    all_work();
    // The commands trust the certificate that the server announces, not the one in the file.
    show(shell, "one", "one");
    let noted = async {
        while run(&["user", "show", "carol"]).code != 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, noted).await.expect("the server stores the new certificate");
    all_work();
}

/// Overwrites the year of both dates in `one.pem`, which makes the signature invalid, and shows the
/// result.
fn move_to_year(folder: &Path, year: &str) {
    /// Tag and length of a DER time, which precede the two digits of its year.
    const UTC_TIME: [u8; 2] = [0x17, 13];
    openssl(folder, "x509 -in one.pem -outform der -out moved.der");
    let mut bytes = fs::read(folder.join("moved.der")).unwrap();
    let first = bytes.windows(2).position(|two| two == UTC_TIME).unwrap();
    for time in [first, first + 15] {
        assert_eq!(bytes[time..time + 2], UTC_TIME);
        bytes[time + 2..time + 4].copy_from_slice(year.as_bytes());
    }
    fs::write(folder.join("moved.der"), bytes).unwrap();
    openssl(folder, "x509 -inform der -in moved.der -out shown.pem");
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_certificate_is_served_with_a_warning_in_log_and_config_check() {
    let world = World::start(&[("BLUETICK_SERVER__TLS__RELOAD_SECONDS", "0")]).await;
    let shell = &world.shell;
    assert!(!world.launcher.log().contains("clients refuse it"), "{}", world.launcher.log());
    // The default number of connections causes a warning under a low limit on open files.
    shell.file(
        "bluetick.toml",
        "[limits]\nconnections = 10\n\
         [server.tls]\ncertificate_file = \"shown.pem\"\nkey_file = \"shown.key\"\n",
    );
    let check = || shell.run(&["config", "check", "--data-dir", "other", "--listen", "127.0.0.1:0"]);
    assert_eq!(check().stderr, "");
    for (year, complaint) in [("20", "has expired"), ("48", "is not valid yet")] {
        move_to_year(shell.directory.path(), year);
        world.hang_up();
        world.wait_for_log(complaint).await;
        let checked = check();
        assert!(checked.stderr.contains(complaint), "{}", checked.stderr);
        assert_eq!(checked.code, 0);
    }
}

/// The server closes connections that do not complete a handshake in time.
#[tokio::test(flavor = "multi_thread")]
async fn stalled_tls_handshake_is_closed_while_others_are_served() {
    let world = World::start(&[("BLUETICK_LIMITS__HEADERS_SECONDS", "1")]).await;
    let mut pair = world.pair().await;
    // Incomplete beginnings of a ClientHello.
    let begun: [&[u8]; 3] = [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"];
    let silent: Vec<TcpStream> = (0..60)
        .map(|number: usize| {
            let mut stream = TcpStream::connect(&world.process.address).unwrap();
            std::io::Write::write_all(&mut stream, begun[number % begun.len()]).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream
        })
        .collect();
    pair.talk().await;
    let ended = tokio::task::spawn_blocking(move || {
        for mut stream in silent {
            let mut rest = Vec::new();
            // The server closes the connection, by FIN or reset, before the read timeout of the
            // test.
            if let Err(error) = stream.read_to_end(&mut rest) {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
            }
        }
    });
    ended.await.unwrap();
    pair.talk().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_reader_that_stops_is_disconnected_and_the_sender_continues() {
    let world = World::start(&[
        ("BLUETICK_LIMITS__OUTBOX_BYTES", "262144"),
        ("BLUETICK_LIMITS__SENDS_PER_SECOND", "0"),
        ("BLUETICK_LIMITS__REQUESTS_PER_SECOND", "0"),
    ])
    .await;
    let mut pair = world.pair().await;
    let content = "x".repeat(60_000);
    // More bytes than the outbox, TLS and the kernel buffers hold.
    for _ in 0..400 {
        pair.send(&content).await;
    }
    let mut heard = 0;
    let code = loop {
        match timeout(PATIENCE, pair.bob.next()).await.expect("it ends") {
            Ok(frame) => heard += usize::from(frame.kind() == FrameKind::Message),
            Err(LinkError::Closed { code }) => break Some(code.0),
            // The client did not read within the time that the server waits to send the close
            // frame.
            Err(LinkError::Lost) => break None,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(heard < 400, "the connection was not closed");
    assert!(code.is_none_or(|code| code == 4413), "{code:?}");
    pair.send("one more").await;
}

/// The client receives the close code even if it is still sending.
#[tokio::test(flavor = "multi_thread")]
async fn tls_client_that_floods_gets_the_close_code() {
    let world = World::start(&[("BLUETICK_LIMITS__FRAME_BYTES", "70000")]).await;
    let pair = world.pair().await;
    let (mut sender, mut receiver) = pair.alice.split();
    let content = "x".repeat(3_000_000);
    let too_much = ClientFrame::Send(SendFrame::text(pair.chat, "m1".parse().unwrap(), &content));
    let sending = async {
        // Sending may fail: the server stops reading.
        let _sent = sender.feed(&too_much).await;
        let _sent = sender.flush().await;
    };
    let hearing = async {
        loop {
            if let Err(error) = receiver.next().await {
                return error.close_code().map(|code| code.0);
            }
        }
    };
    let (_, code) =
        timeout(PATIENCE, async { tokio::join!(sending, hearing) }).await.expect("both sides end in time");
    assert_eq!(code, Some(1009));
}
