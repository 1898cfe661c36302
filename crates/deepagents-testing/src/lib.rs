//! deepagents-testing

pub mod shapes;
pub mod suites;
