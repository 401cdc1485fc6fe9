//! Bits that flip while the server is down. `crates/store-embedded/tests/at_rest.rs` tries every
//! offset of every file; this test checks what operators and clients see.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bluetick_testkit::http::{messages, request};
use bluetick_testkit::process::Launcher;
use serde_json::json;

use crate::world::{ADMIN_KEY, check_of, open, stopped, token};

fn flip(path: &Path, offset: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 4], offset).unwrap();
}

/// Starts the server, which must exit by itself, and returns its error output.
fn refusal(data_dir: &Path) -> String {
    let child = Command::new(env!("CARGO_BIN_EXE_bluetick"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(data_dir)
        .env_clear()
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        if std::time::Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it serves");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

fn segment(data_dir: &Path) -> std::path::PathBuf {
    let files = std::fs::read_dir(data_dir.join("log")).unwrap().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|kind| kind == "log")).collect();
    files.sort();
    files.pop().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_data_is_reported_by_check_and_start_and_never_served() {
    let data_dir = tempfile::tempdir().unwrap();
    let launcher = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), data_dir.path())
        .with("BLUETICK_ADMIN__KEY", ADMIN_KEY)
        .with("BLUETICK_LIMITS__REQUESTS_PER_SECOND", "0")
        .with("BLUETICK_LIMITS__SENDS_PER_SECOND", "0");
    let server = launcher.start().await;
    let alice = token(&server.address, "alice").await;
    let mut ids = Vec::new();
    for peer in ["bob", "carol"] {
        let id = open(&server.address, &alice, json!({"kind": "direct", "peer": peer})).await;
        for number in 0..60 {
            let body = json!({"message_id": format!("{peer}-{number}"), "content": format!("{number} to {peer} ").repeat(8)});
            let path = format!("/v1/conversations/{id}/messages");
            let (status, answer) =
                request(&server.address, "POST", &path, &alice, Some(&body)).await.unwrap();
            assert_eq!(status, 201, "{answer}");
        }
        ids.push(id);
    }
    let known = messages(&server.address, &alice, &ids[1]).await;
    stopped(server).await;
    assert_eq!(check_of(data_dir.path()).0, 0, "{}", check_of(data_dir.path()).1);

    // The header of the first segment, and a batch: the start fails and names the file.
    let log = segment(data_dir.path());
    let name = log.file_name().unwrap().to_str().unwrap();
    for offset in [10, 4096 + 20] {
        flip(&log, offset);
        let (code, said) = check_of(data_dir.path());
        assert!(code == 1 && said.contains(name), "{code} {said}");
        let said = refusal(data_dir.path());
        assert!(said.contains(name), "{said}");
        flip(&log, offset);
    }
    // Both root pages of the tables.
    let tables = data_dir.path().join("tables/data.mdb");
    for offset in [16, 4096 + 16] {
        flip(&tables, offset);
        let (code, said) = check_of(data_dir.path());
        assert!(code == 1 && said.contains("tables/data.mdb"), "{code} {said}");
        assert!(refusal(data_dir.path()).contains("data.mdb"));
        flip(&tables, offset);
    }
    assert_eq!(check_of(data_dir.path()).0, 0, "{}", check_of(data_dir.path()).1);

    // The messages of one conversation: reading them fails, and other conversations stay readable.
    let bytes = std::fs::read(&tables).unwrap();
    let magic = 0xFD2F_B528_u32.to_le_bytes();
    let places: Vec<_> =
        bytes.windows(4).enumerate().filter(|(_, four)| *four == magic).map(|(at, _)| at).collect();
    let mut hit = false;
    for at in places {
        flip(&tables, at as u64 + 30);
        let (code, said) = check_of(data_dir.path());
        if code == 0 {
            // A free page.
            flip(&tables, at as u64 + 30);
            continue;
        }
        assert!(said.contains("seqs 1 to ") && said.contains("table chunks"), "{said}");
        hit = said.contains(&ids[0]);
        if hit {
            break;
        }
        flip(&tables, at as u64 + 30);
    }
    assert!(hit, "no chunk was hit");
    let server = launcher.start().await;
    let path = format!("/v1/conversations/{}/messages?after_seq=0", ids[0]);
    let (status, answer) = request(&server.address, "GET", &path, &alice, None).await.unwrap();
    assert_eq!((status, &answer["error"]["code"]), (500, &json!("internal")), "{answer}");
    assert_eq!(messages(&server.address, &alice, &ids[1]).await, known);
    assert!(launcher.log().contains("chunks row is damaged"), "{}", launcher.log());
}
