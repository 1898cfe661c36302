//! deepagents-testing

pub mod replays;
pub mod shapes;
pub mod suites;
pub mod watched;
