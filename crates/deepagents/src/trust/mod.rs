//! Consent to repository content that controls an agent.
//!
//! A directory in which an agent works may contain sub-agents, skills, memory, servers, hooks and commands. The authors
//! of the repository wrote them, and they may name models, tools and hosts, or replace a standard sub-agent. None of
//! them takes effect before a person has seen and approved it, and the approval covers exactly this content at this
//! location:
//!
//! * [`TrustItem`]: one item, with its source and the hash of its content;
//! * [`TrustStore`]: a file of the user that records consent by root and item;
//! * [`survey`]: finds the items in a directory;
//! * [`TrustedFiles`]: the approved files with the approved content, for
//!   [`DeepAgentBuilder::definitions_from`](crate::DeepAgentBuilder::definitions_from). A later change of a file has no
//!   effect until somebody approves it.
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
