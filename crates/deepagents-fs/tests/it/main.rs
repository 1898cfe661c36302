//! Behaviour of the file layer through its public API.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod attack;
mod classify;
mod composite;
mod edit;
mod files;
mod lines;
mod overlay;
mod path;
mod permissions;
mod random;
#[cfg(target_os = "linux")]
mod sandbox;
mod search;
mod semantics;
mod shell;
mod store;
mod suite;
