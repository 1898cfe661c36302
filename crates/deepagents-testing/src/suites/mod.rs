//! Conformance suites for implementations of a trait. Each test checks one promise.
//!
//! ```
//! use std::sync::Arc;
//! use deepagents_core::journal::{Journal, MemoryJournal};
//! // Expands to one test for every promise of a journal; the closure makes an empty one that tells the time by `clock`.
//! // With `None` in place of a journal, the tests pass without doing anything.
//! deepagents_testing::journal_suite!(async |clock| Some(Arc::new(MemoryJournal::with_clock(clock)) as Arc<dyn Journal>));
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a suite fails by panicking"
)]

#[cfg(unix)]
pub mod attack;
pub mod backend;
mod clock;
pub mod journal;
pub mod store;

pub use clock::TestClock;

/// Defines a test for each case of [`suites::journal`](crate::suites::journal), for the journals that a closure
/// creates.
#[macro_export]
macro_rules! journal_suite {
    ($make:expr) => {
        $crate::journal_suite! { @ $make;
            log {
                an_unknown_thread_is_empty
                what_is_appended_is_read_back_in_order
                values_come_back_as_they_were
                an_append_elsewhere_than_at_the_end_is_a_conflict_and_appends_nothing
                an_append_of_nothing_leaves_the_end
                entries_are_read_by_position
                a_log_is_loaded_up_to_any_position
                threads_do_not_see_each_other
                a_name_that_cannot_be_used_is_refused
                large_values_come_back_and_do_not_disturb_small_ones
                of_writers_at_one_position_exactly_one_wins
                many_threads_are_written_at_once
                entries_have_the_time_of_their_append
                every_kind_of_record_comes_back
                a_reader_sees_whole_appends_only
                an_append_that_is_repeated_is_answered_as_the_first_time
                texts_with_a_nul_come_back
                a_name_with_a_nul_is_that_of_no_thread
            }
            lease {
                a_thread_has_one_owner
                an_owner_whose_lease_ran_out_goes_on_while_nobody_has_claimed_its_thread
                a_frozen_owner_with_a_successor_writes_nothing
                a_renewed_lease_lasts
                a_lease_that_ran_out_is_begun_anew
                a_taken_thread_is_lost_to_its_owner
                a_released_thread_is_free_and_its_owner_writes_nothing
                a_later_owner_has_a_greater_fence_even_if_the_thread_was_deleted_between
                a_thread_that_was_only_claimed_leaves_nothing
                of_many_claims_exactly_one_wins
                what_a_claim_says_of_a_thread_is_there_with_its_owner_and_of_one_that_fails_nothing_is
                a_thread_is_taken_from_the_owner_that_a_claim_names_and_from_no_other
            }
            snapshots {
                a_load_begins_at_the_nearest_snapshot
                a_snapshot_is_replaced_by_one_at_its_position
                a_snapshot_beyond_the_end_is_refused
                a_large_snapshot_comes_back
                records_are_removed_only_where_a_snapshot_stands_for_them
                records_are_removed_only_by_the_owner_of_the_thread
                a_snapshot_keeps_what_another_agent_knows
            }
            threads {
                an_unknown_thread_is_not_there
                a_thread_is_described
                threads_are_listed_the_last_changed_first
                threads_are_found_by_metadata
                threads_are_found_by_status_and_prefix
                threads_are_listed_in_pages
                threads_are_listed_in_every_order_from_any_place
                metadata_is_merged_and_null_removes
                metadata_of_a_thread_that_is_not_there_is_not_changed
                metadata_that_could_not_be_read_again_is_refused
                a_thread_may_begin_with_metadata
                the_status_follows_the_runs
                the_reason_for_which_the_last_run_ended_is_described
                sizes_grow_with_what_is_appended
                a_deleted_thread_is_gone_and_others_stay
                deleting_an_unknown_thread_does_nothing
                a_thread_lives_as_long_as_it_is_told_after_its_last_change
                a_thread_that_is_over_begins_anew
                a_time_to_live_can_be_taken_back
                a_thread_that_is_worked_on_is_not_over
            }
            children {
                children_are_listed_by_their_parent
                a_thread_may_begin_as_a_child
                a_child_has_the_name_of_its_parent_in_its_own
                children_are_deleted_with_their_parent
                children_are_copied_with_their_parent
                a_copy_whose_child_exists_already_is_refused
                children_go_when_the_time_of_their_parent_is_over
                a_parent_is_not_over_while_somebody_works_on_a_child
            }
            claimable {
                threads_to_be_gone_on_with_are_those_that_did_not_end
                a_thread_with_an_owner_is_not_to_be_gone_on_with
                threads_to_be_gone_on_with_are_narrowed_and_paged
            }
            sub_agents {
                sub_agents_go_on_where_they_were
                sub_agents_have_conversations_of_their_own
                sub_agents_go_on_after_history_was_removed
            }
            copies {
                a_copy_has_the_same_state_at_every_position
                a_copy_has_the_open_turn_too
                loading_tells_when_a_thread_began_and_a_copy_begins_anew
                a_copy_up_to_a_position_ends_there
                a_copy_and_its_source_go_on_apart
                a_copy_has_metadata_but_no_owner
                copying_nothing_or_over_something_is_refused
                a_copy_of_a_pruned_thread_has_the_same_state
                large_values_survive_the_deletion_of_a_copy
            }
            history {
                checkpoints_are_newest_first_with_parents_and_runs
                checkpoints_are_read_in_pages
                a_change_of_one_channel_leaves_the_others_at_every_position
                replacing_and_removing_messages_rewrites_no_history
                going_back_begins_a_branch
                going_back_twice_and_across_a_snapshot_is_followed
                pruning_to_the_latest_keeps_the_state_byte_for_byte
                pruning_from_a_position_keeps_every_later_state
                pruning_by_time_keeps_what_is_younger
                pruning_runs_keeps_the_states_outside_them
                pruning_keeps_the_results_of_an_open_turn
                pruning_keeps_what_goes_back_to_what_was_pruned
                pruning_a_thread_that_is_worked_on_or_unknown_is_refused
                what_was_pruned_cannot_be_loaded
                results_of_an_open_turn_count_and_are_kept_once
                an_open_turn_is_over_when_it_is_committed
            }
        }
    };
    (@ $make:expr; $($module:ident { $($case:ident)* })*) => { $(
        mod $module {
            #[allow(unused_imports, reason = "what the closure needs")]
            use super::*;
            $(
                #[test]
                fn $case() {
                    $crate::suites::block_on(async {
                        let clock = $crate::suites::TestClock::new();
                        if let Some(journal) = ($make)(clock.shared()).await {
                            $crate::suites::journal::$module::$case(journal, clock).await;
                        }
                    });
                }
            )*
        }
    )* };
}

