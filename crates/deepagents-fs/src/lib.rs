//! deepagents-fs
