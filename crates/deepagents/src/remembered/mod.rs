//! Remembered rules: approvals that a person has given permanently, for a thread or a directory.
//!
//! The answer "always" becomes a [`RememberedRule`] that covers no more than what the person saw: for a file tool that
//! changes a file, its path with any content; for a simple command, its program and arguments, however they are quoted;
//! for any other call, all arguments. [`RememberedRules`] stores the rules in a file of the user.
//!
//! Programs that answer approval requests look for a rule first, and report a match as
//! [`DecisionAuthor::RememberedRule`](crate::DecisionAuthor::RememberedRule).
//!
//! ```
//! use deepagents::ActionRequest;
//! use deepagents::core::tool::CallId;
//! use deepagents::remembered::{CommandReach, RememberedRule, RememberedRules, RuleScope};
//! use serde_json::json;
//! # let dir = tempfile::tempdir()?;
//! let about = |command| ActionRequest::about(&CallId::default(), "execute", json!({"command": command}), "");
//! let rules = RememberedRules::at(dir.path().join("permissions.json"));
//! let scope = RuleScope::project(dir.path())?;
//! rules.add(&scope, &RememberedRule::covering(&about("cargo test")))?;
//! let reach = CommandReach::default();
//! assert!(rules.find(&[scope.clone()], &about("cargo  'test'"), &reach)?.is_some());
//! assert!(rules.find(&[scope], &about("cargo test; rm -rf ."), &reach)?.is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod rule;
mod store;

pub use rule::{CommandReach, RememberedRule};
pub use store::{RememberedRules, RuleRecord, RuleScope};
