//! Tests of the whole log: a scan returns the appended batches, and reports damage as damage.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tempfile::TempDir;

use super::segment::{self, FIRST_FRAME};
use super::*;
use crate::disk::{Disk, Faults};

pub(super) const TAG: StoreTag = StoreTag(*b"storetag");
/// Space for a header page and three batches of [`BIG`] bytes.
const SEGMENT_BYTES: u64 = 4096 + 3 * 1024;
pub(super) const BIG: usize = 1000;

pub(super) struct TestLog {
    directory: TempDir,
    faults: Arc<Faults>,
}

impl TestLog {
    pub(super) fn new() -> TestLog {
        TestLog { directory: TempDir::new().unwrap(), faults: Arc::default() }
    }

    pub(super) fn writer(&self, checkpoint: u64) -> LogWriter {
        let (_, end) = self.read(checkpoint).unwrap();
        let disk = Disk::with_faults(Arc::clone(&self.faults));
        let spares = Spares::open(self.directory.path(), disk.clone(), SEGMENT_BYTES).unwrap();
        let directory = self.directory.path().to_owned();
        let settings = WriterSettings { directory, segment_bytes: SEGMENT_BYTES, tag: TAG, disk };
        LogWriter::resume(settings, Arc::new(spares), end).unwrap()
    }

    /// Returns the first byte of every non-empty batch after `checkpoint`.
    pub(super) fn read(&self, checkpoint: u64) -> Result<(Vec<u8>, ScanEnd), LogError> {
        let mut seen = Vec::new();
        let end = scan(self.directory.path(), TAG, BatchNumber(checkpoint), |frame| {
            seen.extend(frame.payload.first());
            Ok::<_, LogError>(())
        })?;
        Ok((seen, end))
    }

    pub(super) fn seen(&self) -> Vec<u8> {
        self.read(0).unwrap().0
    }

    pub(super) fn note(&self) -> PathBuf {
        self.directory.path().join(DURABLE_FILE)
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Returns what `verify` reports.
    pub(super) fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        verify(
            self.directory.path(),
            Some(TAG),
            BatchNumber::NONE,
            &mut |found| findings.push(found.what),
            &mut |_, _, _| {},
        )
        .unwrap();
        findings
    }

    pub(super) fn segments(&self) -> Vec<PathBuf> {
        segment::list(self.directory.path()).unwrap().into_iter().map(|(_, path)| path).collect()
    }
}

pub(super) fn append(writer: &mut LogWriter, name: u8) -> Result<(), AppendError> {
    let mut batch = BatchBuffer::with_capacity(BIG);
    batch.bytes.resize(batch.bytes.len() + BIG - 32, name);
    batch.events = 1;
    writer.append(&mut batch).map(|_| ())
}

#[test]
fn batches_are_read_in_order_across_segments_and_restarts() {
    let log = TestLog::new();
    for round in 0..4 {
        let mut writer = log.writer(0);
        for name in 0..4 {
            append(&mut writer, round * 4 + name).unwrap();
        }
    }
    assert_eq!(log.seen(), (0..16).collect::<Vec<_>>());
    assert_eq!(log.segments().len(), 6);
}

#[test]
fn torn_tail_is_dropped_and_its_space_is_reused() {
    for torn_to in [0, 1, 31, 32, 500, BIG - 1] {
        let log = TestLog::new();
        let mut writer = log.writer(0);
        append(&mut writer, 1).unwrap();
        let note = fs::read(log.note()).unwrap();
        append(&mut writer, 2).unwrap();
        drop(writer);
        // A torn batch was not synced, so the note does not contain it.
        fs::write(log.note(), note).unwrap();
        let file = segment::open(&log.segments()[0]).unwrap();
        let tail = vec![0; BIG - torn_to];
        file.write_all_at(&tail, FIRST_FRAME + BIG as u64 + torn_to as u64).unwrap();
        assert_eq!(log.seen(), [1], "torn to {torn_to}");
        append(&mut log.writer(0), 3).unwrap();
        assert_eq!(log.seen(), [1, 3]);
    }
}

