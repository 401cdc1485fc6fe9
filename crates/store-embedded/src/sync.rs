//! A mutex that refuses access after a panic of an earlier holder.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// A mutex for state that a panic can leave half-updated. After such a panic, [`PanicMutex::lock`]
/// panics too, so no caller reads or continues that state. A restart replays the log instead.
///
/// `parking_lot::Mutex` has no such check. Use it where each update is a single step.
#[derive(Default)]
pub struct PanicMutex<T> {
    has_panicked: AtomicBool,
    inner: parking_lot::Mutex<T>,
}

/// Unlocks on drop, and records whether the holder panics.
pub struct PanicMutexGuard<'a, T> {
    has_panicked: &'a AtomicBool,
    /// Whether the thread was already panicking when it took the lock.
    was_panicking: bool,
    inner: parking_lot::MutexGuard<'a, T>,
}

impl<T> PanicMutex<T> {
    pub fn new(value: T) -> PanicMutex<T> {
        PanicMutex { has_panicked: AtomicBool::new(false), inner: parking_lot::Mutex::new(value) }
    }

    /// Panics if an earlier holder panicked.
    pub fn lock(&self) -> PanicMutexGuard<'_, T> {
        let inner = self.inner.lock();
        assert!(!self.has_panicked.load(Ordering::Relaxed), "a panic left this state half-updated");
        PanicMutexGuard { has_panicked: &self.has_panicked, was_panicking: std::thread::panicking(), inner }
    }
}

impl<T> Deref for PanicMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for PanicMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T> Drop for PanicMutexGuard<'_, T> {
    fn drop(&mut self) {
        // Runs before `inner` unlocks, so the lock orders this store.
        if !self.was_panicking && std::thread::panicking() {
            self.has_panicked.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn panic_of_a_holder_refuses_every_later_lock() {
        let mutex = PanicMutex::new((1, 1));
        mutex.lock().0 = 2;
        assert_eq!(*mutex.lock(), (2, 1));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut state = mutex.lock();
            state.0 = 3;
            panic!("before the second half of the update");
        }));
        assert!(panicked.is_err());
        for _ in 0..2 {
            assert!(catch_unwind(AssertUnwindSafe(|| mutex.lock().0)).is_err());
        }
    }

    #[test]
    fn panic_elsewhere_leaves_the_lock_usable() {
        let mutex = PanicMutex::new(1);
        assert!(catch_unwind(|| panic!("without the lock")).is_err());
        assert_eq!(*mutex.lock(), 1);
    }
}
