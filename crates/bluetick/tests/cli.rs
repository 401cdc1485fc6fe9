//! The command line as an operator uses it.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::fs;

use support::Shell;

#[test]
fn the_version_is_the_packages() {
    let printed = Shell::new().run(&["--version"]).printed();
    assert_eq!(printed, format!("bluetick {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_help_teaches_by_example() {
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
fn an_unknown_command_is_refused_with_a_suggestion() {
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
fn config_check_makes_nothing() {
    let shell = Shell::new();
    shell.run(&["config", "check", "--listen", "127.0.0.1:0"]).printed();
    assert_eq!(fs::read_dir(shell.directory.path()).unwrap().count(), 0);
}

#[test]
fn config_example_is_a_file_that_config_check_accepts() {
    let shell = Shell::new();
    shell.file("bluetick.toml", &shell.run(&["config", "example"]).printed());
    shell.run(&["config", "check", "--listen", "127.0.0.1:0"]).printed();
}

#[test]
fn every_command_refuses_wrong_settings_before_it_does_anything() {
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
fn a_missing_named_file_is_refused_by_name() {
    let sentence = Shell::new().run(&["serve", "--config", "missing.toml"]).refused();
    assert_eq!(sentence, "bluetick: there is no settings file missing.toml (named by --config)\n");
}

#[test]
fn an_unknown_variable_is_refused_by_name() {
    let sentence = Shell::new().run_with(("BLUETICK_SERVER__LISTN", "x"), &["serve"]).refused();
    assert!(
        sentence.contains("BLUETICK_SERVER__LISTN") && sentence.contains("BLUETICK_SERVER__LISTEN"),
        "{sentence}"
    );
}

#[test]
fn a_token_goes_alone_to_standard_output_and_its_key_to_the_data_directory() {
    let shell = Shell::new();
    let printed = shell.run(&["token", "alice", "--ttl", "1h", "--data-dir", "data"]).printed();
    assert_eq!(printed.lines().count(), 1);
    assert_eq!(printed.trim_end().split('.').count(), 3, "{printed}");
    assert!(shell.path("data/token.key").exists());
}

#[test]
fn token_without_a_data_directory_is_signed_only_with_no_reserve_and_a_shared_secret() {
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
fn a_token_nobody_may_have_is_refused() {
    let shell = Shell::new();
    let sentence = shell.run(&["token", "alice", "--ttl", "365d"]).refused();
    assert!(sentence.contains("at most 7776000 seconds"), "{sentence}");
    for arguments in [&["token", "two words"][..], &["token", "alice", "--ttl", "soon"], &["token"]] {
        assert_eq!(shell.run(arguments).code, 2, "{arguments:?}");
    }
}

#[test]
fn a_password_is_asked_for_on_a_terminal_only() {
    let sentence = Shell::new().run(&["user", "add", "alice"]).refused();
    assert!(sentence.contains("--password-stdin") && sentence.contains("--generate"), "{sentence}");
}

#[test]
fn a_short_password_is_refused_before_anything_is_stored() {
    let shell = Shell::new();
    let sentence = shell.run_with_input("short\n", &["user", "add", "alice", "--password-stdin"]).refused();
    assert_eq!(sentence, "bluetick: a password has 8 to 1024 bytes\n");
    assert!(!shell.path("bluetick-data").exists());
}

#[test]
fn a_number_beyond_all_sense_is_refused_before_it_does_harm() {
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
fn a_reader_that_has_seen_enough_or_a_full_disk_is_no_reason_to_panic() {
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
