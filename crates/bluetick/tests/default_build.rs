//! A binary without the feature `fleet`. It refuses what needs the fleet engine, and names the
//! feature to build with.

#![cfg(not(feature = "fleet"))]
#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::fs;

use support::Shell;

/// The build command that every refusal must name.
const FEATURE: &str = "cargo build --release --features fleet";

#[test]
fn fleet_command_exits_with_2_and_names_the_feature() {
    let shell = Shell::new();
    for arguments in [
        &["tables", "create"][..],
        &["tables", "check"],
        &["tables", "restored", "--yes"],
        &["hot"],
        &["migrate", "--from", "data"],
    ] {
        let message = shell.run(arguments).refused();
        assert!(message.contains(FEATURE), "{arguments:?}: {message}");
    }
    assert_eq!(fs::read_dir(shell.directory.path()).unwrap().count(), 0);
}

#[test]
fn engine_dynamodb_exits_with_2_and_names_the_setting_and_the_feature() {
    let shell = Shell::new();
    for arguments in [&["serve"][..], &["user", "show", "alice"], &["archive", "status"]] {
        let message = shell.run_with(("BLUETICK_STORE__ENGINE", "dynamodb"), arguments).refused();
        assert!(message.contains("store.engine (environment BLUETICK_STORE__ENGINE)"), "{message}");
        assert!(message.contains(FEATURE), "{arguments:?}: {message}");
    }
    assert_eq!(fs::read_dir(shell.directory.path()).unwrap().count(), 0);
}

#[test]
fn config_check_shows_the_fleet_settings_and_reports_the_missing_engine_beside_other_mistakes() {
    let shell = Shell::new();
    shell.file(
        "bluetick.toml",
        "[store]\nengine = \"dynamodb\"\n[store.dynamodb]\ntable_prefix = \"a/b\"\n\
         [store.redis]\ntimeout_ms = 0\n[server]\nlisten = \"127.0.0.1:0\"\n",
    );
    let outcome = shell.run(&["config", "check"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("table_prefix = \"a/b\""), "{}", outcome.stdout);
    for part in [FEATURE, "store.dynamodb.table_prefix", "store.redis.timeout_ms"] {
        assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
}
