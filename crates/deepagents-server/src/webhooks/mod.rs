//! Webhooks that report the end of a run.
//!
//! A webhook is stored before the end of its run and removed once delivered, so it survives a restart. A receiver that
//! responded just before a crash gets it twice, with the same run.
//!
//! The time of the next attempt and any attempt in flight are stored with it. Only one process makes each attempt, and
//! another process takes over if that one is gone.

mod address;
mod deliver;

pub use address::WebhookPolicy;
pub(crate) use deliver::{Webhooks, adopt_overdue, recover, remember, send};
