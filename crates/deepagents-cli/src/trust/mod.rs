//! Trust: what a directory brings that steers the agent takes effect only after the user has agreed to it.

mod admit;
mod ask;
mod brought;
mod command;
mod whole;

use std::io::{self, IsTerminal};
use std::path::Path;

use anyhow::{Result, anyhow};
use deepagents::trust::{Consent, TrustItem, TrustStore};

use crate::args::AgentArgs;
use crate::model_choice::env;

pub(crate) use admit::admit;
pub(crate) use brought::{Brought, is_users_own, survey_root};
pub(crate) use command::trust;
pub(crate) use whole::Whole;

/// What to do with items that the user has not decided about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undecided {
    /// Ask the user at the terminal.
    Ask,
    /// Agree to them, and store that.
    Accept,
    /// Leave them out, and report it.
    LeaveOut,
    /// Treat them as agreed to for a look, and store nothing.
    Assume,
}

impl Undecided {
    /// Returns the choice for a run: accept with `--trust`, ask if there is a terminal and stdin is free, otherwise
    /// leave out.
    pub(crate) fn for_run(args: &AgentArgs, reads_stdin: bool) -> Self {
        match args.trust {
            true => Self::Accept,
            false if !reads_stdin && io::stdin().is_terminal() && io::stderr().is_terminal() => Self::Ask,
            false => Self::LeaveOut,
        }
    }

    /// Returns the choice for a command that only looks.
    pub(crate) fn for_inspection(args: &AgentArgs) -> Self {
        if args.trust { Self::Assume } else { Self::LeaveOut }
    }
}

/// Returns the user's trust store; `None` if there is no home directory.
pub(crate) fn store() -> Option<TrustStore> {
    Some(TrustStore::at(Path::new(&env("HOME")?).join(".deepagents").join("trust.json")))
}

/// Stores that the user agrees to items from now on.
///
/// # Errors
/// Returns an error if the store cannot be read or written.
pub(crate) fn remember(root: &Path, mut items: Vec<TrustItem>) -> Result<()> {
    let Some(store) = store().filter(|_| !items.is_empty()) else { return Ok(()) };
    let known = store.of_root(root).map_err(|error| anyhow!("{error}"))?;
    items.retain(|item| !known.iter().any(|known| known.item == *item && known.consent == Consent::Trusted));
    if items.is_empty() {
        return Ok(());
    }
    store.decide(root, &items, Consent::Trusted).map_err(|error| anyhow!("{error}"))
}

/// Returns the user's trust store, for a command that is useless without it.
fn known_store() -> Result<TrustStore> {
    store().ok_or_else(|| anyhow!("what you trust is stored in ~/.deepagents/trust.json, but HOME is not set"))
}
