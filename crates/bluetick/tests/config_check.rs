//! `bluetick config check` fails if `bluetick serve` would, reports every mistake, and changes
//! nothing.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use bluetick_testkit::process::Launcher;
use support::{Outcome, Shell};

/// Every path below a directory, with the content of files.
fn content(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.push((path.display().to_string(), Vec::new()));
            found.extend(content(&path));
        } else {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Runs the check. Asserts that it fails and does not change the working directory.
#[track_caller]
fn mistakes(shell: &Shell, arguments: &[&str]) -> Outcome {
    let before = content(shell.directory.path());
    let outcome = shell.run(&[&["config", "check"], arguments].concat());
    assert_eq!(outcome.code, 2, "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("[server]"), "valid settings are shown\n{}", outcome.stdout);
    assert_eq!(content(shell.directory.path()), before);
    outcome
}

/// The lines with mistakes. A machine with a low limit on open files also gets a warning.
fn mistake_lines(outcome: &Outcome) -> Vec<&str> {
    let lines = outcome.stderr.lines().filter(|line| line.starts_with("bluetick: "));
    lines.filter(|line| !line.contains("open files allows")).collect()
}

#[test]
fn each_settings_error_is_one_line_and_valid_settings_are_shown() {
    let shell = Shell::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    shell.file("data", "this is a file");
    shell.file(
        "bluetick.toml",
        "[limits]\nsend_per_second = 1\nidle_seconds = \"90s\"\n[log]\nformat = \"jsn\"\n[server]\ndrain_seconds = 3\n\
         [server.tls]\ncertificate_file = \"none.pem\"\nkey_file = \"none.key\"\n[store]\ndata_dir = \"data\"\n\
         [audit]\nfile = \"/dev/null/audit.log\"\n[archive]\nengine = \"directory\"\ndirectory = \"/dev/null/cold\"\n",
    );
    let outcome = mistakes(&shell, &["--listen", &listen]);
    let said = mistake_lines(&outcome);
    for part in [
        "did you mean limits.sends_per_second?",
        "limits.idle_seconds cannot be \"90s\"",
        "did you mean \"json\"?",
        "data: is not a directory (store.data_dir)",
        "archive.directory /dev/null/cold: ",
        "/dev/null/audit.log: ",
        "none.pem",
        &format!("cannot listen on {listen} (server.listen)"),
    ] {
        assert!(said.iter().any(|line| line.contains(part)), "{part} is not in\n{}", outcome.stderr);
    }
    assert_eq!(said.len(), 8, "{}", outcome.stderr);
    assert!(outcome.stderr.lines().all(|line| line.starts_with("bluetick: ")), "{}", outcome.stderr);
    let drain = outcome.stdout.lines().find(|line| line.starts_with("drain_seconds")).unwrap();
    assert!(drain.starts_with("drain_seconds = 3"), "{drain}");
}

#[test]
fn serve_reports_every_settings_error() {
    let shell = Shell::new();
    shell.file("bluetick.toml", "[limits]\nsend_per_second = 1\n[log]\nformat = \"jsn\"\n");
    let outcome = shell.run(&["serve"]);
    assert_eq!((outcome.code, outcome.stderr.lines().count()), (2, 2), "{}", outcome.stderr);
    assert!(!shell.path("bluetick-data").exists());

    let shell = Shell::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    shell.file("bluetick-data", "this is a file");
    shell.file("bluetick.toml", "[server.tls]\ncertificate_file = \"none.pem\"\nkey_file = \"none.key\"\n");
    let outcome = shell.run(&["serve", "--listen", &listen]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    let said = mistake_lines(&outcome);
    for part in [
        "bluetick-data: is not a directory",
        "none.pem",
        &format!("cannot listen on {listen}"),
        "stop it or choose another with --listen",
    ] {
        assert!(said.iter().any(|line| line.contains(part)), "{part} is not in\n{}", outcome.stderr);
    }
    assert_eq!(said.len(), 3, "{}", outcome.stderr);
}

#[test]
fn missing_data_directory_passes_when_it_can_be_created() {
    let shell = Shell::new();
    shell.run(&["config", "check", "--data-dir", "new/data", "--listen", "127.0.0.1:0"]).printed();
    assert_eq!(content(shell.directory.path()), []);
    shell.file("file", "");
    let outcome = mistakes(&shell, &["--data-dir", "file/data", "--listen", "127.0.0.1:0"]);
    assert!(outcome.stderr.contains("file/data: "), "{}", outcome.stderr);
}

#[test]
fn data_directory_on_kernel_file_system_is_refused() {
    let shell = Shell::new();
    for directory in ["/proc/nope", "/proc"] {
        let outcome = mistakes(&shell, &["--data-dir", directory, "--listen", "127.0.0.1:0"]);
        assert!(outcome.stderr.contains("(store.data_dir)"), "{directory}: {}", outcome.stderr);
    }
}

#[test]
fn audit_file_whose_directory_cannot_be_written_is_refused_also_below_the_data_directory() {
    let shell = Shell::new();
    fs::create_dir(shell.path("data")).unwrap();
    let depth = shell.path("data").canonicalize().unwrap().components().count() - 1;
    std::os::unix::fs::symlink("/proc", shell.path("data/kernel")).unwrap();
    for file in [format!("{}proc/audit.log", "../".repeat(depth)), "kernel/audit.log".to_owned()] {
        shell.file("bluetick.toml", &format!("[audit]\nfile = \"{file}\"\n"));
        let outcome = shell.run(&["config", "check", "--data-dir", "data", "--listen", "127.0.0.1:0"]);
        assert_eq!(outcome.code, 2, "{file}: {}{}", outcome.stdout, outcome.stderr);
        assert_eq!(mistake_lines(&outcome).len(), 1, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("(audit.file)"), "{}", outcome.stderr);
    }
    shell.file("bluetick.toml", "[audit]\nfile = \"trail/audit.log\"\n");
    shell.run(&["config", "check", "--data-dir", "data", "--listen", "127.0.0.1:0"]).printed();
    assert!(!shell.path("data/trail").exists());
}

#[test]
fn dangling_symbolic_link_as_directory_is_refused_as_serve_does() {
    let shell = Shell::new();
    std::os::unix::fs::symlink("missing", shell.path("link")).unwrap();
    fs::create_dir(shell.path("data")).unwrap();
    for settings in [
        "[store]\ndata_dir = \"link\"\n",
        "[store]\ndata_dir = \"link/data\"\n",
        "[archive]\nengine = \"directory\"\ndirectory = \"../link\"\n[store]\ndata_dir = \"data\"\n",
    ] {
        shell.file("bluetick.toml", settings);
        let outcome = shell.run(&["config", "check", "--listen", "127.0.0.1:0"]);
        assert_eq!(outcome.code, 2, "{settings}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("link is a symbolic link to a missing path"), "{}", outcome.stderr);
        assert_eq!(shell.run(&["serve", "--listen", "127.0.0.1:0"]).code, 1, "{settings}");
    }
}

/// A file system in memory with 16 MiB. Dropping it unmounts.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf) -> SmallDisk {
        fs::create_dir(&at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(&at);
        let done = mount.status().is_ok_and(|status| status.success());
        assert!(done, "this test mounts a small file system: run it as root, or in `unshare -rm`");
        SmallDisk(at)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn new_data_directory_without_space_for_a_log_segment_is_refused_as_serve_does() {
    let shell = Shell::new();
    let disk = SmallDisk::mount(shell.path("small"));
    for data_dir in ["small/new/data", "small"] {
        let places = ["--data-dir", data_dir, "--listen", "127.0.0.1:0"];
        let outcome = shell.run(&[&["config", "check"], &places[..]].concat());
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("bytes of free space"), "{}", outcome.stderr);
        let outcome = shell.run(&[&["serve"], &places[..]].concat());
        assert!(outcome.code == 1 && outcome.stderr.contains("No space left"), "{}", outcome.stderr);
        // The failed start left files, and the next check gives the same answer.
        assert_eq!(shell.run(&[&["config", "check"], &places[..]].concat()).code, 2);
    }
    let segments = ("BLUETICK_STORE__SEGMENT_BYTES", "4194304");
    let places = ["--data-dir", "small/new/data", "--listen", "127.0.0.1:0"];
    shell.run_with(segments, &[&["config", "check"], &places[..]].concat()).printed();
    drop(disk);
}

#[test]
fn unusable_keys_and_files_in_the_data_directory_are_reported() {
    let shell = Shell::new();
    for name in ["data", "data/LOCK", "data/tables"] {
        fs::create_dir(shell.path(name)).unwrap();
    }
    fs::write(shell.path("data/log"), "").unwrap();
    fs::write(shell.path("data/token.key"), "short").unwrap();
    fs::write(shell.path("data/admin.key"), "short").unwrap();
    let outcome = mistakes(&shell, &["--data-dir", "data", "--listen", "127.0.0.1:0"]);
    for part in ["data/log: is not a directory", "data/LOCK: is a directory", "token.key", "admin.key"] {
        assert!(outcome.stderr.contains(part), "{part} is not in\n{}", outcome.stderr);
    }
    let variable = ("BLUETICK_LOG", "inof");
    let outcome = shell.run_with(variable, &["config", "check", "--listen", "127.0.0.1:0"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("BLUETICK_LOG cannot be \"inof\""), "{}", outcome.stderr);
}

#[test]
fn mistake_in_a_setting_is_reported_once() {
    let shell = Shell::new();
    fs::create_dir(shell.path("bluetick-data")).unwrap();
    shell.file(
        "bluetick.toml",
        "[server]\nlisten = \"8080\"\n[server.tls]\nkey_file = \"a.key\"\n[archive]\nengine = \"s3\"\n[log]\nfilter = \"inof\"\n\
         [auth]\ntoken_ttl_seconds = 0\n[audit]\nfile = \" \"\n",
    );
    let outcome = mistakes(&shell, &[]);
    assert_eq!(mistake_lines(&outcome).len(), 6, "{}", outcome.stderr);
}

#[test]
fn settings_only_checks_names_and_values_without_the_data_directory() {
    let shell = Shell::new();
    shell.file("bluetick-data", "this is a file");
    shell.run(&["config", "check", "--settings-only"]).printed();
    shell.file("bluetick.toml", "[limits]\nsend_per_second = 1\n");
    let outcome = mistakes(&shell, &["--settings-only"]);
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
}

#[test]
fn names_and_key_files_of_another_machine_pass_settings_only_and_fail_check_and_serve() {
    let shell = Shell::new();
    // A label has at most 63 bytes, so no resolver asks the network for this name.
    let listen = format!("{}.invalid:8080", "x".repeat(64));
    shell.file(
        "bluetick.toml",
        &format!(
            "[server]\nlisten = \"{listen}\"\n\
             [auth]\npublic_key_file = \"/nope.pem\"\njwks_file = \"/nope.json\"\n"
        ),
    );
    shell.run(&["config", "check", "--settings-only"]).printed();
    for arguments in [&["config", "check"][..], &["serve"]] {
        let outcome = shell.run(arguments);
        assert_eq!(outcome.code, 2, "{arguments:?}: {}", outcome.stderr);
        let said = mistake_lines(&outcome);
        for part in [
            "auth.public_key_file: cannot read /nope.pem: ",
            "auth.jwks_file: cannot read /nope.json: ",
            "(server.listen): the name does not resolve: ",
        ] {
            assert!(said.iter().any(|line| line.contains(part)), "{part} is not in\n{}", outcome.stderr);
        }
        assert_eq!(said.len(), 3, "{}", outcome.stderr);
    }
    let said = shell.run(&["token", "alice"]).stderr;
    assert!(said.contains("auth.public_key_file: cannot read /nope.pem"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn running_server_with_the_same_settings_is_named_by_process_and_address() {
    let shell = Shell::new();
    let data_dir = shell.path("data");
    fs::create_dir(&data_dir).unwrap();
    let server = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), &data_dir).start().await;
    let listen = server.address.clone();
    let check = || shell.run(&["config", "check", "--data-dir", "data", "--listen", &listen]);
    let outcome = check();
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    let holder =
        format!("is in use by process {}, which listens on {listen}; stop that process first", server.id());
    assert!(outcome.stderr.contains(&holder), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(&format!("cannot listen on {listen}")), "{}", outcome.stderr);
    server.kill().await;
    let before = content(&data_dir);
    check().printed();
    assert_eq!(content(&data_dir), before, "a check changes nothing");
}
