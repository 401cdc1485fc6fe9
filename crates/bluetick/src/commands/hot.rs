//! `bluetick hot`: lists the conversations that have ever been spread over several partitions.

use std::sync::Arc;

use bluetick_core::StoreError;
use bluetick_core::time::{Clock, SystemClock};
use bluetick_store_cloud::hot::Registry;
use bluetick_store_cloud::hot::listing::{Busy, busy_conversations};
use bluetick_store_cloud::rows::dynamo::{DynamoRows, DynamoSettings};

use super::tables::{block_on, must_have_tables, waiting_for};
use crate::cli::HotArgs;
use crate::failure::Failure;
use crate::figures::count;
use crate::output::print;
use crate::settings::{Inputs, Loaded};

/// Maximum number of epochs shown per conversation; older ones are only counted. Bounds the line.
const EPOCHS_TOLD: usize = 6;

pub fn run(arguments: &HotArgs) -> Result<(), Failure> {
    let settings = Loaded::load(&Inputs::of_this_process(arguments.flags()))?.settings;
    must_have_tables(&settings)?;
    let listed = block_on(waiting_for("the tables", list(&settings.store.dynamodb)))?;
    print(&told(&listed))
}

async fn list(settings: &DynamoSettings) -> Result<Vec<Busy>, StoreError> {
    let rows = DynamoRows::open(settings).await.map_err(StoreError::from)?;
    busy_conversations(Arc::new(rows), SystemClock.now()).await
}

fn told(listed: &[Busy]) -> String {
    if listed.is_empty() {
        return "no conversation has ever been too busy for one partition\n".to_owned();
    }
    let mut text = format!(
        "{:<26} {:>10} {:>10} {:>14}  epochs\n",
        "conversation", "messages/s", "partitions", "newest seq"
    );
    for Busy { id, registry, head, rate, .. } in listed {
        let rate = if *rate == 0 { "-".to_owned() } else { count(*rate) };
        let (partitions, head) = (registry.partitions(), count(head.get()));
        let epochs = epochs(registry);
        text += &format!("{:<26} {rate:>10} {partitions:>10} {head:>14}  {epochs}\n", id.to_string());
    }
    text
}

fn epochs(registry: &Registry) -> String {
    let all = registry.epochs();
    let skipped = all.len().saturating_sub(EPOCHS_TOLD);
    let told =
        all[skipped..].iter().map(|epoch| format!("{} from {}", epoch.partitions, count(epoch.from.get())));
    let told: Vec<_> = told.collect();
    match skipped {
        0 => told.join(", "),
        _ => format!("{} earlier, {}", count(skipped as u64), told.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bluetick_core::{ConversationId, Seq};
    use bluetick_store_cloud::hot::Layout;

    fn registry(numbers: &[u16]) -> Registry {
        let first = Registry::adopted(&Layout::CHOSEN, Seq::ZERO);
        numbers.iter().fold(first, |registry, partitions| {
            registry.extended(&Layout::CHOSEN, registry.horizon().plus(1_000), *partitions)
        })
    }

    #[test]
    fn hot_list_prints_one_line_per_conversation_with_rate_and_epochs() {
        let id = ConversationId::group([7; 15]);
        let busy =
            |rate| Busy { id, registry: registry(&[2, 5]), head: Seq::new(24_817), newest_at: None, rate };
        let text = told(&[busy(3_912), busy(0)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[1],
            format!("{id}       3,912          5         24,817  2 from 1,025, 5 from 2,049")
        );
        assert!(lines[2].contains(" - "), "{text}");
        assert_eq!(told(&[]), "no conversation has ever been too busy for one partition\n");
    }

    #[test]
    fn hot_list_with_many_epochs_shows_the_newest() {
        let numbers: Vec<u16> = (0..20).map(|number| 2 + number % 2).collect();
        let text = epochs(&registry(&numbers));
        assert!(
            text.starts_with("14 earlier, 2 from ") && text.matches(" from ").count() == EPOCHS_TOLD,
            "{text}"
        );
    }
}
