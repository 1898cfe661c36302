//! deepagents-testing

pub mod shapes;
