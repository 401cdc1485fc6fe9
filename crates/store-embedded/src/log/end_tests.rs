//! Tests of damage at the end of the log, which the last segment alone cannot distinguish from the
//! end itself.

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use super::segment::{self, FIRST_FRAME};
use super::tests::{BIG, TAG, TestLog, append};
use super::*;

/// The number of batches in the test log. Three batches fit into a segment.
const BATCHES: u8 = 60;

/// Returns a log of [`BATCHES`] batches with all its segments.
fn written() -> TestLog {
    let log = TestLog::new();
    let mut writer = log.writer(0);
    for name in 1..=BATCHES {
        append(&mut writer, name).unwrap();
    }
    log
}

/// Overwrites the last `count` batches with `byte`, including the segment headers behind the first
/// of them.
fn destroy(log: &TestLog, count: u8, byte: u8) {
    let segments = log.segments();
    for batch in BATCHES - count..BATCHES {
        let file = segment::open(&segments[usize::from(batch) / 3]).unwrap();
        let offset = FIRST_FRAME + u64::from(batch % 3) * BIG as u64;
        file.write_all_at(&[byte; BIG], offset).unwrap();
    }
}

fn refusal(log: &TestLog) -> String {
    match log.read(0) {
        Err(error @ LogError::Damaged { .. }) => error.to_string(),
        other => panic!("expected damage, got {other:?}"),
    }
}

#[test]
fn acknowledged_batches_destroyed_at_log_end_are_refused_and_reported() {
    for count in [1, 2, 3, 5, 20, 35] {
        for byte in [0, 0xA5] {
            let log = written();
            assert_eq!(log.findings(), [""; 0]);
            destroy(&log, count, byte);
            let what = format!("{count} batches overwritten with {byte:#x}");
            refusal(&log);
            assert_ne!(log.findings(), [""; 0], "{what}");
        }
    }
}

/// The segments behind the first lost batch are missing too, as if the log ended there.
#[test]
fn acknowledged_batches_lost_with_their_segments_are_refused_and_named() {
    for count in [1, 5, 20, 35] {
        let log = written();
        destroy(&log, count, 0);
        let first_lost = BATCHES - count;
        for path in &log.segments()[usize::from(first_lost).div_ceil(3)..] {
            fs::remove_file(path).unwrap();
        }
        let words = format!("batches {} to {BATCHES} are lost", first_lost + 1);
        assert!(refusal(&log).contains(&words), "{}", refusal(&log));
        assert!(log.findings().iter().any(|found| found.contains(&words)), "{:?}", log.findings());
        fs::remove_file(log.note()).unwrap();
        assert_eq!(log.seen(), (1..=first_lost).collect::<Vec<_>>(), "an operator accepts the loss");
        append(&mut log.writer(0), 99).unwrap();
        assert_eq!((log.seen().last(), log.findings()), (Some(&99), vec![]));
    }
}

#[test]
fn log_with_batches_after_the_newest_claim_opens() {
    let log = TestLog::new();
    let mut writer = log.writer(0);
    append(&mut writer, 1).unwrap();
    let note = fs::read(log.note()).unwrap();
    for name in 2..=9 {
        append(&mut writer, name).unwrap();
    }
    drop(writer);
    let notes = [note, Vec::new(), vec![0; 4096], vec![0xA5; 4096], vec![0xA5; 77]];
    for note in notes {
        fs::write(log.note(), note).unwrap();
        assert_eq!((log.seen().len(), log.findings()), (9, vec![]));
    }
    fs::remove_file(log.note()).unwrap();
    assert_eq!((log.seen().len(), log.findings()), (9, vec![]));
    log.writer(0);
    destroy_last_of_nine(&log);
    assert!(refusal(&log).contains("batches 9 to 9 are lost"), "opening notes the last batch");
}

fn destroy_last_of_nine(log: &TestLog) {
    let file = segment::open(&log.segments()[2]).unwrap();
    file.write_all_at(&[0; BIG], FIRST_FRAME + 2 * BIG as u64).unwrap();
}

#[test]
fn claim_of_another_store_is_ignored() {
    let (log, other) = (TestLog::new(), TestLog::new());
    append(&mut log.writer(0), 1).unwrap();
    let note = fs::read(written().note()).unwrap();
    fs::write(other.note(), note).unwrap();
    let foreign = StoreTag(*b"another-");
    let end = scan(other.directory(), foreign, BatchNumber::NONE, |_| Ok::<_, LogError>(())).unwrap();
    assert_eq!(end.next_batch, BatchNumber(1));
    assert_ne!(foreign, TAG);
}

