//! Tests of the segment format: round trips, damage, versions.

use proptest::prelude::*;

use super::*;

fn name(count: u64) -> SegmentName {
    SegmentName {
        store: *b"thestore",
        conversation: ConversationId::group([7; 15]),
        first: Seq::new(65),
        last: Seq::new(64 + count),
        revision: 2,
    }
}

fn seal_all(blocks: &[Vec<Vec<u8>>]) -> (SegmentName, EncodedSegment) {
    let borrowed: Vec<Vec<&[u8]>> =
        blocks.iter().map(|records| records.iter().map(Vec::as_slice).collect()).collect();
    let name = name(borrowed.iter().map(Vec::len).sum::<usize>() as u64);
    (name, seal(&name, &borrowed))
}

fn small() -> EncodedSegment {
    seal_all(&[vec![b"one".to_vec(), Vec::new()], vec![b"three".to_vec()]]).1
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn sealed_segment_equals_the_recorded_bytes_of_version_1() {
    let sealed = small();
    let header = "42545347 01746865 73746f72 65670707 07070707 07070707 07070707 07410000 00000000 00430000 00000000 \
                  00020000 00ca268a 6a";
    let blocks = "28b52ffd 20052900 00036f6e 6500 28b52ffd 20063100 00057468 726565";
    let index = "02000000 35000000 00000000 0e000000 05000000 4fd19d20 \
                 01000000 43000000 00000000 0f000000 06000000 a5d05710";
    let footer = "52000000 00000000 02000000 cbb740b0 34dc22bb";
    let expected = [header, blocks, index, footer].concat().replace(' ', "");
    assert_eq!(hex(&sealed.bytes), expected);
    assert_eq!(sealed.raw_bytes, 11);
}

#[test]
fn segment_of_version_1_opens() {
    let opened = open(&small().bytes).unwrap();
    assert_eq!(opened.name, name(3));
    assert_eq!(opened.records().collect::<Vec<_>>(), [&b"one"[..], b"", b"three"]);
    assert_eq!(opened.blocks.iter().map(|(block, _)| *block).collect::<Vec<_>>(), small().blocks);
}

#[test]
fn equal_records_seal_to_equal_bytes() {
    assert_eq!(small().bytes, small().bytes);
}

#[test]
fn segment_with_any_flipped_bit_is_refused() {
    let whole = small().bytes;
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(open(&damaged).is_err(), "bit {bit}");
    }
}

#[test]
fn truncated_or_extended_segment_is_refused() {
    let whole = small().bytes;
    for length in 0..whole.len() {
        assert!(open(&whole[..length]).is_err(), "{length}");
        assert!(open(&whole[whole.len() - length..]).is_err(), "without the first {length}");
    }
    for more in [1, INDEX_ENTRY_BYTES, FOOTER_BYTES, whole.len()] {
        let longer: Vec<u8> = whole.iter().copied().cycle().take(whole.len() + more).collect();
        assert!(open(&longer).is_err(), "{more} more");
    }
}

#[test]
fn bytes_between_the_blocks_and_the_index_are_refused() {
    let mut bytes = small().bytes.to_vec();
    let footer = bytes.len() - FOOTER_BYTES;
    let index = footer - 2 * INDEX_ENTRY_BYTES;
    bytes.insert(index, 0);
    // The footer has the new offset and a valid checksum, so that only the gap is wrong.
    bytes[footer + 1] += 1;
    let checksum = crc32fast::hash(&bytes[footer + 1..footer + 17]);
    bytes[footer + 17..].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(open(&bytes).err(), Some(Damage::Malformed("the offset of the index")));
}

#[test]
fn block_with_a_flipped_bit_or_truncation_is_refused() {
    let EncodedSegment { bytes, blocks, .. } = small();
    let block = blocks[0];
    let start = usize::try_from(block.offset).unwrap();
    let stored = &bytes[start..start + block.length as usize];
    assert_eq!(decode_block(stored, &block).unwrap().record(0), Some(&b"one"[..]));
    for bit in 0..stored.len() * 8 {
        let mut damaged = stored.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(decode_block(&damaged, &block).err(), Some(Damage::Checksum("a block")), "bit {bit}");
    }
    for length in 0..stored.len() {
        assert_eq!(decode_block(&stored[..length], &block).err(), Some(Damage::Short), "{length}");
    }
}

