//! The contract of a [`Backend`](deepagents::fs::Backend). Run by [`backend_suite!`](crate::backend_suite).
//!
//! ```
//! use std::sync::Arc;
//! use deepagents_fs::StateBackend;
//! use deepagents_testing::suites::backend::Files;
//! // Expands to one test for every promise; the closure makes an empty backend.
//! deepagents_testing::backend_suite!(async || Some(Files::new(Arc::new(StateBackend::new()))));
//! ```

pub mod deleting;
pub mod editing;
mod files;
pub mod globbing;
pub mod grepping;
pub mod listing;
pub mod names;
pub mod reading;
pub mod writing;

pub use files::{Files, p, shown};

/// Defines a test for each case of [`suites::backend`](crate::suites::backend), for the empty backends that a closure
/// creates. If the closure returns `None`, the tests pass without doing anything.
///
/// `backend_suite!(reading: …)` includes only the cases that change nothing, for backends that are [filled through
/// another](crate::suites::backend::Files::filled_through), or [made from their
/// files](crate::suites::backend::Files::made).
#[macro_export]
macro_rules! backend_suite {
    (reading: $make:expr) => {
        $crate::backend_suite! { @ $make;
            reading {
                what_was_written_is_read_back_byte_for_byte
                a_part_of_a_file_is_read_by_its_bytes
                a_window_of_lines_says_where_to_go_on
                an_offset_past_the_end_gives_no_lines_and_their_number
                an_empty_file_has_no_lines
                blank_lines_are_lines
                nothing_but_a_newline_ends_a_line
                what_ends_a_line_and_the_mark_at_the_start_are_not_shown
                bytes_that_are_not_text_are_replaced_in_lines_alone
                a_window_ends_before_the_line_that_would_exceed_it
                a_first_line_that_is_too_long_is_cut_at_a_character
                a_long_line_goes_on_where_it_was_cut
                what_is_missing_and_what_is_a_directory_are_told_apart
                below_a_file_the_error_names_the_file
            }
            listing {
                an_empty_workspace_lists_nothing
                a_listing_has_the_direct_children_in_order
                names_that_begin_alike_are_kept_apart
                what_is_missing_or_a_file_is_not_listed
            }
            names {
                odd_names_are_names_like_others
                the_longest_names_are_kept
            }
            globbing {
                a_pattern_without_a_slash_matches_at_any_depth
                a_pattern_with_a_slash_matches_from_the_place_of_the_search
                the_place_may_be_repeated_in_the_pattern
                names_with_a_dot_are_found_where_pattern_or_place_names_them
                files_alone_are_found
                a_file_may_be_the_place_of_a_search
                alternatives_and_classes_are_understood
                patterns_that_climb_or_stand_for_too_many_are_refused
                a_search_of_what_is_missing_is_an_error
                a_limit_keeps_the_first_and_says_that_there_is_more
                ignore_files_count_when_asked
            }
            grepping {
                text_is_taken_as_it_stands_unless_a_regular_expression_is_asked_for
                a_regular_expression_sees_the_ends_of_lines
                lines_around_a_match_are_shown_once
                a_glob_and_the_place_narrow_a_search
                a_file_as_the_place_is_searched_alone
                upper_and_lower_case_differ_unless_told_otherwise
                a_search_of_what_is_missing_is_an_error
                patterns_that_cannot_be_used_are_refused
                of_lines_around_a_match_there_are_a_few_hundred_at_most
                exactly_as_many_as_allowed_are_all
                what_may_not_be_seen_takes_nothing_from_a_limit
                a_search_out_of_time_gives_what_it_has_and_says_so
                what_is_not_text_is_passed_over_and_counted
                lines_have_the_numbers_that_reading_gives_them
                a_very_long_line_is_shown_around_its_match
                ignore_files_count_when_asked
            }
        }
    };
    ($make:expr) => {
        $crate::backend_suite! { reading: $make }
        $crate::backend_suite! { @ $make;
            writing {
                a_write_replaces_a_file_whole_and_makes_directories
                every_write_is_another_version
                a_path_is_a_file_or_a_directory
                the_root_is_no_file
                a_file_is_created_only_where_none_is
                a_write_under_a_version_needs_that_version
            }
            editing {
                the_one_occurrence_is_replaced
                several_occurrences_are_counted_and_replaced_when_all_are_meant
                occurrences_do_not_overlap
                text_may_be_replaced_by_itself
                line_endings_and_the_mark_are_kept
                a_newline_that_the_end_of_the_file_lacks_is_pointed_out
                a_miss_shows_the_closest_lines
                an_empty_old_text_is_refused
                several_edits_are_made_whole_or_not_at_all
                an_edit_of_another_version_is_refused
                what_is_not_text_is_not_edited
                what_is_missing_or_a_directory_is_not_edited
                edits_at_once_lose_nothing
                an_edit_that_makes_a_file_too_large_is_refused
            }
            deleting {
                a_directory_goes_with_what_it_holds_and_nothing_beside_it
                the_root_stays
                what_is_missing_is_not_deleted
                a_name_that_was_deleted_is_free
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
                        if let Some(files) = ($make)().await {
                            $crate::suites::backend::$module::$case(files).await;
                        }
                    });
                }
            )*
        }
    )* };
}
