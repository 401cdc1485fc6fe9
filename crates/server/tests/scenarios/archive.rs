//! The archive calls of the operator, the jobs that they start, and the scheduled runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bluetick_core::ports::{ArchiveError, ArchiveRun, Erase, EraseScope};
use bluetick_core::{ConversationId, Seq, StoreError, Timestamp};
use bluetick_server::{ArchiveSchedule, NoArchive};
use serde_json::{Value, json};

use crate::faulty_archive::{ArchiveCall, FaultyArchive};
use crate::harness::{ADMIN_KEY, Reply, Setup, TIMEOUT, World};

fn conversation() -> ConversationId {
    ConversationId::group([7; 15])
}

impl World {
    async fn order(&self, path: &str, body: Value) -> Reply {
        self.call("POST", path, Some(ADMIN_KEY), Some(body)).await
    }

    async fn archive(&self) -> Value {
        self.call("GET", "/v1/archive", Some(ADMIN_KEY), None).await.json()
    }

    /// Starts a job and waits until it has ended.
    async fn job(&self, path: &str, body: Value) -> Value {
        let begun = self.order(path, body).await;
        assert_eq!(begun.status, 202, "{}", begun.text());
        let job_id = begun.json()["job_id"].as_str().unwrap().to_owned();
        self.job_ended(&job_id).await
    }