/// The batch whose sync failed is still in the previous segment; the next segment reuses its
/// number.
#[test]
fn unacknowledged_batch_does_not_replace_lost_batch_of_same_number() {
    let log = TestLog::new();
    let mut writer = log.writer(0);
    append(&mut writer, 1).unwrap();
    log.faults().sync_fails.store(true, Ordering::SeqCst);
    assert!(append(&mut writer, 2).is_err());
    log.faults().sync_fails.store(false, Ordering::SeqCst);
    append(&mut writer, 3).unwrap();
    drop(writer);
    assert_eq!((log.seen(), log.findings()), (vec![1, 3], vec![]));
    fs::remove_file(&log.segments()[1]).unwrap();
    assert!(refusal(&log).contains("batch 2 is not the stored one"));
    assert!(log.findings()[0].contains("batch 2 is not the stored one"));
}

#[test]
fn failed_claim_write_loses_no_batch_and_claims_nothing_false() {
    let log = TestLog::new();
    let mut writer = log.writer(0);
    append(&mut writer, 1).unwrap();
    log.faults().full.store(true, Ordering::SeqCst);
    assert!(append(&mut writer, 2).is_err(), "the log itself is full");
    log.faults().full.store(false, Ordering::SeqCst);
    assert_eq!((log.seen(), log.findings()), (vec![1], vec![]));
    // The note file cannot even be created.
    drop(writer);
    fs::remove_file(log.note()).unwrap();
    fs::create_dir(log.note()).unwrap();
    let mut writer = log.writer(0);
    append(&mut writer, 2).unwrap();
    assert_eq!((log.seen(), log.findings()), (vec![1, 2], vec![]));
}

#[test]
fn power_failure_at_any_write_keeps_every_acknowledged_batch() {
    for power in 1..40 {
        for thirds in 0..=3 {
            let log = TestLog::new();
            append(&mut log.writer(0), 1).unwrap();
            let mut writer = log.writer(0);
            log.faults().volatile.store(true, Ordering::SeqCst);
            log.faults().power_left.store(power, Ordering::SeqCst);
            let mut acknowledged = 1;
            for name in 2..=12 {
                if append(&mut writer, name).is_err() {
                    break;
                }
                acknowledged = name;
            }
            drop(writer);
            log.faults().cut_power(thirds).unwrap();
            let seen = log.seen();
            assert!(seen.len() >= usize::from(acknowledged), "power {power}, {thirds} thirds: {seen:?}");
            assert_eq!(log.findings(), [""; 0], "power {power}, {thirds} thirds");
        }
    }
}

/// The worst order of writes: the note reaches the disk and the batches do not.
#[test]
fn log_opens_after_power_failure_that_keeps_only_the_claim() {
    for power in 1..40 {
        let log = TestLog::new();
        append(&mut log.writer(0), 1).unwrap();
        let mut writer = log.writer(0);
        log.faults().volatile.store(true, Ordering::SeqCst);
        log.faults().power_left.store(power, Ordering::SeqCst);
        let acknowledged = (2..=12).take_while(|name| append(&mut writer, *name).is_ok()).count() + 1;
        drop(writer);
        log.faults().cut_power_but(|length| if length == durable::ENTRY_BYTES { length } else { 0 }).unwrap();
        let seen = log.seen();
        assert!(seen.len() >= acknowledged, "power {power}: {seen:?}");
        assert_eq!(log.findings(), [""; 0], "power {power}");
    }
}

#[test]
fn log_without_the_segments_before_its_claim_opens() {
    let log = TestLog::new();
    let mut writer = log.writer(0);
    for name in 1..=3 {
        append(&mut writer, name).unwrap();
    }
    let note = fs::read(log.note()).unwrap();
    assert_eq!(writer.roll().unwrap(), BatchNumber(3));
    writer.recycle_through(BatchNumber(3)).unwrap();
    drop(writer);
    // The note of the first batch in the new segment did not reach the disk.
    fs::write(log.note(), note).unwrap();
    assert_eq!(log.read(3).unwrap().1.next_batch, BatchNumber(5));
}
