//! The partition of each row: a function of the epoch rows below it. Pure.

use bluetick_core::{ConversationId, Seq, StoreError};

use crate::rows::{Item, Key};

/// The partitions of the rows from `from` on, up to the next epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionEpoch {
    pub from: Seq,
    pub partitions: u16,
    /// The number of consecutive seqs in one partition, so that a page touches few partitions.
    pub block: u64,
    /// Whether an epoch row at `from - 1` began it. Earlier versions began epochs in the registry
    /// alone, and named partitions differently.
    pub has_row: bool,
}

/// The epochs of a conversation, as far as a node has read them. Correct for every row below the
/// next epoch row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionMap {
    /// Ascending by `from`. Below the first one, rows are in the plain partition.
    epochs: Vec<PartitionEpoch>,
}

/// Rows of one partition between two seqs, both included.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub partition: String,
    pub first: Seq,
    pub last: Seq,
}

impl PartitionEpoch {
    fn partition(&self, conversation: ConversationId, seq: Seq) -> String {
        match (self.has_row, self.partitions) {
            // The name contains the seq of the epoch row, so partitions of two epochs never mix.
            (true, partitions) => {
                let turn = seq.distance_from(self.from) / self.block % u64::from(partitions);
                format!("{conversation}#{}.{turn}", self.from.previous())
            }
            (false, 0 | 1) => conversation.to_string(),
            (false, partitions) => {
                let turn = seq.previous().get() / self.block % u64::from(partitions);
                format!("{conversation}#{turn}")
            }
        }
    }
}

impl PartitionMap {
    pub fn epochs(&self) -> &[PartitionEpoch] {
        &self.epochs
    }

    pub fn was_ever_hot(&self) -> bool {
        !self.epochs.is_empty()
    }

    /// The number of partitions of the newest rows.
    pub fn partitions(&self) -> u16 {
        self.epochs.last().map_or(1, |epoch| epoch.partitions)
    }

    /// Adds the epoch that the epoch row at `seq` begins. Epochs that were planned for higher seqs,
    /// which only earlier versions did, never begin. A map that was read from the registry may have
    /// the epoch, and later ones, already.
    pub fn begin(&mut self, seq: Seq, partitions: u16, block: u64) {
        let from = seq.next();
        if self.epochs.iter().any(|epoch| epoch.has_row && epoch.from == from) {
            return;
        }
        self.epochs.retain(|epoch| epoch.from < from);
        self.epochs.push(PartitionEpoch { from, partitions, block, has_row: true });
    }

    fn epoch_at(&self, seq: Seq) -> Option<&PartitionEpoch> {
        let above = self.epochs.partition_point(|epoch| epoch.from <= seq);
        above.checked_sub(1).map(|index| &self.epochs[index])
    }

    pub fn key(&self, conversation: ConversationId, seq: Seq) -> Key {
        let partition = match self.epoch_at(seq) {
            Some(epoch) => epoch.partition(conversation, seq),
            None => conversation.to_string(),
        };
        Key::number(partition, seq.get())
    }

