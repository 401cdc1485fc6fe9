//! Tests of the page reader, with pages that LMDB wrote and damaged copies of them.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

use super::*;
use crate::tables::fill;

/// Tables with several levels, overflow pages and freed pages.
fn tables() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let key = |number: u32| format!("key-{number:08}");
    fill::<TablesError>(
        directory.path(),
        |filling| {
            for number in 0..3_000u32 {
                let row = vec![7; if number % 100 == 0 { 9_000 } else { 60 }];
                filling.put("chunks", key(number).as_bytes(), &row)?;
            }
            for number in 0..500u32 {
                filling.put("names", key(number).as_bytes(), &[])?;
            }
            Ok(())
        },
        |engine| {
            for number in (0..3_000u32).step_by(3) {
                let mut txn = engine.env.write_txn()?;
                engine.chunks.delete(&mut txn, key(number).as_bytes())?;
                if number % 300 == 0 {
                    txn.commit()?;
                }
            }
            Ok(())
        },
    )
    .unwrap();
    directory
}

fn findings(path: &Path) -> Vec<PageFinding> {
    let mut all = Vec::new();
    verify(path, &mut |finding| {
        all.push(finding);
        true
    })
    .unwrap();
    all
}

#[test]
fn check_of_sound_tables_finds_nothing() {
    let directory = tables();
    let path = directory.path().join("data.mdb");
    assert_eq!(findings(&path), []);
    let count = verify(&path, &mut |_| true).unwrap();
    assert!(count.used > 50 && count.free > 0, "{count:?}");
    assert!(verify_at_open(directory.path()).is_ok());
}

/// A flipped bit either yields a finding or changes only the content of a row.
#[test]
fn flipped_bit_is_reported_or_changes_only_a_row() {
    let directory = tables();
    let path = directory.path().join("data.mdb");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let length = file.metadata().unwrap().len();
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let (mut reported, mut by_kind) = (0, BTreeMap::<String, u32>::new());
    for _ in 0..3_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (offset, bit) = ((seed >> 20) % length, (seed >> 8) % 8);
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << bit], offset).unwrap();
        // The check must end without a panic.
        if let Some(first) = findings(&path).first() {
            reported += 1;
            let kind: String = first.what.chars().filter(|c| !c.is_ascii_digit()).collect();
            *by_kind.entry(kind).or_default() += 1;
        }
        file.write_all_at(&byte, offset).unwrap();
    }
    println!("{reported} of 3000: {by_kind:#?}");
    assert!(reported > 100, "too few bit flips were reported: {reported}");
    assert_eq!(findings(&path), []);
}

#[test]
fn every_relevant_bit_flip_in_a_root_is_reported() {
    let directory = tables();
    let path = directory.path().join("data.mdb");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let page = |number: u64| {
        let mut bytes = vec![0; 4096];
        file.read_exact_at(&mut bytes, number * 4096).unwrap();
        bytes
    };
    let newer = (0..2).max_by_key(|number| Meta::read(&page(*number)).transaction).unwrap();
    // Magic and version, then both trees, the last page and the transaction. The bytes between hold
    // the address and size of the map, which the check ignores.
    let start = HEADER_BYTES + 24;
    for at in (HEADER_BYTES..HEADER_BYTES + 8).chain(start + 4..start + 2 * TREE_BYTES + 16) {
        for bit in 0..8 {
            let offset = newer * 4096 + at as u64;
            let before = page(newer)[at];
            file.write_all_at(&[before ^ 1 << bit], offset).unwrap();
            let main_padding = (start + TREE_BYTES..start + TREE_BYTES + 4).contains(&at);
            assert!(main_padding || !findings(&path).is_empty(), "byte {at} bit {bit}");
            file.write_all_at(&[before], offset).unwrap();
        }
    }
}