#[test]
fn flipped_bit_before_newer_batches_is_damage_with_file_and_offset() {
    for damaged_batch in 0..2 {
        let log = TestLog::new();
        let mut writer = log.writer(0);
        for name in 1..=3 {
            append(&mut writer, name).unwrap();
        }
        let offset = FIRST_FRAME + damaged_batch * BIG as u64;
        let file = segment::open(&log.segments()[0]).unwrap();
        file.write_all_at(b"!", offset + 77).unwrap();
        match log.read(0) {
            Err(LogError::Damaged { offset: found, .. }) => assert_eq!(found, offset),
            other => panic!("expected damage, got {other:?}"),
        }
    }
}

#[test]
fn damage_at_end_of_earlier_segment_is_not_the_end_of_the_log() {
    let log = TestLog::new();
    let mut writer = log.writer(0);
    for name in 1..=4 {
        append(&mut writer, name).unwrap();
    }
    assert_eq!(log.segments().len(), 2);
    let file = segment::open(&log.segments()[0]).unwrap();
    file.write_all_at(b"!", FIRST_FRAME + 2 * BIG as u64 + 77).unwrap();
    assert!(matches!(log.read(0), Err(LogError::Damaged { .. })));
}

#[test]
fn missing_segment_is_damage() {
    let log = TestLog::new();
    let mut writer = log.writer(0);
    for name in 1..=7 {
        append(&mut writer, name).unwrap();
    }
    fs::remove_file(&log.segments()[1]).unwrap();
    assert!(matches!(log.read(0), Err(LogError::Damaged { .. })));
    assert!(matches!(log.read(3), Err(LogError::Damaged { .. })));
    fs::remove_file(&log.segments()[0]).unwrap();
    assert!(matches!(log.read(2), Err(LogError::Damaged { .. })));
}

#[test]
fn stale_bytes_in_recycled_segment_are_not_read() {
    let log = TestLog::new();
    let mut writer = log.writer(0);
    for name in 1..=4 {
        append(&mut writer, name).unwrap();
    }
    writer.recycle_through(BatchNumber(3)).unwrap();
    assert_eq!(log.segments().len(), 1, "the first segment waits as a spare");
    for name in 5..=7 {
        append(&mut writer, name).unwrap();
    }
    drop(writer);
    let recycled = fs::read(&log.segments()[1]).unwrap();
    assert_eq!(recycled[FIRST_FRAME as usize + BIG + 40], 2, "an old batch lies behind the new one");
    assert_eq!(log.read(3).unwrap().0, [4, 5, 6, 7]);
    let mut writer = log.writer(3);
    append(&mut writer, 8).unwrap();
    assert_eq!(log.read(3).unwrap().0, [4, 5, 6, 7, 8]);
}

#[test]
fn scan_after_checkpoint_returns_only_later_batches() {
    let log = TestLog::new();
    let mut writer = log.writer(0);
    for name in 1..=5 {
        append(&mut writer, name).unwrap();
    }
    assert_eq!(log.read(2).unwrap().0, [3, 4, 5]);
    assert_eq!(log.read(5).unwrap().0, [0; 0]);
    assert!(matches!(log.read(6), Err(LogError::Damaged { .. })), "tables newer than the log");
}

#[test]
fn segment_taken_from_spares_without_header_holds_nothing() {
    let log = TestLog::new();
    let mut writer = log.writer(0);
    for name in 1..=4 {
        append(&mut writer, name).unwrap();
    }
    writer.recycle_through(BatchNumber(3)).unwrap();
    drop(writer);
    fs::rename(
        log.directory.path().join("spare-0"),
        segment::path_of(log.directory.path(), SegmentNumber(3)),
    )
    .unwrap();
    assert_eq!(log.read(3).unwrap().0, [4]);
    append(&mut log.writer(3), 5).unwrap();
    assert_eq!(log.read(3).unwrap().0, [4, 5]);
}

