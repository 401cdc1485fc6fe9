//! The conformance suite that every store must pass. An adapter implements [`Harness`] and calls
//! `bluetick_conformance::suite!(MyHarness);`. Each case becomes a test named after the rule it
//! checks.
//!
//! The cases use only the store port and know nothing about the adapter's files or servers. They
//! wait for results instead of sleeping. They use fresh names, so that a networked store that
//! outlives a test can run them too.

mod cases;
mod dice;
mod model;
mod recorder;
mod world;

use std::sync::Arc;

use async_trait::async_trait;
use bluetick_core::Timestamp;
use bluetick_core::ports::{CommitListener, Store};
pub use recorder::{Published, Recorder};
pub use world::{NOW, StoreUnderTest};

/// An adapter under test.
#[async_trait]
pub trait Harness: Send + Sync + Sized + 'static {
    /// Starts a store that publishes to `listener` and whose clock is set to [`NOW`].
    async fn start(listener: Arc<dyn CommitListener>) -> Self;

    fn store(&self) -> Arc<dyn Store>;

    /// Simulates a process crash and starts the store again. An adapter without durability may
    /// return itself unchanged.
    async fn crash_and_restart(self, listener: Arc<dyn CommitListener>) -> Self;

    /// Closes the store gracefully and opens it again.
    async fn close_and_reopen(self, listener: Arc<dyn CommitListener>) -> Self;

    /// Sets the wall clock, also for later restarts of the store. The monotonic clock does not
    /// move. Returns `false` if the store measures the age of ids by the wall clock and makes no
    /// guarantee after a change.
    fn set_clock(&self, _now: Timestamp) -> bool {
        false
    }
}

/// Runs one case. Used by [`suite!`].
pub fn run<H: Harness, F>(case: impl FnOnce(StoreUnderTest<H>) -> F)
where
    F: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime needs threads only").block_on(async {
        case(StoreUnderTest::<H>::start().await).await;
    });
}

#[doc(hidden)]
pub use cases::*;

macro_rules! list_of_cases {
    ($($case:ident)*) => {
        /// Generates one test per case for a [`Harness`].
        #[macro_export]
        macro_rules! suite {
            ($harness:ty) => {
                $(
                    #[test]
                    fn $case() {
                        $crate::run::<$harness, _>($crate::$case);
                    }
                )*
            };
        }
    };
}