#[test]
fn wrong_block_length_is_refused_before_allocation() {
    let EncodedSegment { bytes, blocks, .. } = small();
    let start = usize::try_from(blocks[0].offset).unwrap();
    let stored = &bytes[start..start + blocks[0].length as usize];
    for raw_length in [0, 1, blocks[0].raw_length + 1, u32::MAX] {
        let wrong = BlockRef { raw_length, ..blocks[0] };
        assert_eq!(decode_block(stored, &wrong).err(), Some(Damage::Malformed("the length of a block")));
    }
    // A block with a valid checksum that claims 4 GiB of content.
    let mut promise = stored.to_vec();
    promise.splice(4..6, [0xa0, 0xff, 0xff, 0xff, 0xff]);
    let wrong = BlockRef {
        length: promise.len() as u32,
        raw_length: u32::MAX,
        checksum: crc32fast::hash(&promise),
        offset: 0,
    };
    assert_eq!(decode_block(&promise, &wrong).err(), Some(Damage::Malformed("the length of a block")));
}

#[test]
fn foreign_object_and_newer_version_differ_from_damage() {
    assert_eq!(open(b"").err(), Some(Damage::NotASegment));
    assert_eq!(open(b"<html>gone</html>").err(), Some(Damage::NotASegment));
    let mut newer = small().bytes.to_vec();
    newer[4] = 2;
    assert_eq!(open(&newer).err(), Some(Damage::Version(2)));
}

#[test]
#[should_panic(expected = "the name states the number of records")]
fn seal_panics_if_the_record_count_differs_from_the_name() {
    seal(&name(3), &[vec![b"one", b"two"]]);
}

#[test]
fn chat_text_compresses_to_less_than_a_quarter() {
    let records: Vec<Vec<u8>> =
        (0..256).map(|number| format!("alice: see you tomorrow at {number}").into_bytes()).collect();
    let (_, sealed) = seal_all(&[records]);
    assert!(sealed.bytes.len() * 4 < sealed.raw_bytes as usize, "{}", sealed.bytes.len());
}

proptest! {
    #[test]
    fn segment_round_trips_its_records(
        blocks in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..40), 1..6),
    ) {
        let (name, sealed) = seal_all(&blocks);
        let opened = open(&sealed.bytes).unwrap();
        prop_assert_eq!(opened.name, name);
        prop_assert_eq!(opened.records().map(<[u8]>::to_vec).collect::<Vec<_>>(), blocks.concat());
        for (block, records) in sealed.blocks.iter().zip(&blocks) {
            let start = usize::try_from(block.offset).unwrap();
            let decoded = decode_block(&sealed.bytes[start..start + block.length as usize], block).unwrap();
            prop_assert_eq!(decoded.len(), records.len());
            prop_assert_eq!(decoded.record(records.len()), None);
            prop_assert!(decoded.weight() >= block.raw_length as usize);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, block: (u64, u32, u32)) {
        let _ = open(&bytes);
        let (offset, raw_length, checksum) = block;
        let block = BlockRef { offset, length: bytes.len() as u32, raw_length, checksum };
        let _ = decode_block(&bytes, &block);
        let _ = decode_block(&bytes, &BlockRef { checksum: crc32fast::hash(&bytes), ..block });
    }

    #[test]
    fn arbitrary_payloads_with_right_checksums_never_panic(raw: Vec<u8>, count in 0..5u32) {
        let stored = zstd::bulk::compress(&raw, 1).unwrap();
        let block = BlockRef {
            offset: HEADER_BYTES as u64,
            length: stored.len() as u32,
            raw_length: raw.len() as u32,
            checksum: crc32fast::hash(&stored),
        };
        let _ = decode_block(&stored, &block);
        let mut bytes = Vec::new();
        put_header(&mut bytes, &name(3));
        bytes.extend_from_slice(&stored);
        let index = bytes.len();
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes.extend_from_slice(&block.offset.to_le_bytes());
        for word in [block.length, block.raw_length, block.checksum] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let checksum = crc32fast::hash(&bytes[index..]);
        let footer = bytes.len();
        bytes.extend_from_slice(&(index as u64).to_le_bytes());
        bytes.extend_from_slice(&1u32.to_le_bytes());
        bytes.extend_from_slice(&checksum.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[footer..]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        let _ = open(&bytes);
    }
}
