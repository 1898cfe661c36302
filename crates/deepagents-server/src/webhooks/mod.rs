//! Telling an address of the client's that a run has ended.
//!
//! That a run's end is to be told is stored before the end is, and removed when it was taken, so it is told after a
//! restart too; a receiver that answered just before a crash is told twice, with the same run. With it is stored when
//! it is tried and by whom it may be: of several processes one makes each try, and another goes on where that one is no
//! more.

mod address;
mod deliver;

pub use address::WebhookPolicy;
pub(crate) use deliver::{Webhooks, recover, remember, send, take_up_overdue};