#[test]
fn log_continues_without_the_refused_batch_after_failed_write() {
    let log = TestLog::new();
    let mut writer = log.writer(0);
    append(&mut writer, 1).unwrap();
    log.faults.full.store(true, Ordering::SeqCst);
    assert!(append(&mut writer, 2).is_err());
    assert!(append(&mut writer, 3).is_err());
    log.faults.full.store(false, Ordering::SeqCst);
    append(&mut writer, 4).unwrap();
    assert_eq!(log.seen(), [1, 4]);
}

#[test]
fn batch_of_failed_sync_is_not_read() {
    let log = TestLog::new();
    let mut writer = log.writer(0);
    append(&mut writer, 1).unwrap();
    log.faults.sync_fails.store(true, Ordering::SeqCst);
    assert!(append(&mut writer, 2).is_err());
    log.faults.sync_fails.store(false, Ordering::SeqCst);
    append(&mut writer, 3).unwrap();
    append(&mut writer, 4).unwrap();
    assert_eq!(log.seen(), [1, 3, 4]);
    append(&mut log.writer(0), 5).unwrap();
    assert_eq!(log.seen(), [1, 3, 4, 5]);
}

#[test]
fn damaged_header_of_last_segment_does_not_delete_its_batches() {
    let log = TestLog::new();
    append(&mut log.writer(0), 1).unwrap();
    segment::open(&log.segments()[0]).unwrap().write_all_at(b"!", 3).unwrap();
    assert!(matches!(log.read(0), Err(LogError::Damaged { .. })));
    assert_eq!(log.segments().len(), 1, "the segment is kept for a repair");
}

#[test]
fn only_segment_with_damaged_header_is_not_deleted_as_new() {
    let log = TestLog::new();
    append(&mut log.writer(0), 1).unwrap();
    segment::open(&log.segments()[0]).unwrap().write_all_at(b"!", 3).unwrap();
    // The tables contain its only batch.
    let refused = log.read(1).unwrap_err().to_string();
    assert!(refused.contains("header of the segment is damaged"), "{refused}");
    assert_eq!(log.segments().len(), 1, "the segment is kept for a repair");
}

#[test]
fn segments_of_another_store_are_refused() {
    let log = TestLog::new();
    append(&mut log.writer(0), 1).unwrap();
    let foreign =
        scan(log.directory.path(), StoreTag(*b"another-"), BatchNumber::NONE, |_| Ok::<_, LogError>(()));
    assert!(matches!(foreign, Err(LogError::Damaged { .. })));
}

#[test]
fn truncated_segment_is_damage_even_at_the_end_of_the_log() {
    let log = TestLog::new();
    let mut writer = log.writer(0);
    append(&mut writer, 1).unwrap();
    append(&mut writer, 2).unwrap();
    drop(writer);
    segment::open(&log.segments()[0]).unwrap().set_len(FIRST_FRAME + BIG as u64).unwrap();
    assert!(matches!(log.read(0), Err(LogError::Damaged { .. })));
}

#[test]
fn last_batch_is_synced_again_at_start() {
    let log = TestLog::new();
    append(&mut log.writer(0), 1).unwrap();
    // The state after a crash before the sync: complete in the page cache, unknown on disk.
    log.faults.sync_fails.store(true, Ordering::SeqCst);
    let (_, end) = log.read(0).unwrap();
    assert!(end.last_batch_bytes.is_some());
    let disk = Disk::with_faults(Arc::clone(&log.faults));
    let spares = Spares::open(log.directory.path(), disk.clone(), SEGMENT_BYTES).unwrap();
    let directory = log.directory.path().to_owned();
    let settings = WriterSettings { directory, segment_bytes: SEGMENT_BYTES, tag: TAG, disk };
    assert!(
        LogWriter::resume(settings, Arc::new(spares), end).is_err(),
        "without the sync there is no opening"
    );
    log.faults.sync_fails.store(false, Ordering::SeqCst);
    append(&mut log.writer(0), 2).unwrap();
    assert_eq!(log.seen(), [1, 2]);
}

