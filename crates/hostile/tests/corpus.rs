//! Runs all fuzz targets on the stored corpus, without the fuzzer.

use std::alloc::System;
use std::collections::BTreeSet;
use std::path::PathBuf;

use bluetick_hostile::TARGETS;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

/// Counts the allocated bytes of each input.
#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Upper bound on the bytes allocated for one input. A length field may request at most a 64 MiB
/// chunk, and no corpus input requests that much.
const MOST_BYTES: usize = 48 << 20;

fn corpus() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus"))
}

#[test]
fn corpus_is_decoded_without_panic_and_within_the_memory_bound() {
    let mut files = 0;
    for (name, target) in TARGETS {
        for entry in
            corpus().join(name).read_dir().unwrap_or_else(|error| panic!("corpus of {name}: {error}"))
        {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            // The test harness shows this path if the input fails.
            println!("{}", path.display());
            let region = Region::new(GLOBAL);
            target(&bytes);
            let asked_for = region.change().bytes_allocated;
            assert!(asked_for < MOST_BYTES, "{asked_for} bytes for {} of input", bytes.len());
            files += 1;
        }
    }
    assert!(files >= TARGETS.len(), "the corpus directory was not found");
}

#[test]
fn every_fuzz_target_has_a_binary_and_a_small_corpus() {
    let named: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let names_in = |folder: PathBuf, ending: &str| -> BTreeSet<String> {
        let names = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter_map(|name| name.strip_suffix(ending).map(ToOwned::to_owned)).collect()
    };
    assert_eq!(names_in(corpus(), ""), named);
    assert_eq!(names_in(corpus().join("../fuzz_targets"), ".rs"), named);
    let files = named.iter().flat_map(|name| corpus().join(name).read_dir().unwrap());
    let sizes: Vec<u64> = files.map(|file| file.unwrap().metadata().unwrap().len()).collect();
    assert!(sizes.len() < 200, "{} files", sizes.len());
    assert!(sizes.iter().sum::<u64>() < 500_000, "{} bytes", sizes.iter().sum::<u64>());
}

#[test]
fn every_target_accepts_empty_and_repeated_bytes() {
    for (_, target) in TARGETS {
        target(b"");
        for byte in [0, 1, b'{', b'"', 0x7f, 0x80, 0xff] {
            for length in [1, 2, 20, 53, 300] {
                target(&vec![byte; length]);
            }
        }
    }
}
