//! deepagents-models

pub mod scripted;
