//! Tests of the public API of the file layer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::disallowed_methods, reason = "tests have servers, and start themselves again")]

#[cfg(target_os = "linux")]
mod appeared;
mod attack;
mod attack_all;
#[cfg(target_os = "linux")]
mod attributes;
#[cfg(target_os = "linux")]
mod bound;
mod bounds;
mod classify;
#[cfg(unix)]
mod command_files;
mod command_fuzz;
mod commands;
mod composite;
mod edit;
#[cfg(unix)]
mod executables;
mod files;
#[cfg(target_os = "linux")]
mod full_disk;
#[cfg(unix)]
mod git_settings;
#[cfg(target_os = "linux")]
mod guards;
#[cfg(unix)]
mod host_directory;
mod lines;
mod locked_file;
#[cfg(target_os = "linux")]
mod network;
mod overlay;
#[cfg(unix)]
mod overlay_apply;
mod path;
mod permissions;
#[cfg(target_os = "linux")]
mod portable;
mod processes;
#[cfg(unix)]
mod programs;
mod protected;
mod random;
mod reads;
#[cfg(target_os = "linux")]
mod sandbox;
mod search;
mod semantics;
#[cfg(unix)]
mod session;
mod shell;
mod spy;
mod store;
#[cfg(unix)]
mod undo;

use deepagents_testing::suites::backend as suite;
