//! Where the process gets its unpredictable bytes. Hash tables of the standard library and of others ask the system for
//! theirs, and the order in which they are walked follows from them: in a thread that has a seed, the answer does too.

use std::cell::Cell;

use crate::dice::Dice;

thread_local! {
    static SEEDED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// From here on everything that is unpredictable in this thread follows from the seed. Before the first hash table.
pub fn seed(seed: u64) {
    SEEDED.set(Some(seed));
    fastrand::seed(seed);
}

fn fill(bytes: &mut [u8]) -> usize {
    let Some(seed) = SEEDED.get() else {
        return rustix::rand::getrandom(bytes, rustix::rand::GetRandomFlags::empty()).unwrap_or(0);
    };
    let mut dice = Dice::new(seed);
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&dice.throw().to_le_bytes()[..chunk.len()]);
    }
    SEEDED.set(Some(dice.throw()));
    bytes.len()
}

/// Takes the place of the C library's function of this name in this program, which is the only way to reach the hash
/// tables of others.
///
/// # Safety
/// As the C library's: `buffer` is null or has room for `length` bytes, which nobody else uses meanwhile.
#[expect(
    unsafe_code,
    reason = "the system's interface is a pointer and a length; both come from a caller that owns them"
)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    if buffer.is_null() || length == 0 {
        return 0;
    }
    // SAFETY: the caller promises it, see above; the bytes are only written to.
    let bytes = unsafe {
        buffer.write_bytes(0, length);
        std::slice::from_raw_parts_mut(buffer, length)
    };
    isize::try_from(fill(bytes)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    fn hash_in_a_seeded_thread(seed: u64) -> u64 {
        let hashing = std::thread::spawn(move || {
            super::seed(seed);
            std::hash::RandomState::new().hash_one("bluetick")
        });
        hashing.join().expect("hashing does not panic")
    }

    #[test]
    fn the_hash_tables_of_a_thread_follow_from_its_seed() {
        assert_eq!(hash_in_a_seeded_thread(1), hash_in_a_seeded_thread(1));
        assert_ne!(hash_in_a_seeded_thread(1), hash_in_a_seeded_thread(2));
    }
}
