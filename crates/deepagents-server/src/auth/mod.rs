//! Authentication, ownership and limits.
//!
//! Without [`Authenticate`], everybody who reaches the server has full access. With it, each thread, assistant, cron
//! and item belongs to its creator and does not exist for anybody else.

mod authenticate;
mod caller;
mod identity;
mod jwt;
mod layer;
mod limits;
mod tokens;

pub(crate) use authenticate::DynAuthenticate;
pub use authenticate::{Authenticate, Presented, Refusal};
pub(crate) use caller::{CALLER, OWNER, Reader, as_owner, caller, caller_id, owns, owns_thread};
pub use identity::{Identity, Limits};
pub use jwt::{JwtAlgorithm, JwtError, JwtTokens};
pub use layer::AuditEntry;
pub(crate) use layer::{Access, authenticate};
pub(crate) use limits::LimitTable;
pub use tokens::StaticTokens;