    async fn job_ended(&self, job_id: &str) -> Value {
        let deadline = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let path = format!("/v1/archive/jobs/{job_id}");
            let job = self.call("GET", &path, Some(ADMIN_KEY), None).await.json();
            if !job["finished_at"].is_null() {
                return job;
            }
            assert!(tokio::time::Instant::now() < deadline, "{job}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_calls_without_admin_key_are_refused() {
    let archive = FaultyArchive::on();
    let mut setup = archive.setup();
    setup.limits.wrong_admin_keys_per_address_per_minute = 0;
    let world = setup.start().await;
    let token = world.person("alice").token;
    for key in [None, Some("not-the-key"), Some(&*token)] {
        for (method, path) in [
            ("GET", "/v1/archive"),
            ("GET", "/v1/archive/jobs/1"),
            ("POST", "/v1/archive/run"),
            ("POST", "/v1/archive/verify"),
            ("POST", "/v1/archive/restore"),
            ("POST", "/v1/erasures"),
        ] {
            world.call(method, path, key, Some(json!({}))).await.refused(401, "unauthenticated");
        }
    }
    assert_eq!(archive.calls(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_status_returns_sizes_and_counters() {
    let archive = FaultyArchive::on();
    archive.change_status(|status| {
        (status.cold.segments, status.cold.messages) = (12, 11_842);
        (status.cold.bytes, status.cold.raw_bytes) = (1_204_224, 5_659_853);
        (status.hot_file_bytes, status.hot_free_bytes) = (50_331_648, 12_582_912);
        (status.kept_hot, status.unfinished_erasures) = (2, 0);
    });
    archive.change_counters(|counters| {
        counters.paused = Some("the bucket is full".into());
        counters.last_run_at = Some(Timestamp::from_millis(1_767_225_600_000));
    });
    let world = archive.setup().start().await;
    let shown = json!({
        "place": "directory /cold", "engine_on": true,
        "cold": {"segments": 12, "messages": 11_842, "bytes": 1_204_224, "raw_bytes": 5_659_853},
        "hot_file_bytes": 50_331_648, "hot_free_bytes": 12_582_912, "kept_hot": 2, "unfinished_erasures": 0,
        "paused": "the bucket is full", "last_run_at": 1_767_225_600_000_i64, "job": null, "last_job": null,
    });
    assert_eq!(world.archive().await, shown);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_refused_while_the_archive_is_off() {
    let world = Setup { archive: Arc::new(NoArchive), ..Setup::default() }.start().await;
    let shown = world.archive().await;
    assert_eq!((&shown["place"], &shown["engine_on"]), (&json!(""), &json!(false)));
    let restore = json!({"conversation_id": conversation().to_string()});
    for (path, body) in
        [("/v1/archive/run", json!({})), ("/v1/archive/verify", json!({})), ("/v1/archive/restore", restore)]
    {
        let message = world.order(path, body).await.refused(409, "archive_off");
        assert!(message.contains("archive.engine"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn job_returns_its_progress_and_then_its_report() {
    let archive = FaultyArchive::on();
    let world = archive.setup().start().await;
    archive.hold(true);
    let begun = world.order("/v1/archive/run", json!({"partial": true})).await;
    assert_eq!(begun.status, 202);
    let job_id = begun.json()["job_id"].clone();
    let shown = world.archive().await;
    let job = &shown["job"];
    assert_eq!(job["job_id"], job_id);
    assert_eq!((&job["kind"], &job["stage"]), (&json!("run"), &json!("moving")));
    assert_eq!((&job["done"], &job["total"], &job["report"]), (&json!(1), &json!(4), &Value::Null));
    assert_eq!((&job["finished_at"], &shown["last_job"]), (&Value::Null, &Value::Null));

    archive.hold(false);
    let ended = world.job_ended(job_id.as_str().unwrap()).await;
    assert_eq!((&ended["error"], &ended["done"]), (&Value::Null, &json!(4)));
    let report = json!({
        "conversations": 2, "moved": {"segments": 3, "messages": 2_950, "bytes": 300_000, "raw_bytes": 1_200_000},
        "erased_messages": 0, "orphans_swept": 0, "hot_file_bytes_before": 9_000_000,
        "hot_file_bytes_after": 7_000_000, "took_ms": 420,
    });
    assert_eq!(ended["report"], report);
    let shown = world.archive().await;
    assert_eq!((&shown["job"], &shown["last_job"]), (&Value::Null, &ended));
    assert_eq!(archive.calls(), [ArchiveCall::Run(ArchiveRun { only: None, partial: true })]);
    is_documented("ArchiveBody", &shown);
    for (path, body) in [
        ("/v1/archive/verify", json!({})),
        ("/v1/archive/restore", json!({"conversation_id": conversation().to_string()})),
        ("/v1/erasures", json!({"user_id": "alice"})),
    ] {
        is_documented("JobBody", &world.job(path, body).await);
    }
}

#[track_caller]
fn is_documented(name: &str, answer: &Value) {
    let document = bluetick_server::openapi_document();
    let mut root = document["components"]["schemas"][name].clone();
    root["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&root).unwrap();
    let errors: Vec<String> = validator.iter_errors(answer).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{name}: {errors:?} in {answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_starts_the_matching_job() {
    let archive = FaultyArchive::on();
    let world = archive.setup().start().await;
    let (id, user) = (conversation(), || "alice".parse().unwrap());
    let text = id.to_string();
    let all_of = |scope, through| ArchiveCall::Erase(Erase { scope, through });
    let in_it = || EraseScope::User { user: user(), conversation: Some(id) };
    let everywhere = EraseScope::User { user: user(), conversation: None };
    for (path, body, asked) in [
        ("/v1/archive/run", json!({}), ArchiveCall::Run(ArchiveRun::default())),
        (
            "/v1/archive/run",
            json!({"conversation_id": text}),
            ArchiveCall::Run(ArchiveRun { only: Some(id), partial: false }),
        ),
        ("/v1/archive/verify", json!({}), ArchiveCall::Verify),
        ("/v1/archive/restore", json!({"conversation_id": text}), ArchiveCall::Restore(Some(id))),
        ("/v1/archive/restore", json!({"all": true}), ArchiveCall::Restore(None)),
        ("/v1/erasures", json!({"conversation_id": text}), all_of(EraseScope::Conversation(id), None)),
        (
            "/v1/erasures",
            json!({"conversation_id": text, "through_seq": 480}),
            all_of(EraseScope::Conversation(id), Some(Seq::new(480))),
        ),
        ("/v1/erasures", json!({"user_id": "alice"}), all_of(everywhere, None)),
        ("/v1/erasures", json!({"user_id": "alice", "conversation_id": text}), all_of(in_it(), None)),
    ] {
        let ended = world.job(path, body.clone()).await;
        assert_eq!(ended["error"], Value::Null, "{path} {body}");
        assert_eq!(archive.calls().last(), Some(&asked), "{path} {body}");
    }
    // The body of a run is optional.
    assert_eq!(world.call("POST", "/v1/archive/run", Some(ADMIN_KEY), None).await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_body_names_the_field_and_starts_no_job() {
    let archive = FaultyArchive::on();
    let world = archive.setup().start().await;
    let text = conversation().to_string();
    for (path, body, about) in [
        ("/v1/archive/run", json!({"partial": 1}), "partial: "),
        ("/v1/archive/run", json!({"conversation_id": "x"}), "conversation_id: "),
        ("/v1/archive/run", json!([]), "expected an object"),
        ("/v1/archive/restore", json!({}), "either conversation_id or all"),
        ("/v1/archive/restore", json!({"all": false}), "either conversation_id or all"),
        (
            "/v1/archive/restore",
            json!({"all": true, "conversation_id": text}),
            "either conversation_id or all",
        ),
        ("/v1/archive/restore", json!({"all": "yes"}), "all: "),
        ("/v1/archive/restore", json!({"conversation_id": "x"}), "conversation_id: "),
        ("/v1/erasures", json!({}), "either conversation_id or user_id"),
        ("/v1/erasures", json!({"user_id": "two words"}), "user_id: "),
        ("/v1/erasures", json!({"conversation_id": text, "through_seq": 0}), "through_seq: "),
        ("/v1/erasures", json!({"conversation_id": text, "through_seq": 1_u64 << 60}), "through_seq: "),
        ("/v1/erasures", json!({"user_id": "alice", "through_seq": 7}), "through_seq: "),
    ] {
        let message = world.order(path, body.clone()).await.refused(400, "invalid_request");
        assert!(message.contains(about), "{path} {body}: {message}");
    }
    assert_eq!(archive.calls(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn second_job_is_refused_while_one_is_running() {
    let archive = FaultyArchive::on();
    let world = archive.setup().start().await;
    archive.hold(true);
    let first = world.order("/v1/archive/verify", json!({})).await.json()["job_id"].clone();
    world.order("/v1/archive/run", json!({})).await.refused(409, "archive_busy");
    let erasure = json!({"user_id": "alice"});
    world.order("/v1/erasures", erasure.clone()).await.refused(409, "archive_busy");
    archive.hold(false);
    world.job_ended(first.as_str().unwrap()).await;
    world.job("/v1/erasures", erasure).await;
    assert_eq!(archive.calls().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn immediate_job_failure_is_returned_to_the_caller() {
    let archive = FaultyArchive::on();
    let world = archive.setup().start().await;
    let body = json!({"conversation_id": conversation().to_string()});
    archive.fail_next(ArchiveError::NoSuchConversation);
    world.order("/v1/erasures", body.clone()).await.refused(404, "conversation_not_found");
    archive.fail_next(ArchiveError::NoSuchConversation);
    world.order("/v1/archive/restore", body).await.refused(404, "conversation_not_found");
    archive.fail_next(ArchiveError::Unavailable("connection refused".into()));
    world.order("/v1/archive/verify", json!({})).await.refused(503, "archive_unavailable");
    // The status also returns the error later.
    let last = world.archive().await["last_job"].clone();
    assert!(last["error"].as_str().unwrap().contains("connection refused"), "{last}");
    assert_eq!(last["report"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn panicking_job_fails_and_the_next_job_runs() {
    let archive = FaultyArchive::on();
    let world = archive.setup().start().await;
    archive.panic_next();
    // The job may be running, or may have ended before the first report.
    let begun = world.order("/v1/archive/run", json!({})).await;
    assert!([202, 500].contains(&begun.status), "{}", begun.text());
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    let last = loop {
        let last = world.archive().await["last_job"].clone();
        if !last.is_null() {
            break last;
        }
        assert!(tokio::time::Instant::now() < deadline);
    };
    let error = last["error"].as_str().unwrap();
    assert!(error.contains("failed") && !error.contains("rigged"), "{error}");
    assert_eq!(world.job("/v1/archive/run", json!({})).await["error"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn job_continues_after_its_caller_disconnects() {
    let archive = FaultyArchive::on();
    let world = archive.setup().start().await;
    archive.hold(true);
    let begun = world.order("/v1/archive/verify", json!({})).await.json()["job_id"].clone();
    // The connection of that call is closed; the job is still running.
    assert_eq!(archive.running_jobs.load(Ordering::SeqCst), 1);
    archive.hold(false);
    let ended = world.job_ended(begun.as_str().unwrap()).await;
    let report = &ended["report"];
    assert_eq!((&report["problem_count"], &report["checked"]["segments"]), (&json!(1_001), &json!(3)));
    assert_eq!(report["problems"].as_array().unwrap().len(), 1_000, "the response has a bounded size");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_job_id_is_not_found() {
    let world = FaultyArchive::on().setup().start().await;
    world.call("GET", "/v1/archive/jobs/1-1", Some(ADMIN_KEY), None).await.refused(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_does_not_wait_for_an_archive_job() {
    let archive = FaultyArchive::on();
    let mut world = archive.setup().start().await;
    archive.hold(true);
    assert_eq!(world.order("/v1/archive/verify", json!({})).await.status, 202);
    let begun = tokio::time::Instant::now();
    tokio::time::timeout(TIMEOUT, world.take_server().drain()).await.expect("it ends");
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_erasures_run_at_server_start() {
    let archive = FaultyArchive::on();
    archive.change_status(|status| status.unfinished_erasures = 1);
    let _world = archive.setup().start().await;
    until(|| archive.calls() == [ArchiveCall::Run(ArchiveRun::default())]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_erasure_is_retried_while_the_archive_is_off() {
    let archive = FaultyArchive::on();
    archive.fail_next(ArchiveError::Off);
    let archive_schedule = ArchiveSchedule { every: Duration::from_millis(5), between: None };
    let _world = Setup { archive_schedule, ..archive.setup() }.start().await;
    until(|| archive.calls().len() == 1).await;
    archive.change_status(|status| status.unfinished_erasures = 1);
    until(|| archive.calls().len() >= 3).await;
    assert!(archive.calls().iter().all(|asked| *asked == ArchiveCall::Run(ArchiveRun::default())));
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_runs_continue_after_a_failed_run() {
    let archive = FaultyArchive::on();
    archive.fail_next(ArchiveError::Unavailable("connection refused".into()));
    archive.fail_next(StoreError::Failed("anything".into()).into());
    let archive_schedule = ArchiveSchedule { every: Duration::from_millis(20), between: None };
    let world = Setup { archive_schedule, ..archive.setup() }.start().await;
    until(|| archive.calls().len() >= 4).await;
    assert!(archive.calls().iter().all(|asked| *asked == ArchiveCall::Run(ArchiveRun::default())));
    let last = world.archive().await["last_job"].clone();
    assert_eq!(last["kind"], "run");
}

#[tokio::test(flavor = "multi_thread")]
async fn schedule_starts_no_further_run_while_the_archive_is_off() {
    let archive = FaultyArchive::on();
    archive.fail_next(ArchiveError::Off);
    let archive_schedule = ArchiveSchedule { every: Duration::from_millis(5), between: None };
    let world = Setup { archive_schedule, ..archive.setup() }.start().await;
    until(|| archive.calls().len() == 1).await;
    // These calls take longer than several intervals of the schedule.
    for _ in 0..20 {
        world.archive().await;
    }
    assert_eq!(archive.calls(), [ArchiveCall::Run(ArchiveRun::default())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_export_the_archive_counters() {
    let archive = FaultyArchive::on();
    let world = archive.setup().start().await;
    assert!(world.get("/metrics").await.text().contains("\nbluetick_archive_paused 0\n"));
    archive.change_counters(|counters| {
        (counters.moved_messages, counters.moved_segments) = (1, 2);
        (counters.frame_reads, counters.frame_reads_from_memory) = (3, 4);
        (counters.fetches, counters.fetched_bytes, counters.failed_fetches) = (5, 6, 7);
        (counters.damaged_frames, counters.runs, counters.failed_runs) = (8, 9, 10);
        counters.paused = Some("the bucket is full".into());
    });
    let text = world.get("/metrics").await.text();
    for line in [
        "bluetick_archive_moved_messages_total 1",
        "bluetick_archive_segments_total 2",
        "bluetick_archive_frame_reads_total 3",
        "bluetick_archive_frame_reads_from_memory_total 4",
        "bluetick_archive_fetches_total 5",
        "bluetick_archive_fetched_bytes_total 6",
        "bluetick_archive_failed_fetches_total 7",
        "bluetick_archive_damaged_frames_total 8",
        "bluetick_archive_runs_total 9",
        "bluetick_archive_failed_runs_total 10",
        "bluetick_archive_paused 1",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1);
    assert!(!text.contains("is full"), "metrics contain no error text");
}

async fn until(holds: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
