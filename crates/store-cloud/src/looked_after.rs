//! What is looked after for a while in the background, because nobody knows what became of it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard};

/// More than these are left to whoever meets them next.
const MOST_LOOKED_AFTER: usize = 10_000;

/// Each thing once at a time, and once more where there was another reason meanwhile.
pub(crate) struct LookedAfter<K>(Mutex<HashMap<K, bool>>);

impl<K> Default for LookedAfter<K> {
    fn default() -> Self {
        LookedAfter(Mutex::default())
    }
}

impl<K: Eq + Hash> LookedAfter<K> {
    fn all(&self) -> MutexGuard<'_, HashMap<K, bool>> {
        self.0.lock().expect("nothing panics while it holds the lock")
    }

    /// Whether nobody does so yet, and there are not too many.
    pub fn begin(&self, key: K) -> bool {
        let mut all = self.all();
        if let Some(once_more) = all.get_mut(&key) {
            *once_more = true;
            return false;
        }
        let has_room = all.len() < MOST_LOOKED_AFTER;
        if has_room {
            all.insert(key, false);
        }
        has_room
    }

    /// Whether that was all.
    pub fn end(&self, key: &K) -> bool {
        let mut all = self.all();
        match all.get_mut(key) {
            Some(once_more) if *once_more => {
                *once_more = false;
                false
            }
            _ => {
                all.remove(key);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_after_once_more_is_not_forgotten_in_between() {
        let looked_after = LookedAfter::default();
        assert!(looked_after.begin("a") && looked_after.begin("b"));
        assert!(!looked_after.begin("a"));
        assert!(!looked_after.end(&"a") && looked_after.end(&"a"));
        assert!(looked_after.begin("a"));
    }
}
