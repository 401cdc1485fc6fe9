//! Flips bits in files and truncates files of a closed store. Every read returns the right answer
//! or an error that names the location, and a check reports the damage.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod full_store;

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bluetick_core::StoreError;
use bluetick_core::ports::Store;
use bluetick_store_embedded::check::CheckParts;
use bluetick_store_embedded::tables::Tables;
use bluetick_testkit::dice::Dice;
use full_store::common::copy_of;
use full_store::{Contents, closed, contents_of, open};
use tempfile::TempDir;

fn seed() -> u64 {
    std::env::var("BLUETICK_SEED").ok().map_or(20_261_116, |seed| seed.parse().unwrap())
}

/// Lists the files of the data directory except the lock and the archive, which has tests of its
/// own.
fn files_of(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for part in ["tables", "log"] {
        for entry in std::fs::read_dir(directory.join(part)).unwrap().flatten() {
            files.push(PathBuf::from(part).join(entry.file_name()));
        }
    }
    files.sort();
    files
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Opening fails and names the file or the row.
    RefusedToStart,
    /// Some reads fail, and all others return the right answer.
    NamedWhenAsked,
    Unharmed,
}

/// Opens the store on these files and reads everything.
async fn outcome_of(
    directory: &Path,
    known: &Contents,
    all: &[(bluetick_core::ConversationId, &str)],
    what: &str,
) -> Outcome {
    let store = match open(directory) {
        Ok(store) => store,
        Err(error) => {
            let text = error.to_string();
            let names = ["data.mdb", ".log", "/log", "row is damaged", "batch ", "tables"];
            assert!(
                names.iter().any(|name| text.contains(name)),
                "{what}: the refusal does not name the damage: {text}"
            );
            return Outcome::RefusedToStart;
        }
    };
    let mut outcome = Outcome::Unharmed;
    for (id, reader) in all {
        match contents_of(&store, *id, reader).await {
            Err(StoreError::Damaged(_) | StoreError::Failed(_)) => outcome = Outcome::NamedWhenAsked,
            Err(other) => panic!("{what}: {other:?}"),
            Ok(said) => assert_eq!(said, known[&id.to_string()], "{what}: a damaged row was served"),
        }
    }
    store.close().await;
    outcome
}

fn check_report(directory: &Path) -> u64 {
    let parts =
        CheckParts { data_dir: directory.to_owned(), progress: Arc::new(bluetick_core::ports::NoProgress) };
    bluetick_store_embedded::check::check(parts).unwrap().finding_count
}

#[tokio::test(flavor = "multi_thread")]
async fn flipped_bit_in_any_file_is_reported_or_harmless() {
    let seed = seed();
    println!("BLUETICK_SEED={seed}");
    let mut dice = Dice::new(seed);
    let sound = TempDir::new().unwrap();
    let (all, known) = closed(sound.path()).await;
    // Compact the tables, so that few bytes belong to free pages.
    Tables::open(&sound.path().join("tables")).unwrap().compact(&|| false).unwrap();
    let mut seen: BTreeMap<(String, Outcome, bool), u32> = BTreeMap::new();
    for file in files_of(sound.path()) {
        let name = file.display().to_string();
        let path = sound.path().join(&file);
        let length = path.metadata().unwrap().len();
        // Damage used bytes only: most of a log is zeros.
        let used = std::fs::read(&path)
            .unwrap()
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last as u64 + 1);
        if length == 0 || used == 0 {
            continue;
        }
        let whole = std::fs::read(&path).unwrap();
        for _ in 0..if name.contains("data.mdb") { 120 } else { 12 } {
            let bit = dice.below(8);
            let offset = loop {
                let offset = dice.below(used);
                if whole[usize::try_from(offset).unwrap()] != 0 || dice.one_in(500) {
                    break offset;
                }
            };
            let directory = copy_of(sound.path());
            let damaged = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(directory.path().join(&file))
                .unwrap();
            let mut byte = [0];
            damaged.read_exact_at(&mut byte, offset).unwrap();
            damaged.write_all_at(&[byte[0] ^ 1 << bit], offset).unwrap();
            drop(damaged);
            let found = check_report(directory.path()) > 0;
            let what = format!("{name} byte {offset} bit {bit}");
            let outcome = outcome_of(directory.path(), &known, &all, &what).await;
            if outcome != Outcome::Unharmed {
                assert!(found, "{what}: {outcome:?}, and the check found no damage");
            }
            let kind = if name.contains("spare") { "log/spare" } else { &name };
            *seen.entry((kind.to_owned(), outcome, found)).or_default() += 1;
        }
    }
    for ((file, outcome, found), count) in &seen {
        println!("{file}: {outcome:?}, {} by check: {count}", if *found { "named" } else { "nothing found" });
    }
    assert!(seen.keys().any(|(_, outcome, _)| *outcome == Outcome::RefusedToStart), "{seen:?}");
    assert!(seen.keys().any(|(_, outcome, _)| *outcome == Outcome::NamedWhenAsked), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_file_is_reported() {
    let sound = TempDir::new().unwrap();
    let (all, known) = closed(sound.path()).await;
    for file in files_of(sound.path()) {
        let name = file.display().to_string();
        let length = sound.path().join(&file).metadata().unwrap().len();
        for kept in [0, 1, length / 3, length / 2, length.saturating_sub(4096), length.saturating_sub(1)] {
            let directory = copy_of(sound.path());
            let path = directory.path().join(&file);
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(kept).unwrap();
            let found = check_report(directory.path()) > 0;
            let what = format!("{name} cut from {length} to {kept}");
            let outcome = outcome_of(directory.path(), &known, &all, &what).await;
            println!("{what}: {outcome:?}, found {found}");
            // The store recreates these files when it opens, so their length does not matter.
            let is_spare = name.contains("spare") || name.contains("lock.mdb") || name == "log/durable";
            assert!(
                is_spare || (outcome == Outcome::RefusedToStart && found),
                "{what}: {outcome:?}, found {found}"
            );
            assert!(!is_spare || outcome == Outcome::Unharmed, "{what}: {outcome:?}");
        }
    }
}
