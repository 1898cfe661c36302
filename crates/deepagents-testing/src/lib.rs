//! deepagents-testing
