//! The limit: appending the same bytes in the same batches to a bare file and syncing each, with nothing else done.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::measure::Latencies;

pub struct BareLog {
    pub messages_per_second: f64,
    pub sync: Latencies,
}

/// One batch as the store wrote it.
#[derive(Clone, Copy, Debug)]
pub struct BatchSize {
    pub messages: usize,
    pub bytes: usize,
}

const FILE_BYTES: u64 = 64 << 20;

/// Writes the batches again, over and over the same preallocated file, as a log that recycles its segments would.
pub fn run(directory: &Path, batches: &[BatchSize], at_most: Duration) -> io::Result<BareLog> {
    let path = directory.join("bare.log");
    let file = prepare(&path)?;
    let largest = batches.iter().map(|batch| batch.bytes).max().unwrap_or(0);
    let bytes: Vec<u8> = (0..largest).map(|at| (at * 31) as u8).collect();
    let sync = Latencies::default();
    let (mut messages, mut offset) = (0, 0);
    let started = Instant::now();
    for batch in batches {
        if started.elapsed() > at_most {
            break;
        }
        if offset + batch.bytes as u64 > FILE_BYTES {
            offset = 0;
        }
        file.write_all_at(&bytes[..batch.bytes], offset)?;
        let before = Instant::now();
        file.sync_data()?;
        sync.record(before.elapsed());
        offset += batch.bytes as u64;
        messages += batch.messages;
    }
    let messages_per_second = messages as f64 / started.elapsed().as_secs_f64();
    std::fs::remove_file(&path)?;
    Ok(BareLog { messages_per_second, sync })
}

fn prepare(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
    let zeros = vec![0; 1 << 20];
    for mebibyte in 0..FILE_BYTES >> 20 {
        file.write_all_at(&zeros, mebibyte << 20)?;
    }
    file.sync_all()?;
    Ok(file)
}
