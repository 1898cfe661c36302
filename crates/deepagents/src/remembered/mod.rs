//! Remembered rules: what a person has agreed to once and for as long as a thread or a directory is worked on.
//!
//! An answer "always" becomes a [`RememberedRule`] that covers no more than what was shown: all arguments of the call, for the
//! file tools that change something the path, with whatever content, and for a simple command its program and arguments,
//! however they are written. [`RememberedRules`] keeps them in a file of
//! the user's. Whoever answers questions looks there first and says so with
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
