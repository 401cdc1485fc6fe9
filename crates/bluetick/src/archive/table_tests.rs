//! Tests of the status table and of the reports.

use bluetick_core::ports::{
    ArchiveCounters, ArchiveStatus, ColdCount, EraseReport, RestoreReport, RunReport, VerifyReport,
};

use super::*;

/// The archived messages and segments of every report in these tests.
const COLD: ColdCount = ColdCount { segments: 12, messages: 11_842, bytes: 1_204_224, raw_bytes: 5_659_853 };
/// The duration of every job in these tests.
const TOOK: Duration = Duration::from_millis(3_200);
/// 2026-01-01 00:00 UTC, in milliseconds.
const NEW_YEAR: i64 = 1_767_225_600_000;

fn told(report: impl Into<ReportBody>) -> String {
    reported(&ArchiveTask::Verify, &report.into())
}

fn job(error: Option<&str>, stage: Option<StageBody>) -> JobBody {
    JobBody {
        job_id: "1-1".into(),
        kind: JobKind::Run,
        stage,
        done: 350,
        total: 1_000,
        started_at: NEW_YEAR,
        finished_at: error.map(|_| NEW_YEAR + 420),
        error: error.map(str::to_owned),
        report: None,
    }
}

#[test]
fn archive_without_problems_prints_a_short_status() {
    let archive = ArchiveStatus {
        place: "directory /var/lib/bluetick/archive".into(),
        cold: COLD,
        hot_file_bytes: 50_331_648,
        ..ArchiveStatus::default()
    };
    let counters =
        ArchiveCounters { last_run_at: Some(Timestamp::from_millis(NEW_YEAR)), ..ArchiveCounters::default() };
    let expected = "\
Archive        directory /var/lib/bluetick/archive
Archived       11,842 messages in 12 segments, 1.2 MB (5.7 MB before compression, 4.7 : 1)
Hot tables     50.3 MB
Last run       2026-01-01 00:00:00 UTC
";
    assert_eq!(status(&ArchiveBody::new(archive, counters, None, None)), expected);
}

#[test]
fn archive_with_problems_prints_each_problem() {
    let archive = ArchiveStatus {
        place: "s3 chat/bluetick at http://127.0.0.1:9000".into(),
        hot_file_bytes: 50_331_648,
        hot_free_bytes: 12_582_912,
        kept_hot: 2,
        unfinished_erasures: 1,
        ..ArchiveStatus::default()
    };
    let counters =
        ArchiveCounters { paused: Some("the bucket is full".into()), ..ArchiveCounters::default() };
    let (job, last) = (job(None, Some(StageBody::Moving)), job(Some("the bucket is full"), None));
    let expected = "\
Archive        s3 chat/bluetick at http://127.0.0.1:9000
Archived       nothing
Hot tables     50.3 MB, 12.6 MB of it free for reuse
Kept hot       2 conversations, restored from the archive
To be erased   1 erasure unfinished; the next run continues
Last run       none yet
Paused         the bucket is full; the next scheduled run tries again
Under way      run, moving: 350 of 1,000, since 2026-01-01 00:00:00 UTC
Last job       run, 2026-01-01 00:00:00 UTC, failed: the bucket is full
";
    assert_eq!(status(&ArchiveBody::new(archive, counters, Some(job), Some(last))), expected);
}

#[test]
fn disabled_archive_status_names_the_setting_that_enables_it() {
    let off = ArchiveBody::new(ArchiveStatus::default(), ArchiveCounters::default(), None, None);
    assert!(status(&off).starts_with("Archive        off (archive.engine in the settings)\n"));
}

#[test]
fn archive_run_report_shows_moved_messages_and_bytes_before_and_after() {
    let report = RunReport {
        conversations: 34,
        moved: COLD,
        erased_messages: 7,
        orphans_swept: 1,
        hot_file_bytes_before: 60_000_000,
        hot_file_bytes_after: 48_000_000,
        took: TOOK,
    };
    let expected = "\
Moved          11,842 messages of 34 conversations, in 12 segments
In the archive 1.2 MB (5.7 MB before compression, 4.7 : 1)
Erased         7 messages
Deleted        1 object without a reference
Hot tables     60.0 MB before, 48.0 MB after (12.0 MB returned to the disk)
Took           3.2 s
";
    assert_eq!(told(report), expected);
    let nothing = told(RunReport::default());
    assert!(nothing.starts_with("Moved          nothing; "), "{nothing}");
    assert!(!nothing.contains("Hot tables"), "{nothing}");
}

#[test]
fn verify_restore_and_erase_reports_show_their_counts() {
    let problems = vec!["segment a is gone".into(), "segment b has a wrong checksum".into()];
    let verify = VerifyReport { checked: COLD, problems, took: TOOK };
    assert_eq!(
        told(verify),
        "\
Read           11,842 messages in 12 segments, 1.2 MB (5.7 MB before compression, 4.7 : 1)
Problems       2
Took           3.2 s
- segment a is gone
- segment b has a wrong checksum
"
    );
    let many = VerifyReport { problems: vec!["gone".into(); 1_500], ..VerifyReport::default() };
    assert!(told(many).ends_with("- gone\n- and 500 more\n"));
    let restore = RestoreReport { segments: 3, messages: 2_950, took: TOOK };
    assert_eq!(told(restore), "Restored       2,950 messages from 3 segments\nTook           3.2 s\n");
    let erase =
        EraseReport { conversations: 1, messages: 7, segments_rewritten: 1, segments_deleted: 2, took: TOOK };
    assert_eq!(
        told(erase),
        "Erased         7 messages in 1 conversation\nArchive        1 segment rewritten, 2 deleted\nTook           3.2 s\n"
    );
}

#[test]
fn erase_report_without_matches_states_that_nothing_was_found() {
    let erase = |user_id: Option<&str>| {
        let request = ErasureRequest { user_id: user_id.map(str::to_owned), ..ErasureRequest::default() };
        reported(&ArchiveTask::Erase(request), &EraseReport::default().into())
    };
    let nobody = "Erased         nothing; no messages by alicia were found, or all were erased before\n";
    assert!(erase(Some("alicia")).starts_with(nobody), "{}", erase(Some("alicia")));
    assert!(erase(None).starts_with("Erased         nothing; there are no messages"), "{}", erase(None));
}
