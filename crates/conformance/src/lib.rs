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
pub use world::{NOW, World};

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
pub fn run<H: Harness, F>(case: impl FnOnce(World<H>) -> F)
where
    F: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime needs threads only").block_on(async {
        case(World::<H>::start().await).await;
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
    a_direct_conversation_starts_empty_and_its_first_message_has_seq_1
    both_people_may_open_their_conversation_at_once_and_get_one
    a_stranger_cannot_take_over_the_id_of_a_direct_conversation
    a_group_starts_with_the_notice_of_its_making
    each_member_added_has_a_notice_and_sees_from_there_on
    adding_those_who_are_in_already_changes_nothing
    a_full_group_takes_nobody_and_a_refused_change_leaves_no_trace
    a_removed_member_is_a_stranger_from_then_on
    a_member_who_comes_back_sees_from_the_second_joining_on
    when_the_last_admin_leaves_somebody_else_becomes_admin
    the_members_of_a_direct_conversation_never_change
    a_stranger_gets_the_same_answer_as_for_a_conversation_that_does_not_exist
    a_message_comes_back_exactly_as_it_was_sent
    the_senders_clock_takes_no_part_in_the_order
    pages_walk_the_whole_conversation_in_both_directions
    the_same_message_id_gives_the_first_seq
    the_same_message_id_by_another_sender_is_another_message
    the_same_message_id_in_another_conversation_is_another_message
    the_same_message_id_with_other_content_is_refused_and_stores_nothing
    a_message_sent_many_times_at_once_is_stored_once
    a_resend_after_a_crash_gives_the_first_seq
    a_resend_long_after_finds_the_first_when_it_says_where_to_look
    a_clock_that_was_set_back_for_a_while_hides_no_duplicate
    clock_jump_keeps_message_ids_and_refuses_other_content
    retry_after_clock_jump_finds_the_stored_message
    many_senders_at_once_fill_dense_places
    messages_accepted_one_after_the_other_keep_their_order
    everything_acknowledged_survives_a_crash
    everything_acknowledged_survives_a_clean_restart
    membership_survives_a_crash
    users_are_created_once_and_survive_a_crash
    two_sign_ups_for_one_name_have_one_winner
    a_user_whose_id_looks_like_another_is_refused
    two_sign_ups_for_names_that_look_alike_have_one_winner
    a_reserved_name_is_a_user_that_sign_up_cannot_take
    people_are_found_by_how_a_name_begins
    the_names_of_several_people_come_in_the_order_they_are_asked_for
    the_listener_hears_every_message_once_in_order_and_before_the_answer
    the_listener_learns_the_origin_and_who_departed
    those_added_in_one_call_each_hear_from_their_own_notice_on
    a_large_group_can_be_made_and_written_to
    a_closed_store_refuses_writes
    a_closed_store_refuses_acks_and_settings
    a_member_stands_at_zero_until_its_first_ack
    ticks_only_go_forward
    neither_tick_passes_the_head
    an_ack_in_an_empty_conversation_is_harmless
    reading_is_having_received
    late_repeated_and_overtaken_acks_end_the_same
    devices_that_ack_at_once_end_at_the_furthest
    an_ack_moves_one_member_of_one_conversation
    a_strangers_ack_is_refused_like_one_for_a_conversation_that_does_not_exist
    a_reply_reads_what_came_before_it
    a_reply_sent_again_reads_nothing_new
    who_hides_its_reads_is_seen_where_it_was
    who_shows_its_reads_again_is_seen_from_the_next_one_on
    a_member_who_comes_back_starts_anew
    what_a_member_sets_is_its_own_and_stays
    ticks_unread_pending_and_receipts_agree_with_a_model_whatever_happens
    ones_own_messages_from_another_device_are_never_unread
    a_reply_leaves_nothing_unread_before_it
    notices_are_never_unread
    unread_is_exact_with_several_senders_at_once
    reading_backwards_makes_nothing_unread_again
    a_member_who_joined_late_has_only_later_messages_unread
    a_device_that_acks_while_another_reads_leaves_unread_exact
    unread_is_exact_however_far_behind_somebody_is
    the_latest_activity_comes_first
    a_clock_that_was_set_back_moves_nothing_down
    the_tick_does_not_go_back_when_the_last_of_the_others_leaves
    pinned_come_first_and_archived_last
    an_inbox_can_be_asked_for_without_the_archived_or_for_them_alone
    direct_conversation_without_messages_is_listed_for_its_creator_alone
    direct_conversation_is_listed_for_the_other_person_from_its_first_message_on
    an_entry_says_all_that_an_inbox_shows
    a_preview_is_cut_where_a_character_ends
    a_group_is_listed_with_its_title_and_a_notice_can_be_its_last_message
    the_tick_of_a_groups_last_message_waits_for_the_one_furthest_behind
    who_leaves_no_longer_lists_the_conversation_and_who_is_added_does
    names_that_begin_alike_have_inboxes_of_their_own
    pages_of_an_inbox_neither_repeat_nor_skip
    a_conversation_that_jumps_up_while_somebody_pages_is_on_no_later_page
    a_cursor_stays_good_when_its_conversation_is_gone
    the_inbox_agrees_with_a_model_whatever_happens
    who_has_acked_everything_misses_nothing
    what_is_pending_starts_at_the_first_undelivered_however_many_follow
    only_acks_clear_what_is_pending
    reading_clears_what_is_pending_too
    ones_own_messages_are_not_pending
    notices_are_pending_as_messages_are
    each_conversation_is_pending_for_itself
    a_second_device_gets_what_it_misses_although_the_first_has_all
    a_position_stands_for_its_conversation_instead_of_what_is_pending
    a_position_above_the_head_counts_as_none
    a_position_in_a_conversation_of_others_counts_as_nothing
    a_conversation_not_listed_comes_with_its_newest_page_when_it_was_active_since
    what_is_pending_comes_whole_and_not_as_a_newest_page
    the_newest_page_of_a_late_member_starts_at_its_joining
    a_position_that_no_device_has_acked_yet_says_so
    a_position_from_before_the_joining_acks_nothing
    who_left_misses_nothing_and_who_comes_back_only_what_follows
    what_was_active_last_comes_first
    a_message_in_a_direct_conversation_has_one_recipient
    a_group_message_counts_who_has_it_and_who_has_read_it
    who_joined_later_is_no_recipient
    who_left_is_no_recipient_any_more
    there_are_receipts_only_of_messages_one_can_see
    a_read_that_is_hidden_counts_as_delivered
    receipts_work_in_a_group_of_two_thousand
    counting_agrees_with_asking_everybody_whatever_happens
    a_move_is_heard_once_and_before_the_answer
    an_ack_that_moves_nothing_is_not_heard
    a_move_says_who_is_concerned_what_is_unread_and_where_it_came_from
    a_reply_that_reads_something_new_is_heard_after_its_message
    a_hidden_read_is_told_to_ones_own_devices_alone
    what_is_shown_again_is_told_when_others_see_it
    moves_at_once_are_heard_in_the_order_in_which_they_happened
    everybody_to_whom_a_conversation_is_new_is_told
    what_a_user_sets_is_told
    of_somebody_unknown_the_profile_is_the_default
    who_hides_its_presence_stays_hidden
    last_seen_only_goes_forward
    a_token_that_was_revoked_stays_void
    all_tokens_up_to_a_moment_stay_void_and_later_ones_are_good
    however_many_tokens_are_revoked_at_once_each_is_void
    a_revocation_is_heard_before_the_answer_and_what_changes_nothing_is_not
}
