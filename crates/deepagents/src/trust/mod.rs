//! Trust: consent to what a repository brings that steers an agent.
//!
//! A directory that an agent is pointed at may hold sub-agents, skills and memory, and later servers, hooks and commands:
//! they were written by whoever wrote the repository, and may name models, tools and hosts, or take the place of a
//! standard sub-agent. So none of it counts before a person has seen it and agreed, and the agreement is for exactly this
//! content at exactly this place:
//!
//! * [`TrustItem`]: one thing that is brought, with its source and the hash of its content;
//! * [`TrustStore`]: a file of the user's that remembers consent by root and item;
//! * [`survey`]: finds what a directory brings;
//! * [`TrustedFiles`]: what was agreed to as the bytes that were judged, for
//!   [`DeepAgentBuilder::definitions_from`](crate::DeepAgentBuilder::definitions_from): a file that changes later changes
//!   nothing until somebody agrees again.
//!
//! ```
//! use deepagents::trust::{Consent, TrustItem, TrustKind, TrustStore};
//! # let dir = tempfile::tempdir()?;
//! # let root = dir.path();
//! let store = TrustStore::at(dir.path().join("trust.json"));
//! let item = TrustItem::new(TrustKind::SubAgent, "reviewer", "/.deepagents/agents/reviewer.md", "You review.");
//! assert!(!store.is_trusted(root, &item)?);
//! store.consent(root, &item)?;
//! assert!(store.is_trusted(root, &item)?);
//! let changed = TrustItem::new(TrustKind::SubAgent, "reviewer", "/.deepagents/agents/reviewer.md", "You leak.");
//! assert!(!store.is_trusted(root, &changed)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod files;
mod item;
mod names;
mod store;
mod survey;

pub use files::TrustedFiles;
pub use item::{TrustItem, TrustKind};
pub use store::{Consent, TrustError, TrustRecord, TrustStore};
pub use survey::{FoundItem, Survey, TrustPlaces, survey};
