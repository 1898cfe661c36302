//! What must stay true of the whole tree.
#![allow(clippy::disallowed_methods, reason = "tests look at real files")]

mod tidy;
