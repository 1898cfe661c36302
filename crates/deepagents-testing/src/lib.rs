//! Helpers shared by the tests of several crates, and parts of this crate's programs.

#[cfg(feature = "replays")]
pub mod replays;
pub mod shapes;
pub mod skip;
pub mod suites;
pub mod watched;