/// Defines a test for each case of [`suites::store`](crate::suites::store), for the stores that a closure creates, as
/// `Arc<dyn Store>`. The closure receives the clock to use, and returns `None` if there is nothing to test.
///
/// ```
/// use std::sync::Arc;
/// use deepagents_core::store::{MemoryStore, Store};
/// deepagents_testing::store_suite!(async |clock| Some(Arc::new(MemoryStore::new(clock)) as Arc<dyn Store>));
/// ```
#[macro_export]
macro_rules! store_suite {
    ($make:expr) => {
        $crate::store_suite! { @ $make;
            a_stored_value_reads_back_and_delete_reports_whether_it_existed
            values_come_back_as_they_were
            overwriting_keeps_the_creation_time_and_counts_versions
            a_conditional_write_wins_only_at_the_version_it_expects
            of_conditional_writes_at_once_exactly_one_wins
            a_search_matches_whole_namespace_labels_and_is_ordered
            a_search_is_narrowed_by_key_and_fields_and_paged
            a_search_compares
            many_items_are_read_at_once_in_the_order_of_their_keys
            keys_are_those_of_one_namespace_in_order
            keys_are_narrowed_by_how_they_begin_and_paged
            a_key_tells_what_its_item_tells
            namespaces_are_listed_once_in_order_and_vanish_with_their_last_item
            namespaces_are_found_by_their_ends_and_to_a_depth
            places_that_cannot_be_used_are_refused_and_nothing_is_stored
            values_that_could_not_be_read_again_are_refused_and_nothing_is_stored
            an_item_lives_as_long_as_it_is_told_after_its_last_write
            an_item_that_is_over_begins_anew
            a_version_of_a_key_does_not_come_again
            large_values_come_back
        }
    };
    (@ $make:expr; $($case:ident)*) => { $(
        #[test]
        fn $case() {
            $crate::suites::block_on(async {
                let clock = $crate::suites::TestClock::new();
                if let Some(store) = ($make)(clock.shared()).await {
                    $crate::suites::store::$case(store, clock).await;
                }
            });
        }
    )* };
}

/// Runs a case on its own runtime.
#[doc(hidden)]
pub fn block_on(case: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(case);
}