#[test]
fn repeated_disk_failures_do_not_use_a_segment_per_attempt() {
    let log = TestLog::new();
    let mut writer = log.writer(0);
    append(&mut writer, 1).unwrap();
    log.faults.sync_fails.store(true, Ordering::SeqCst);
    for _ in 0..20 {
        assert!(append(&mut writer, 2).is_err());
    }
    assert!(log.segments().len() <= 2, "{:?}", log.segments());
    log.faults.sync_fails.store(false, Ordering::SeqCst);
    append(&mut writer, 3).unwrap();
    assert_eq!(log.seen(), [1, 3]);
}

#[test]
fn rolled_log_continues_in_next_segment_without_the_earlier_ones() {
    let log = TestLog::new();
    let mut writer = log.writer(0);
    append(&mut writer, 1).unwrap();
    assert_eq!(writer.roll().unwrap(), BatchNumber(1));
    assert_eq!(log.segments().len(), 2);
    append(&mut writer, 3).unwrap();
    assert_eq!(log.seen(), [1, 3]);
    writer.recycle_through(BatchNumber(1)).unwrap();
    assert_eq!(log.segments().len(), 1);
    assert_eq!(log.read(1).unwrap().0, [3]);
    append(&mut log.writer(1), 4).unwrap();
    assert_eq!(log.read(1).unwrap().0, [3, 4]);
}

#[test]
fn log_that_cannot_roll_continues_in_the_same_segment() {
    for sync_only in [false, true] {
        let log = TestLog::new();
        let mut writer = log.writer(0);
        for name in 1..=4 {
            append(&mut writer, name).unwrap();
        }
        writer.recycle_through(BatchNumber(3)).unwrap();
        let switch = if sync_only { &log.faults.sync_fails } else { &log.faults.full };
        switch.store(true, Ordering::SeqCst);
        assert!(writer.roll().is_err());
        switch.store(false, Ordering::SeqCst);
        append(&mut writer, 5).unwrap();
        assert_eq!(log.segments().len(), 1);
        assert_eq!(log.read(3).unwrap().0, [4, 5]);
    }
}

#[test]
fn provisioner_ends_on_close_even_while_creation_fails() {
    let log = TestLog::new();
    log.faults.full.store(true, Ordering::SeqCst);
    let (ended, all_ended) = std::sync::mpsc::channel();
    for _ in 0..500 {
        let disk = Disk::with_faults(Arc::clone(&log.faults));
        let spares = Arc::new(Spares::open(log.directory.path(), disk, SEGMENT_BYTES).unwrap());
        let (provisioned, ended) = (Arc::clone(&spares), ended.clone());
        let provisioner = std::thread::spawn(move || {
            provisioned.provision();
            ended.send(()).unwrap();
        });
        // `close` often hits the provisioner during its first attempt.
        std::thread::yield_now();
        spares.close();
        assert!(all_ended.recv_timeout(Duration::from_secs(20)).is_ok(), "the call never returns");
        provisioner.join().unwrap();
    }
}

#[test]
fn copy_that_ends_before_the_durable_batch_is_damage() {
    let log = TestLog::new();
    let mut writer = log.writer(0);
    for name in 1..=2 {
        append(&mut writer, name).unwrap();
    }
    let durable = writer.last_batch();
    assert_eq!((durable, writer.spares().durable()), (BatchNumber(2), durable));
    let copied = |after: u64, durable| {
        copy(log.directory.path(), TAG, BatchNumber(after), durable, |_, _| Ok::<_, LogError>(()))
    };
    assert_eq!(copied(0, durable).unwrap().through, durable);
    let segment = log.segments().pop().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let offset = usize::try_from(FIRST_FRAME).unwrap() + BIG + BIG / 2;
    bytes[offset] ^= 1;
    fs::write(&segment, bytes).unwrap();
    assert!(matches!(copied(0, durable), Err(LogError::Damaged { .. })));
    assert_eq!(copied(0, BatchNumber(1)).unwrap().through, BatchNumber(1));
    // A copy need not contain batches that the tables have.
    assert_eq!(copied(2, durable).unwrap().through, durable);
}
