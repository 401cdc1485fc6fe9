//! Every fleet command works on a machine that is not a node, and leaves no files there.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::fs;

use bluetick_testkit::dynamo::DynamoServer;
use bluetick_testkit::redis::RedisServer;
use support::{Outcome, Shell};

struct CommandSetup {
    /// The empty working directory of the commands.
    shell: Shell,
    /// The directory of the settings and of an embedded store.
    elsewhere: Shell,
    server: &'static DynamoServer,
}

impl CommandSetup {
    async fn run(&self, arguments: &[&str]) -> Outcome {
        let mut command = self.shell.command(arguments);
        command.envs(self.server.credentials()).env("BLUETICK_CONFIG", self.elsewhere.path("fleet.toml"));
        let outcome = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let left: Vec<_> = fs::read_dir(self.shell.directory.path()).unwrap().flatten().collect();
        assert!(left.is_empty(), "{arguments:?} leaves {left:?}");
        Outcome::of(outcome)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_commands_leave_the_working_directory_empty() {
    let (server, redis) = (DynamoServer::shared().await, RedisServer::start());
    let setup = CommandSetup { shell: Shell::new(), elsewhere: Shell::new(), server };
    fs::create_dir(setup.elsewhere.path("cold")).unwrap();
    let settings = format!(
        "[store]\nengine = \"dynamodb\"\n[store.dynamodb]\nendpoint = \"{}\"\nregion = \"us-east-1\"\n\
         table_prefix = \"commands_\"\ndeadline_ms = 30000\nattempt_timeout_ms = 10000\n\
         [store.redis]\nurls = [\"{}\"]\n[server]\nlisten = \"127.0.0.1:0\"\n\
         [archive]\nengine = \"directory\"\ndirectory = \"{}\"\n",
        server.endpoint(),
        redis.url(),
        setup.elsewhere.path("cold").display()
    );
    setup.elsewhere.file("fleet.toml", &settings);
    let old = setup.elsewhere.path("old");
    let old = old.to_str().unwrap();
    setup.elsewhere.run(&["user", "add", "bob", "--generate", "--data-dir", old]).printed();

    let missing = setup.run(&["config", "check"]).await;
    assert_eq!(missing.code, 2, "{}", missing.stderr);
    assert!(missing.stderr.contains("`bluetick tables create`"), "{}", missing.stderr);
    for arguments in [
        &["tables", "create"][..],
        &["tables", "check"],
        &["migrate", "--from", old],
        &["tables", "restored", "--yes"],
        &["hot"],
        &["user", "add", "alice", "--generate"],
        &["user", "show", "alice"],
        &["user", "show", "bob"],
        &["user", "password", "alice", "--generate"],
        &["user", "revoke", "alice"],
        &["archive", "status"],
        &["archive", "run"],
        &["archive", "verify"],
        &["archive", "restore", "--all"],
        &["erase", "user", "alice", "--yes"],
        &["config", "check"],
        &["plan", "--brief"],
    ] {
        let outcome = setup.run(arguments).await;
        assert_eq!(outcome.code, 0, "{arguments:?}: {}{}", outcome.stdout, outcome.stderr);
        let is_trail = |line: &&str| line.starts_with('{') && line.contains("\"act\"");
        let written_down = outcome.stderr.lines().filter(is_trail).count();
        // Every change is in the audit trail, although no data directory exists.
        let expected = match arguments {
            ["user", "add" | "password" | "revoke", ..] | ["erase", ..] => 2,
            ["archive", "run" | "verify" | "restore", ..] => 2,
            _ => 0,
        };
        assert_eq!(written_down, expected, "{arguments:?}: {}", outcome.stderr);
    }
    for arguments in [
        &["token", "alice"][..],
        &["backup", "copy"],
        &["restore", "copy"],
        &["check"],
        &["erase", "user", "alice"],
    ] {
        let outcome = setup.run(arguments).await;
        assert_eq!(outcome.code, 2, "{arguments:?}: {}{}", outcome.stdout, outcome.stderr);
    }
    setup.elsewhere.file("fleet.toml", &settings[..settings.find("directory = ").unwrap()]);
    let lost = setup.run(&["archive", "status"]).await;
    assert!(lost.code == 2 && lost.stderr.contains("archive.directory"), "{}", lost.stderr);
    setup.run(&["user", "show", "alice"]).await.printed();
    let unmounted = setup.elsewhere.path("unmounted");
    setup.elsewhere.file("fleet.toml", &settings.replace("/cold\"", "/unmounted\""));
    for arguments in [
        &["archive", "run"][..],
        &["archive", "status"],
        &["erase", "user", "bob", "--yes"],
        &["user", "show", "bob"],
    ] {
        let outcome = setup.run(arguments).await;
        assert!(!unmounted.exists(), "{arguments:?} creates the archive directory");
        if arguments[0] == "user" {
            outcome.printed();
        } else {
            assert_eq!(outcome.code, 2, "{arguments:?}: {}", outcome.stderr);
            assert!(
                outcome.stderr.contains("does not exist on this machine; mount it"),
                "{}",
                outcome.stderr
            );
        }
    }
}
