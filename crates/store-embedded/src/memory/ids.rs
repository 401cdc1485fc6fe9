//! The message ids that a conversation has seen recently: fingerprint to seq, eight bytes each.

use bluetick_core::Seq;
use hashbrown::HashTable;

use crate::codec::chunk::Fingerprint;

/// The message ids of the dedupe window.
///
/// A fingerprint may map to several seqs when ids collide; the caller compares the messages.
///
/// The table has two halves, so that a busy conversation does not keep ids forever. New ids go into
/// the young half. Once per window the young half replaces the old one, whose ids are then at least
/// a window old and are dropped.
#[derive(Debug, Default)]
pub struct IdTable {
    young: HashTable<IdEntry>,
    old: HashTable<IdEntry>,
    /// The store's life in milliseconds ([`crate::dedupe`]) when the young half was started.
    young_since_ms: Option<u64>,
}

/// A message id in the table. The low half of the seq is enough: the window of a conversation holds
/// far fewer than 2^32 messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IdEntry {
    fingerprint: Fingerprint,
    seq_low: u32,
}

/// Fingerprints are hashes already; this spreads them over the bits that the table uses.
fn spread(fingerprint: Fingerprint) -> u64 {
    u64::from(fingerprint.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl IdTable {
    /// Drops expired ids lazily, never before the window ends. Both arguments are in the store's
    /// own time ([`crate::dedupe`]), which wall-clock jumps do not change.
    pub fn age(&mut self, life_ms: u64, window_ms: u64) {
        let since_ms = *self.young_since_ms.get_or_insert(life_ms);
        if life_ms.saturating_sub(since_ms) >= window_ms {
            self.old = std::mem::take(&mut self.young);
            self.young_since_ms = Some(life_ms);
        }
    }

    pub fn insert(&mut self, fingerprint: Fingerprint, seq: Seq) {
        if fingerprint != Fingerprint::NONE {
            let entry = IdEntry { fingerprint, seq_low: seq.get() as u32 };
            self.young.insert_unique(spread(fingerprint), entry, |entry| spread(entry.fingerprint));
        }
    }

    pub fn remove(&mut self, fingerprint: Fingerprint, seq: Seq) {
        let gone = IdEntry { fingerprint, seq_low: seq.get() as u32 };
        for half in [&mut self.young, &mut self.old] {
            if let Ok(found) = half.find_entry(spread(fingerprint), |entry| *entry == gone) {
                found.remove();
            }
        }
    }

    pub fn id_count(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Returns the seqs that may hold the id, none of them above `newest`.
    pub fn candidates(&self, fingerprint: Fingerprint, newest: Seq) -> impl Iterator<Item = Seq> {
        let (young, old) =
            (self.young.iter_hash(spread(fingerprint)), self.old.iter_hash(spread(fingerprint)));
        young.chain(old).filter(move |entry| entry.fingerprint == fingerprint).map(move |entry| {
            let back = (newest.get() as u32).wrapping_sub(entry.seq_low);
            newest.minus(u64::from(back))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_found_at_each_seq_until_removed() {
        let mut ids = IdTable::default();
        let far = Seq::new((7 << 32) + 3);
        ids.insert(Fingerprint(9), far);
        ids.insert(Fingerprint(9), far.minus(5));
        ids.insert(Fingerprint(8), far.plus(1));
        let mut found: Vec<_> = ids.candidates(Fingerprint(9), far.plus(1)).collect();
        found.sort();
        assert_eq!(found, [far.minus(5), far]);
        ids.remove(Fingerprint(9), far);
        assert_eq!(ids.candidates(Fingerprint(9), far.plus(1)).collect::<Vec<_>>(), [far.minus(5)]);
    }

    #[test]
    fn seqs_on_both_sides_of_32_bits_round_trip() {
        let mut ids = IdTable::default();
        let border = Seq::new(1 << 32);
        ids.insert(Fingerprint(1), border.minus(2));
        ids.insert(Fingerprint(2), border.plus(2));
        assert_eq!(ids.candidates(Fingerprint(1), border.plus(9)).collect::<Vec<_>>(), [border.minus(2)]);
        assert_eq!(ids.candidates(Fingerprint(2), border.plus(9)).collect::<Vec<_>>(), [border.plus(2)]);
    }

    #[test]
    fn id_stays_for_one_window_and_then_expires() {
        let mut ids = IdTable::default();
        let mut found_at = |now: u64| {
            ids.age(now, 100);
            if now == 90 {
                ids.insert(Fingerprint(1), Seq::FIRST);
            }
            ids.candidates(Fingerprint(1), Seq::new(9)).count()
        };
        assert_eq!([0, 90, 100, 150, 189].map(&mut found_at), [0, 1, 1, 1, 1]);
        assert_eq!([10, 195].map(&mut found_at), [1, 1]);
        assert_eq!([200, 300].map(&mut found_at), [0, 0]);
    }

    #[test]
    fn notices_have_no_id() {
        let mut ids = IdTable::default();
        ids.insert(Fingerprint::NONE, Seq::FIRST);
        assert_eq!(ids.candidates(Fingerprint::NONE, Seq::FIRST).count(), 0);
    }
}
