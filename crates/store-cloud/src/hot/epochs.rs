//! The row of the registry: over how many partitions a conversation is spread, from which place on, and up to where that
//! is decided for good. Pure; reading and writing the row is the [`keeper`](super::keeper)'s.
//!
//! Invariant: a later version of a row says the same as an earlier one about every place up to the earlier one's horizon.
//! [`Registry::extended`] is the only way to a next version, and begins a new epoch above the horizon.

use bluetick_core::{Seq, StoreError};

use super::place::{Layout, Partition};
use crate::rows::Item;

/// From `from` on, until the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaltEpoch {
    pub from: Seq,
    pub partitions: u16,
    /// Kept with the epoch, so that another size can be chosen one day.
    pub block: u64,
}

/// A version of the row. Without a row: version 0, one partition, decided up to [`Layout::plain_through`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    version: u64,
    horizon: Seq,
    /// Ascending, never taken out.
    epochs: Vec<SaltEpoch>,
}

/// With so many, a conversation is spread further where it must be and never less, which ends the list.
const MANY_EPOCHS: usize = 1_000;

impl Registry {
    pub fn absent(layout: &Layout) -> Registry {
        Registry { version: 0, horizon: layout.plain_through, epochs: Vec::new() }
    }

    /// The first row. It decides nothing new, except that what stands in the plain partition already stays there: messages
    /// may have been brought in from elsewhere.
    pub fn adopted(layout: &Layout, newest: Seq) -> Registry {
        let horizon = layout.plain_through.max(layout.end_of_block(newest));
        Registry { version: 1, horizon, epochs: Vec::new() }
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Up to here it is decided where places lie, and nothing is written above.
    pub fn horizon(&self) -> Seq {
        self.horizon
    }

    pub fn epochs(&self) -> &[SaltEpoch] {
        &self.epochs
    }

    /// Whether this version knows for good where `seq` lies. Nobody writes to a place, be it a void, without knowing that.
    pub fn covers(&self, seq: Seq) -> bool {
        seq <= self.horizon
    }

    pub fn was_ever_salted(&self) -> bool {
        !self.epochs.is_empty()
    }

    /// The newest epoch's.
    pub fn partitions(&self) -> u16 {
        self.epochs.last().map_or(1, |epoch| epoch.partitions)
    }

    /// Where `seq` lies; a guess, good enough to look there first, where this version does not cover it.
    pub fn partition(&self, seq: Seq) -> Partition {
        let above = self.epochs.partition_point(|epoch| epoch.from <= seq);
        match above.checked_sub(1) {
            Some(index) => Partition::of(seq, self.epochs[index].partitions, self.epochs[index].block),
            None => Partition::Plain,
        }
    }

    /// The stretches in which one epoch holds, between `first` and `last`. The first one may be before any epoch.
    pub fn stretches(&self, first: Seq, last: Seq) -> impl Iterator<Item = (Seq, Seq, Option<SaltEpoch>)> {
        let begins = std::iter::once((Seq::ZERO, None));
        let begins = begins.chain(self.epochs.iter().map(|epoch| (epoch.from, Some(*epoch))));
        let ends = self.epochs.iter().map(|epoch| epoch.from.previous()).chain([Seq::MAX]);
        begins.zip(ends).filter_map(move |((begin, epoch), end)| {
            let (begin, end) = (begin.max(first), end.min(last));
            (begin <= end).then_some((begin, end, epoch))
        })
    }

    /// The next version: decided at least up to `through`. Another number of partitions begins just above the horizon, where
    /// nobody has written and nobody will who has not read this version or a later one.
    #[must_use]
    pub fn extended(&self, layout: &Layout, through: Seq, wanted: u16) -> Registry {
        assert!(self.version > 0, "the first row is adopted");
        let mut next = self.clone();
        next.version += 1;
        let first = self.horizon.next();
        next.horizon = layout.end_of_block(through.max(first)).max(self.horizon);
        let wanted = wanted.clamp(1, layout.most_partitions);
        let may_change = wanted > self.partitions() || self.epochs.len() < MANY_EPOCHS;
        if wanted != self.partitions() && may_change && first <= next.horizon {
            next.epochs.push(SaltEpoch { from: first, partitions: wanted, block: layout.block });
        }
        next
    }

    pub fn item(&self) -> Item {
        let item = Item::new().count("horizon", self.horizon.get()).versioned(self.version);
        let epochs: Vec<_> = self
            .epochs
            .iter()
            .map(|epoch| format!("{}:{}:{}", epoch.from, epoch.partitions, epoch.block))
            .collect();
        item.text_if("epochs", (!epochs.is_empty()).then(|| epochs.join(",")))
    }

    /// All but the version, for a copy.
    pub fn text(&self) -> String {
        let item = self.item();
        format!("{};{}", self.horizon, item.find_text("epochs").map_or("", |epochs| epochs))
    }

    pub fn from_text(version: u64, text: &str) -> Option<Registry> {
        let (horizon, epochs) = text.split_once(';')?;
        let item = Item::new().number("horizon", horizon.parse().ok()?).versioned(version);
        Registry::decode(&item.text("epochs", epochs)).ok()
    }

    pub fn decode(item: &Item) -> Result<Registry, StoreError> {
        let damaged = || StoreError::Damaged("a row of the registry of hot conversations".into());
        let text = item.find_text("epochs").map_or("", |text| text);
        let epochs = text.split(',').filter(|epoch| !epoch.is_empty()).map(|epoch| {
            let mut parts = epoch.split(':');
            let mut part = || parts.next()?.parse::<u64>().ok();
            let (from, partitions, block) = (part()?, part()?, part()?);
            let partitions = u16::try_from(partitions).ok().filter(|partitions| *partitions > 0)?;
            Some(SaltEpoch {
                from: Seq::new(from),
                partitions,
                block: Some(block).filter(|block| *block > 0)?,
            })
        });
        let epochs: Vec<_> = epochs.collect::<Option<_>>().ok_or_else(damaged)?;
        let horizon = Seq::new(item.find_count("horizon"));
        let ascends = epochs.is_sorted_by(|one, next| one.from < next.from);
        let is_below = epochs.last().is_none_or(|last| last.from <= horizon);
        if item.version() == 0 || horizon == Seq::ZERO || !ascends || !is_below {
            return Err(damaged());
        }
        Ok(Registry { version: item.version(), horizon, epochs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout::CHOSEN;

    fn grown() -> Registry {
        let first = Registry::adopted(&LAYOUT, Seq::new(9));
        let two = first.extended(&LAYOUT, Seq::new(2_000), 2);
        two.extended(&LAYOUT, Seq::new(3_000), 2).extended(&LAYOUT, Seq::new(4_000), 5)
    }

    #[test]
    fn an_epoch_begins_just_above_what_was_decided_before() {
        let grown = grown();
        let begins: Vec<_> =
            grown.epochs().iter().map(|epoch| (epoch.from.get(), epoch.partitions)).collect();
        assert_eq!(begins, [(1_025, 2), (3_009, 5)]);
        assert_eq!((grown.horizon().get(), grown.version()), (4_032, 4));
    }

    #[test]
    fn a_later_version_says_the_same_about_what_an_earlier_one_covers() {
        let mut versions = vec![Registry::absent(&LAYOUT), Registry::adopted(&LAYOUT, Seq::ZERO)];
        for (step, wanted) in [1, 2, 5, 1, 1, 64, 200, 3].into_iter().enumerate() {
            let through = Seq::new(1_500 + 700 * step as u64);
            versions.push(versions.last().unwrap().extended(&LAYOUT, through, wanted));
        }
        let latest = versions.last().unwrap();
        for version in &versions {
            for seq in (1..=version.horizon().get()).map(Seq::new) {
                assert_eq!(
                    version.partition(seq),
                    latest.partition(seq),
                    "{seq} in version {}",
                    version.version()
                );
            }
        }
        assert_eq!(latest.epochs().iter().map(|epoch| epoch.partitions).max(), Some(LAYOUT.most_partitions));
    }

    #[test]
    fn what_was_brought_in_from_elsewhere_stays_in_the_plain_partition() {
        let adopted = Registry::adopted(&LAYOUT, Seq::new(70_000));
        let salted = adopted.extended(&LAYOUT, Seq::new(70_001), 4);
        assert_eq!(salted.partition(Seq::new(70_000)), Partition::Plain);
        assert_eq!(salted.epochs()[0].from, Seq::new(70_017));
    }

    #[test]
    fn the_list_of_epochs_ends() {
        let mut registry = Registry::adopted(&LAYOUT, Seq::ZERO);
        for step in 0..5_000 {
            registry =
                registry.extended(&LAYOUT, registry.horizon().next(), if step % 2 == 0 { 9 } else { 8 });
        }
        assert_eq!(
            registry.epochs().len(),
            MANY_EPOCHS + usize::from(registry.epochs()[MANY_EPOCHS - 1].partitions == 8)
        );
        assert_eq!(registry.partitions(), 9);
        assert!(registry.item().find_text("epochs").unwrap().len() < 20_000);
    }

    #[test]
    fn the_end_of_all_places_is_no_epoch() {
        let registry = Registry::adopted(&LAYOUT, Seq::MAX);
        assert_eq!(registry.extended(&LAYOUT, Seq::MAX, 7).epochs(), []);
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let grown = grown();
        assert_eq!(grown.item().find_text("epochs").unwrap().as_ref(), "1025:2:64,3009:5:64");
        assert_eq!(Registry::decode(&grown.item()).unwrap(), grown);
        let plain = Registry::adopted(&LAYOUT, Seq::ZERO);
        assert_eq!(Registry::decode(&plain.item()).unwrap(), plain);
        for registry in [grown, plain] {
            assert_eq!(Registry::from_text(registry.version(), &registry.text()), Some(registry));
        }
        assert_eq!(Registry::from_text(3, "4032"), None);
    }

    #[test]
    fn a_row_that_makes_no_sense_is_refused() {
        let row = |epochs: &str| Item::new().count("horizon", 4_032).versioned(3).text("epochs", epochs);
        for epochs in ["1025", "1025:0:64", "1025:2:0", "3009:5:64,1025:2:64", "4033:2:64", "x:2:64"] {
            assert!(Registry::decode(&row(epochs)).is_err(), "{epochs}");
        }
        assert!(Registry::decode(&Item::new().count("horizon", 9)).is_err());
    }
}
