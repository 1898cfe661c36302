//! What tests of several crates share, and what the programs of this crate are made of.

#[cfg(feature = "replays")]
pub mod replays;
pub mod shapes;
pub mod skip;
pub mod suites;
pub mod watched;