    /// Returns the partitions that hold rows between `first` and `last`, each with the span of its
    /// rows.
    pub fn spans(&self, conversation: ConversationId, first: Seq, last: Seq) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut seq = first.max(Seq::FIRST);
        while seq <= last {
            let next_epoch = self.epochs.iter().map(|epoch| epoch.from).find(|from| *from > seq);
            let end_of_epoch = next_epoch.map_or(Seq::MAX, Seq::previous);
            let end = match self.epoch_at(seq) {
                Some(epoch) if epoch.partitions > 1 => {
                    // Epochs without a row count blocks from the first seq of the conversation.
                    let base = if epoch.has_row { epoch.from } else { Seq::FIRST };
                    base.plus((seq.distance_from(base) / epoch.block + 1) * epoch.block).previous()
                }
                _ => end_of_epoch,
            };
            let end = end.min(end_of_epoch).min(last);
            let partition = self.key(conversation, seq).partition;
            match spans.iter_mut().find(|span| span.partition == partition) {
                Some(span) => span.last = end,
                None => spans.push(Span { partition, first: seq, last: end }),
            }
            seq = end.next();
        }
        spans
    }

    /// Returns the partitions of each epoch, the newest epoch first, the plain partition last.
    pub fn downward(&self, conversation: ConversationId) -> Vec<Vec<Span>> {
        let mut steps: Vec<_> = self
            .epochs
            .iter()
            .rev()
            .map(|epoch| {
                let all = 0..u64::from(epoch.partitions.max(1));
                // An epoch without a row shares the names of partitions with others like it, and
                // `from` keeps the older rows out.
                let span = |index: u64| Span {
                    partition: epoch.partition(conversation, epoch.from.plus(index * epoch.block)),
                    first: epoch.from,
                    last: Seq::MAX,
                };
                let mut spans: Vec<_> = all.map(span).collect();
                spans.sort();
                spans.dedup();
                spans
            })
            .collect();
        let last = self.epochs.first().map_or(Seq::MAX, |epoch| epoch.from.previous());
        steps.push(vec![Span { partition: conversation.to_string(), first: Seq::FIRST, last }]);
        steps
    }

    /// Returns the row of the registry: an index of epoch rows for readers.
    pub fn item(&self, version: u64) -> Item {
        let text = |epoch: &PartitionEpoch| {
            let row = if epoch.has_row { ":row" } else { "" };
            format!("{}:{}:{}{row}", epoch.from, epoch.partitions, epoch.block)
        };
        let epochs: Vec<_> = self.epochs.iter().map(text).collect();
        Item::new().text("epochs", epochs.join(",")).versioned(version)
    }

    pub fn decode(item: &Item) -> Result<PartitionMap, StoreError> {
        let damaged = || StoreError::Damaged("a row of the registry of hot conversations".into());
        let text = item.find_text("epochs").map_or("", |text| text);
        let mut epochs = Vec::new();
        for epoch in text.split(',').filter(|epoch| !epoch.is_empty()) {
            let parts: Vec<_> = epoch.split(':').collect();
            let (numbers, has_row) = match parts[..] {
                [from, partitions, block] => ([from, partitions, block], false),
                [from, partitions, block, "row"] => ([from, partitions, block], true),
                _ => return Err(damaged()),
            };
            let [from, partitions, block] = numbers.map(|text| text.parse::<u64>().ok());
            let (from, block) = (from.ok_or_else(damaged)?, block.filter(|block| *block > 0));
            let partitions =
                partitions.and_then(|count| u16::try_from(count).ok()).filter(|count| *count > 0);
            let (partitions, block) = (partitions.ok_or_else(damaged)?, block.ok_or_else(damaged)?);
            epochs.push(PartitionEpoch { from: Seq::new(from), partitions, block, has_row });
        }
        if !epochs.is_sorted_by(|one, next| one.from < next.from) {
            return Err(damaged());
        }
        Ok(PartitionMap { epochs })
    }

    /// Returns whether this map knows every epoch of `other`.
    pub fn includes(&self, other: &PartitionMap) -> bool {
        other.epochs.iter().all(|epoch| self.epochs.contains(epoch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation() -> ConversationId {
        ConversationId::group([7; 15])
    }

    /// An epoch of an earlier version from 1,025 on, then two epoch rows.
    fn map() -> PartitionMap {
        let mut map = PartitionMap::decode(&Item::new().text("epochs", "1025:2:64")).unwrap();
        map.begin(Seq::new(1_200), 3, 4);
        map.begin(Seq::new(1_300), 1, 4);
        map
    }

    #[test]
    fn each_row_has_one_partition_that_its_epoch_names() {
        let name = |seq| map().key(conversation(), Seq::new(seq)).partition;
        let plain = conversation().to_string();
        assert_eq!(name(1_024), plain);
        assert_eq!((name(1_025), name(1_200)), (format!("{plain}#0"), format!("{plain}#0")));
        assert_eq!(name(1_089), format!("{plain}#1"));
        assert_eq!((name(1_201), name(1_205)), (format!("{plain}#1200.0"), format!("{plain}#1200.1")));
        assert_eq!(name(1_301), format!("{plain}#1300.0"));
    }

    #[test]
    fn spans_cover_each_row_in_its_partition() {
        for (first, last) in [(1, 1_400), (1_190, 1_210), (1_202, 1_203), (1_260, 1_310), (3, 2)] {
            let spans = map().spans(conversation(), Seq::new(first), Seq::new(last));
            for seq in (first..=last).map(Seq::new) {
                let key = map().key(conversation(), seq);
                let holds = |span: &&Span| span.partition == key.partition;
                let span = spans.iter().find(holds).expect("a span for each partition");
                assert!((span.first..=span.last).contains(&seq), "{seq} in {span:?}");
            }
        }
        assert_eq!(map().spans(conversation(), Seq::new(1_202), Seq::new(1_206)).len(), 2);
    }

    #[test]
    fn epoch_row_replaces_epochs_planned_above_it() {
        let mut map = PartitionMap::decode(&Item::new().text("epochs", "1025:2:64,3009:5:64")).unwrap();
        map.begin(Seq::new(2_000), 4, 64);
        let begins: Vec<_> = map.epochs().iter().map(|epoch| epoch.from.get()).collect();
        assert_eq!(begins, [1_025, 2_001]);
    }

    #[test]
    fn registry_row_decodes_to_the_same_map() {
        assert_eq!(PartitionMap::decode(&map().item(3)).unwrap(), map());
        for text in ["1025", "1025:0:64", "1025:2:0", "x:2:64", "9:2:64,4:2:64", "9:2:64:column"] {
            assert!(PartitionMap::decode(&Item::new().text("epochs", text)).is_err(), "{text}");
        }
    }

    #[test]
    fn search_for_the_newest_row_begins_with_the_newest_epoch() {
        let steps = map().downward(conversation());
        let sizes: Vec<_> = steps.iter().map(Vec::len).collect();
        assert_eq!(sizes, [1, 3, 2, 1]);
        assert_eq!(steps[3][0].last, Seq::new(1_024));
    }
}
