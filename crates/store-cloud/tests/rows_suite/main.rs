//! Every engine of rows does the same.

#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

#[path = "../rows_common/mod.rs"]
mod rows_common;

mod conditions;
mod many;
mod queries;

use bluetick_store_cloud::rows::dynamo::DynamoRows;
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_testkit::dynamo::DynamoServer;

async fn memory() -> MemoryRows {
    MemoryRows::default()
}

async fn dynamo() -> DynamoRows {
    let server = DynamoServer::shared().await;
    rows_common::rows_through(&rows_common::settings(server.endpoint())).await
}

/// A partition of its own for each case: they share the tables.
fn fresh(name: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

macro_rules! suite {
    ($($room:ident: $($case:ident),+;)+) => {
        mod on_memory {
            $($(#[tokio::test]
            async fn $case() {
                crate::$room::$case(&crate::memory().await).await;
            })+)+
        }

        mod on_dynamo {
            $($(#[tokio::test]
            async fn $case() {
                crate::$room::$case(&crate::dynamo().await).await;
            })+)+
        }
    };
}

suite! {
    conditions:
        a_row_comes_back_as_it_was_written,
        a_row_is_written_whole,
        if_absent_is_done_once,
        if_version_wants_the_row_and_this_version,
        a_row_without_a_version_has_version_zero,
        of_many_writers_at_once_one_wins,
        a_delete_takes_the_same_conditions,
        a_refusal_of_the_same_row_is_still_a_refusal;
    many:
        rows_of_several_tables_come_in_the_order_asked_for,
        two_hundred_and_fifty_keys_with_doubles,
        sixty_rows_are_written_and_deleted,
        of_two_rows_with_one_key_the_last_stands,
        nothing_asked_is_nothing_done;
    queries:
        rows_come_in_the_order_of_their_numbers,
        the_newest_come_first_when_descending,
        a_range_of_numbers_has_both_ends,
        a_range_upside_down_is_empty,
        texts_come_by_prefix_and_after,
        an_empty_prefix_is_everything,
        a_limit_cuts_and_says_so,
        fields_are_picked_and_the_sort_key_comes_along,
        a_large_partition_comes_in_slices_to_its_end,
        a_partition_without_rows_is_empty,
        a_table_without_sort_keys_has_one_row_each,
        the_largest_numbers_keep_their_order,
        a_whole_table_comes_in_parts_and_each_row_once;
}
