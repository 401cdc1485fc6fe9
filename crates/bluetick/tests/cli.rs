//! The command line as an operator uses it.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::fs;

use support::Shell;

#[test]
fn version_flag_prints_the_package_version() {
    let printed = Shell::new().run(&["--version"]).printed();
    assert_eq!(printed, format!("bluetick {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_help_contains_an_example() {
    for arguments in [
        &["--help"][..],
        &["serve", "--help"],
        &["user", "add", "--help"],
        &["user", "password", "--help"],
        &["user", "show", "--help"],
        &["archive", "--help"],
        &["archive", "run", "--help"],
        &["archive", "status", "--help"],
        &["archive", "verify", "--help"],
        &["archive", "restore", "--help"],
        &["erase", "--help"],
        &["erase", "conversation", "--help"],
        &["erase", "user", "--help"],
        &["token", "--help"],
        &["chat", "--help"],
        &["config", "check", "--help"],
        &["config", "example", "--help"],
        &["tables", "--help"],
        &["tables", "create", "--help"],
        &["tables", "check", "--help"],
        &["hot", "--help"],
        &["migrate", "--help"],
    ] {
        let printed = Shell::new().run(arguments).printed();
        assert!(
            printed.contains("Example") && printed.contains("  bluetick"),
            "{arguments:?} says\n{printed}"
        );
    }
}

#[test]
fn unknown_command_exits_with_2_and_a_suggestion() {
    let outcome = Shell::new().run(&["serv"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("serve"), "{}", outcome.stderr);
}

#[test]
fn config_check_shows_every_layer_with_its_source() {
    let shell = Shell::new();
    shell.file("bluetick.toml", "[server]\ndrain_seconds = 3\n");
    let variable = ("BLUETICK_LIMITS__SENDS_PER_SECOND", "0");
    let printed = shell
        .run_with(variable, &["config", "check", "--data-dir", "data", "--listen", "127.0.0.1:0"])
        .printed();
    let line = |name: &str| printed.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("drain_seconds").ends_with("bluetick.toml"), "{printed}");
    assert!(line("sends_per_second = 0").ends_with("# environment BLUETICK_LIMITS__SENDS_PER_SECOND"));
    assert!(line("data_dir = \"data\"").ends_with("# flag --data-dir"));
    assert!(line("content_bytes").ends_with("# default"));
}

#[test]
fn config_check_creates_no_file() {
    let shell = Shell::new();
    shell.run(&["config", "check", "--listen", "127.0.0.1:0"]).printed();
    assert_eq!(fs::read_dir(shell.directory.path()).unwrap().count(), 0);
}

#[test]
fn config_example_passes_config_check() {
    let shell = Shell::new();
    shell.file("bluetick.toml", &shell.run(&["config", "example"]).printed());
    shell.run(&["config", "check", "--listen", "127.0.0.1:0"]).printed();
}

#[test]
fn invalid_settings_stop_every_command_before_it_writes() {
    let shell = Shell::new();
    shell.file("bluetick.toml", "[limits]\nsend_per_second = 1\n");
    for arguments in [
        &[][..],
        &["serve"],
        &["token", "alice"],
        &["user", "add", "alice", "--generate"],
        &["user", "show", "alice"],
        &["archive", "status"],
        &["erase", "user", "alice", "--yes"],
    ] {
        let sentence = shell.run(arguments).refused();
        assert!(sentence.contains("did you mean limits.sends_per_second?"), "{sentence}");
    }
    assert!(!shell.path("bluetick-data").exists());
}

#[test]
fn missing_config_file_is_reported_by_name() {
    let sentence = Shell::new().run(&["serve", "--config", "missing.toml"]).refused();
    assert_eq!(sentence, "bluetick: the settings file missing.toml does not exist (named by --config)\n");
}

#[test]
fn unknown_variable_is_reported_by_name() {
    let sentence = Shell::new().run_with(("BLUETICK_SERVER__LISTN", "x"), &["serve"]).refused();
    assert!(
        sentence.contains("BLUETICK_SERVER__LISTN") && sentence.contains("BLUETICK_SERVER__LISTEN"),
        "{sentence}"
    );
}

#[test]
fn token_prints_one_line_and_creates_the_key_in_the_data_directory() {
    let shell = Shell::new();
    let printed = shell.run(&["token", "alice", "--ttl", "1h", "--data-dir", "data"]).printed();
    assert_eq!(printed.lines().count(), 1);
    assert_eq!(printed.trim_end().split('.').count(), 3, "{printed}");
    assert!(shell.path("data/token.key").exists());
}

#[test]
fn token_without_data_directory_requires_no_reserve_and_shared_secret() {
    let shell = Shell::new();
    let secret = ("BLUETICK_AUTH__HS256_SECRET", "the operator's shared secret, 32+ bytes");
    let message = shell.run_with(secret, &["token", "alice"]).refused();
    assert!(message.contains("--no-reserve"), "{message}");
    assert_eq!(shell.run_with(secret, &["token", "alice", "--no-reserve"]).printed().lines().count(), 1);
    assert!(!shell.path("bluetick-data").exists(), "the command creates no data directory");
    let message = shell.run(&["token", "alice", "--no-reserve"]).refused();
    assert!(message.contains("auth.hs256_secret"), "{message}");
    assert!(!shell.path("bluetick-data").exists(), "the command creates no data directory");
}

#[test]
fn token_with_invalid_ttl_or_name_is_refused() {
    let shell = Shell::new();
    let sentence = shell.run(&["token", "alice", "--ttl", "365d"]).refused();
    assert!(sentence.contains("at most 7776000 seconds"), "{sentence}");
    for arguments in [&["token", "two words"][..], &["token", "alice", "--ttl", "soon"], &["token"]] {
        assert_eq!(shell.run(arguments).code, 2, "{arguments:?}");
    }
}

#[test]
fn user_add_without_a_terminal_names_the_password_flags() {
    let sentence = Shell::new().run(&["user", "add", "alice"]).refused();
    assert!(sentence.contains("--password-stdin") && sentence.contains("--generate"), "{sentence}");
}

#[test]
fn short_password_is_refused_before_any_write() {
    let shell = Shell::new();
    let sentence = shell.run_with_input("short\n", &["user", "add", "alice", "--password-stdin"]).refused();
    assert_eq!(sentence, "bluetick: a password has 8 to 1024 bytes\n");
    assert!(!shell.path("bluetick-data").exists());
}

#[test]
fn too_large_number_is_refused_with_its_maximum() {
    let shell = Shell::new();
    for key in [
        "SERVER__DRAIN_SECONDS",
        "STORE__CHECKPOINT_IDLE_SECONDS",
        "LIMITS__HEADERS_SECONDS",
        "LIMITS__PASSWORD_CHECKS_AT_ONCE",
        "LIMITS__CONTENT_BYTES",
    ] {
        let mut command = shell.command(&["config", "check", "--settings-only"]);
        let output = command.env(format!("BLUETICK_{key}"), "9223372036854775807").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{key}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("must be at most"), "{key}: {said}");
    }
}

#[test]
fn closed_pipe_exits_with_0_and_full_disk_with_1() {
    let shell = Shell::new();
    let into =
        |target: std::process::Stdio| shell.command(&["config", "example"]).stdout(target).output().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(into(writer.into()).status.code(), Some(0));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = into(full.into());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard output cannot be written"));
}
