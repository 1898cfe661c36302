//! Tests of the public interface of the core.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail loudly, like the tests themselves"
)]

mod appends;
mod asking;
mod background_ends;
mod beside;
mod budget;
mod cancelling;
mod cancelling_background;
mod changing;
mod channels;
mod child_scope;
mod children;
mod crash;
mod data;
mod deadline;
mod durable_children;
mod ends;
mod events;
mod failing_journal;
mod failing_tools;
mod going;
mod handle;
mod history_pages;
mod hooks;
mod interrupted;
mod journal;
mod keys;
mod last_answer;
mod leases;
mod left_behind;
mod log_events;
mod message_rules;
mod model_troubles;
mod offered_tools;
mod outages;
mod panicking_hooks;
mod parallel_tools;
mod steering;
mod storable;
mod store;
mod structured;
mod support;
mod threads;
mod told;
mod tool_arguments;
mod tool_results;
mod watching;
mod without_model;
mod wraps;
