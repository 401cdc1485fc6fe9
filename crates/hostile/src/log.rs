//! Fuzz target for a damaged commit log file.

use std::path::Path;

use bluetick_store_embedded::log::fuzzing::{FIRST_FRAME, SegmentHeader, path_of};
use bluetick_store_embedded::log::{
    BatchBuffer, BatchNumber, LogError, LogFrame, SegmentNumber, StoreTag, scan,
};

/// The tag of the log that the target writes and scans.
const TAG: StoreTag = StoreTag(*b"thestore");

/// Writes a log and damages it. The first byte of the input selects the number of batches, and the
/// rest fills them. The rest also encodes the damages: an offset (two bytes) and a non-zero XOR
/// mask (one byte) each.
///
/// Asserts that the scan either reports the damage or returns a prefix of the written batches. It
/// never returns a changed batch and never skips one.
pub fn any_damage(bytes: &[u8]) {
    let Some((&batches, damages)) = bytes.split_first() else { return };
    let written: Vec<Vec<u8>> =
        (0..1 + usize::from(batches % 8)).map(|number| payload(number, damages)).collect();
    let mut file = segment(&written);
    let begin = FIRST_FRAME as usize;
    for damage in damages.as_chunks::<3>().0 {
        // Damage the file header too, but mostly the batches after it.
        let at = usize::from(u16::from_le_bytes([damage[0], damage[1]]));
        let length = file.len() - begin + 48;
        let at = at % length;
        let at = if at < 48 { at } else { begin + at - 48 };
        file[at] ^= damage[2].max(1);
    }
    let _ = SegmentHeader::read(&file, Path::new("a segment"));
    let directory = tempfile::tempdir().expect("a temporary directory can be created");
    std::fs::write(path_of(directory.path(), SegmentNumber(1)), &file)
        .expect("the temporary directory is writable");
    let mut read = Vec::new();
    let end = scan(directory.path(), TAG, BatchNumber::NONE, |frame: LogFrame<'_>| {
        read.push(frame.payload.to_vec());
        Ok::<(), LogError>(())
    });
    assert!(written.starts_with(&read), "the scan returned a batch that was not written");
    if let Ok(end) = end {
        assert_eq!(end.next_batch, BatchNumber(read.len() as u64 + 1));
        if damages.len() < 3 {
            assert_eq!(read, written, "an undamaged log lost a batch");
        }
    }
}

fn payload(number: usize, input: &[u8]) -> Vec<u8> {
    input.iter().cycle().skip(number).take((number * 37) % 100).copied().collect()
}

fn segment(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut file = vec![0; FIRST_FRAME as usize];
    for (number, payload) in (1..).zip(payloads) {
        let mut batch = BatchBuffer::with_capacity(payload.len());
        batch.bytes.extend_from_slice(payload);
        batch.events = 1;
        batch.seal(BatchNumber(number), TAG);
        file.extend_from_slice(&batch.bytes);
    }
    // The store preallocates segments, so a file is longer than its content.
    file.resize(file.len() + 256, 0);
    let header = SegmentHeader {
        number: SegmentNumber(1),
        tag: TAG,
        first_batch: BatchNumber(1),
        length: file.len() as u64,
    };
    let header = header.encode();
    file[..header.len()].copy_from_slice(&header);
    file
}
