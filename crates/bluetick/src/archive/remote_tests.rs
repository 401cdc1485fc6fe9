//! Tests of archive jobs on a running server, with a fake HTTP server.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;

/// Starts a server that returns `answers` in order. The thread returns the requests it received.
fn scripted(answers: Vec<(u16, Value)>) -> (RemoteArchive, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = Settings::default();
    settings.admin.key = Some("the-admin-key-of-this-test".into());
    let client = RemoteArchive::open(&settings, listener.local_addr().unwrap()).unwrap();
    let asked = std::thread::spawn(move || {
        let answer = |(status, body): (u16, Value)| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap();
            write!(stream, "HTTP/1.1 {status} X\r\n\r\n{body}").unwrap();
            let request = String::from_utf8(request[..length].to_vec()).unwrap();
            let (line, rest) = request.split_once(" HTTP/1.1").unwrap();
            let body = rest.split_once("\r\n\r\n").unwrap().1;
            format!("{line} {body}").trim_end().to_owned()
        };
        answers.into_iter().map(answer).collect()
    });
    (client, asked)
}

fn job(facts: Value) -> Value {
    let mut job = json!({
        "job_id": "7-1", "kind": "restore", "stage": null, "done": 0, "total": 0, "started_at": 7,
        "finished_at": null, "error": null, "report": null,
    });
    job.as_object_mut().unwrap().extend(facts.as_object().unwrap().clone());
    job
}

fn refusal(code: &str, message: &str) -> Value {
    json!({"error": {"code": code, "message": message}})
}

fn restore() -> ArchiveTask {
    ArchiveTask::Restore(bluetick_wire::http::RestoreRequest {
        conversation_id: Some("g7".into()),
        all: None,
    })
}

#[test]
fn server_job_is_started_and_polled_until_it_ends() {
    let (client, asked) = scripted(vec![
        (202, json!({"job_id": "7-1"})),
        (200, job(json!({}))),
        (200, job(json!({"stage": "restoring", "done": 1, "total": 3}))),
        (200, job(json!({"finished_at": 9, "report": {"segments": 3, "messages": 2_950, "took_ms": 2}}))),
    ]);
    let report = client.carry_out(&restore(), &JobMeter::new(true)).unwrap();
    assert!(matches!(report, ReportBody::Restore(report) if report.messages == 2_950));
    let job = "GET /v1/archive/jobs/7-1";
    assert_eq!(
        asked.join().unwrap(),
        ["POST /v1/archive/restore {\"conversation_id\":\"g7\"}", job, job, job]
    );
}

#[test]
fn failed_or_unknown_server_job_is_a_failure() {
    let begun = || (202, json!({"job_id": "7-1"}));
    for (answers, expected) in [
        (
            vec![begun(), (200, job(json!({"finished_at": 9, "error": "the bucket is full"})))],
            "the bucket is full",
        ),
        (vec![begun(), (404, refusal("not_found", "no such job"))], "was restarted"),
        (vec![(409, refusal("archive_busy", "another job"))], "the server runs another archive job"),
        (vec![(404, refusal("conversation_not_found", "no such conversation"))], "no such conversation"),
        (vec![(503, refusal("archive_unavailable", "it is down"))], "answered 503: it is down"),
    ] {
        let (client, asked) = scripted(answers);
        match client.carry_out(&restore(), &JobMeter::new(true)) {
            Err(Failure::Failed(reason)) => assert!(reason.contains(expected), "{reason}"),
            other => panic!("{other:?}"),
        }
        asked.join().unwrap();
    }
}

#[test]
fn disabled_archive_or_wrong_admin_key_is_reported_as_a_settings_error() {
    for (answer, expected) in [
        ((409, refusal("archive_off", "the archive is off")), "in the running server, the archive is off"),
        (
            (401, refusal("unauthenticated", "this call needs the admin key")),
            "does not accept this admin key",
        ),
    ] {
        let (client, asked) = scripted(vec![answer]);
        match client.carry_out(&ArchiveTask::Verify, &JobMeter::new(true)) {
            Err(Failure::Usage(reason)) => assert!(reason.contains(expected), "{reason}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(asked.join().unwrap(), ["POST /v1/archive/verify {}"]);
    }
}

#[test]
fn backup_waits_until_the_running_job_ends() {
    let busy = || (409, refusal("archive_busy", "another job"));
    let report = json!({
        "place": "/safe", "accounts": 1, "conversations": 1, "messages": 7, "archived_messages": 0, "objects": 2,
        "bytes": 9, "with_keys": false, "damaged_rows": 0, "took_ms": 2,
    });
    let (client, asked) = scripted(vec![
        busy(),
        busy(),
        (202, json!({"job_id": "7-1"})),
        (200, job(json!({"kind": "backup", "finished_at": 9, "report": report}))),
    ]);
    let backup = ArchiveTask::Backup(bluetick_wire::http::BackupRequest { to: "/safe".into(), keys: None });
    let report = client.carry_out(&backup, &JobMeter::new(true)).unwrap();
    assert!(matches!(report, ReportBody::Backup(report) if report.messages == 7));
    assert_eq!(asked.join().unwrap().len(), 4);
}
