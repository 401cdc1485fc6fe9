//! The source of random bytes of this process. Hash maps get their keys from the operating system,
//! and the keys decide the iteration order. In a seeded thread these bytes follow from the seed.

use std::cell::Cell;

use crate::dice::Dice;

thread_local! {
    /// State of the generator; `None` in a thread that uses the randomness of the system.
    static SEEDED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Makes all randomness of this thread follow from the seed. Call it before the thread creates its
/// first hash map.
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

/// Replaces the C library's `getrandom` in this program. This is the only way to control the hash
/// maps of dependencies.
///
/// # Safety
/// As for the C library: `buffer` is null or valid for writes of `length` bytes, and nothing else
/// accesses it during the call.
#[expect(
    unsafe_code,
    reason = "the system's interface is a pointer and a length; both come from a caller that owns them"
)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    if buffer.is_null() || length == 0 {
        return 0;
    }
    // SAFETY: the caller guarantees it, see above; the bytes are initialized first and then only
    // written to.
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
    fn thread_hash_tables_follow_from_the_seed() {
        assert_eq!(hash_in_a_seeded_thread(1), hash_in_a_seeded_thread(1));
        assert_ne!(hash_in_a_seeded_thread(1), hash_in_a_seeded_thread(2));
    }
}
