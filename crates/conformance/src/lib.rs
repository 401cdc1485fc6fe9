//! What every store must do. An adapter implements [`Harness`] and writes
//! `bluetick_conformance::suite!(MyHarness);`: each case becomes a test of its own, with the sentence it checks as name.
//!
//! The cases know nothing of the adapter, its files or its servers; they speak through the port only, wait for
//! answers and not for time, and use fresh names, so that a networked store that outlives a test can run them too.

mod cases;
mod recorder;
mod world;

use std::sync::Arc;

use async_trait::async_trait;
use bluetick_core::ports::{CommitListener, Store};
pub use recorder::Recorder;
pub use world::{NOW, World};

/// One adapter under test.
#[async_trait]
pub trait Harness: Send + Sync + Sized + 'static {
    /// A store that reports to `listener`, and whose clock says [`NOW`].
    async fn start(listener: Arc<dyn CommitListener>) -> Self;

    fn store(&self) -> Arc<dyn Store>;

    /// The store as it is after the process died without warning and was started again. An adapter that keeps
    /// nothing beyond its process may return itself unchanged.
    async fn crash_and_restart(self, listener: Arc<dyn CommitListener>) -> Self;

    /// The store after it was closed in order and opened again.
    async fn close_and_reopen(self, listener: Arc<dyn CommitListener>) -> Self;
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
        /// Makes one test of every case for a [`Harness`].
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
    many_senders_at_once_fill_dense_places
    messages_accepted_one_after_the_other_keep_their_order
    everything_acknowledged_survives_a_crash
    everything_acknowledged_survives_a_clean_restart
    membership_survives_a_crash
    users_are_created_once_and_survive_a_crash
    two_sign_ups_for_one_name_have_one_winner
    the_listener_hears_every_message_once_in_order_and_before_the_answer
    the_listener_learns_the_origin_and_who_departed
    those_added_in_one_call_each_hear_from_their_own_notice_on
    a_large_group_can_be_made_and_written_to
    a_closed_store_refuses_writes
}
