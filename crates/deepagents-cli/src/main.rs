//! The deepagents program.

fn main() {}
