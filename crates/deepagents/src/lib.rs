//! deepagents