list_of_cases! {
    first_message_of_a_direct_conversation_has_seq_1
    direct_conversation_opened_by_both_peers_concurrently_is_created_once
    opening_the_id_of_others_direct_conversation_is_refused
    new_group_starts_with_its_creation_notice
    added_member_sees_history_from_its_join_notice
    adding_existing_members_changes_nothing
    refused_membership_change_stores_nothing
    removed_member_is_refused_like_a_non_member
    rejoined_member_sees_history_from_its_second_join
    last_admin_who_leaves_is_replaced_by_the_earliest_member
    membership_change_of_a_direct_conversation_is_refused
    non_member_gets_the_refusal_of_an_unknown_conversation
    stored_message_equals_the_sent_message
    client_timestamp_does_not_affect_the_order
    pages_cover_the_conversation_in_both_directions
    resend_returns_the_first_seq
    same_message_id_of_another_sender_is_a_new_message
    same_message_id_in_another_conversation_is_a_new_message
    same_message_id_with_other_content_is_refused
    concurrent_resends_store_one_message
    resend_after_a_crash_returns_the_first_seq
    resend_with_retry_after_finds_a_message_older_than_the_dedupe_window
    resend_after_a_clock_was_set_back_is_a_duplicate
    clock_jump_keeps_message_ids_and_refuses_other_content
    retry_after_clock_jump_finds_the_stored_message
    concurrent_senders_get_contiguous_seqs
    messages_get_seqs_in_the_order_of_acceptance
    acknowledged_messages_survive_a_crash
    acknowledged_messages_survive_a_clean_restart
    membership_survives_a_crash
    users_are_created_once_and_survive_a_crash
    concurrent_sign_ups_for_one_name_create_one_user
    sign_up_with_a_lookalike_id_is_refused
    concurrent_sign_ups_for_lookalike_names_create_one_user
    sign_up_with_a_reserved_name_is_refused
    search_finds_people_by_the_prefix_of_a_word
    people_are_returned_in_the_requested_order
    message_is_published_once_in_order_before_its_ack
    committed_message_names_its_origin_and_the_departed_member
    members_added_in_one_call_receive_messages_from_their_own_notice
    group_of_10_000_members_accepts_a_message
    closed_store_refuses_messages
    closed_store_refuses_receipts_and_preferences
    read_state_is_zero_before_the_first_receipt
    read_state_never_moves_back
    receipt_above_the_head_stops_at_the_head
    receipt_in_an_empty_conversation_changes_nothing
    read_receipt_implies_delivered
    reordered_and_repeated_receipts_give_the_same_read_state
    concurrent_receipts_give_the_highest_read_state
    receipt_moves_one_member_of_one_conversation
    receipt_of_a_non_member_gets_the_refusal_of_an_unknown_conversation
    own_message_marks_earlier_messages_as_read
    resent_message_marks_nothing_as_read
    hidden_read_leaves_the_shown_read_seq_unchanged
    reads_made_while_hidden_stay_hidden_after_showing_again
    rejoined_member_starts_with_default_read_state_and_preferences
    preferences_are_stored_per_member
    random_operations_agree_with_the_model
    own_messages_are_never_unread
    own_message_leaves_no_earlier_message_unread
    notices_are_never_unread
    unread_count_is_exact_with_concurrent_senders
    earlier_read_receipt_keeps_the_unread_count
    late_member_counts_only_messages_after_its_join_as_unread
    unread_count_is_exact_with_concurrent_delivered_and_read_receipts
    unread_count_is_exact_for_a_member_far_behind
    inbox_lists_the_latest_activity_first
    clock_set_back_moves_no_conversation_down
    shown_read_state_never_moves_back_when_the_last_other_member_leaves
    inbox_lists_pinned_first_and_archived_last
    inbox_filter_separates_archived_conversations
    direct_conversation_without_messages_is_listed_for_its_creator_alone
    direct_conversation_is_listed_for_the_peer_after_its_first_message
    inbox_entry_has_preview_read_state_and_unread_count
    preview_is_cut_at_a_character_boundary
    group_entry_shows_its_title_and_a_notice_as_last_message
    group_tick_follows_the_member_furthest_behind
    inbox_lists_a_group_for_its_current_members_only
    users_whose_ids_share_a_prefix_have_separate_inboxes
    inbox_pages_list_each_conversation_once
    conversation_that_moves_up_during_paging_is_on_no_later_page
    inbox_cursor_stays_valid_after_its_conversation_is_left
    inbox_agrees_with_the_model_after_random_operations
    user_who_acknowledged_all_messages_has_none_pending
    pending_starts_at_the_first_undelivered_message
    only_receipts_clear_pending_messages
    read_receipt_clears_pending_messages
    own_messages_are_not_pending
    notices_are_pending
    pending_messages_are_tracked_per_conversation
    position_returns_missed_messages_that_another_device_has
    position_replaces_the_pending_row_of_its_conversation
    position_above_the_head_is_ignored
    position_in_a_conversation_of_others_is_reported_as_gone
    conversation_without_a_position_returns_its_newest_page_if_active_since
    pending_messages_are_not_limited_to_the_newest_page
    newest_page_of_a_late_member_starts_at_its_join
    position_above_the_acknowledged_seq_is_marked_unacknowledged
    position_before_the_join_acknowledges_nothing
    rejoined_member_misses_only_messages_after_its_second_join
    missed_conversations_are_ordered_by_latest_activity
    direct_message_has_one_recipient
    receipt_counts_of_a_group_message_cover_delivered_and_read
    member_who_joined_later_is_not_counted_as_recipient
    member_who_left_is_not_counted_as_recipient
    receipt_counts_of_an_invisible_message_are_refused
    hidden_read_counts_as_delivered
    receipt_counts_are_exact_in_a_group_of_2_000_members
    receipt_counts_agree_with_member_statuses_after_random_operations
    read_state_change_is_published_once_before_the_answer
    receipt_without_effect_is_not_published
    published_read_state_names_members_unread_count_and_origin
    read_state_change_of_an_own_message_is_published_after_it
    hidden_read_is_published_to_own_devices_only
    read_state_shown_again_is_published_when_others_see_it
    concurrent_read_state_changes_are_published_in_order
    join_is_published_for_each_new_member
    preference_change_is_published
    profile_of_an_unknown_user_is_the_default
    hidden_presence_survives_later_updates
    last_seen_never_moves_back
    revoked_token_stays_revoked
    tokens_issued_up_to_a_revocation_stay_revoked_and_later_ones_are_valid
    concurrently_revoked_tokens_are_all_revoked
    revocation_is_published_before_the_answer
}
