//! Trust: what a directory brings that steers the agent counts only after the user has agreed to it.

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
pub(crate) use brought::{Brought, is_users_own, look};
pub(crate) use command::trust;
pub(crate) use whole::Whole;

/// What happens to what nobody has agreed to yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undecided {
    /// The user is asked at the terminal.
    Ask,
    /// It is agreed to, and that is remembered.
    Accept,
    /// It is left out, and that is said.
    LeaveOut,
    /// It is looked at as if it had been agreed to; nothing is remembered.
    Assume,
}

impl Undecided {
    /// As the options say; a person is asked where one is there and stdin is not for something else.
    pub(crate) fn for_run(args: &AgentArgs, reads_stdin: bool) -> Self {
        match args.trust {
            true => Self::Accept,
            false if !reads_stdin && io::stdin().is_terminal() && io::stderr().is_terminal() => Self::Ask,
            false => Self::LeaveOut,
        }
    }

    /// For a command that only looks.
    pub(crate) fn for_look(args: &AgentArgs) -> Self {
        if args.trust { Self::Assume } else { Self::LeaveOut }
    }
}

/// The user's record; none where there is no home directory.
pub(crate) fn store() -> Option<TrustStore> {
    Some(TrustStore::at(Path::new(&env("HOME")?).join(".deepagents").join("trust.json")))
}

/// Remembers that the user agrees to items from now on.
///
/// # Errors
/// When the record cannot be written.
pub(crate) fn remember(root: &Path, mut items: Vec<TrustItem>) -> Result<()> {
    let Some(store) = store().filter(|_| !items.is_empty()) else { return Ok(()) };
    let known = store.of_root(root).map_err(|error| anyhow!("{error}"))?;
    items.retain(|item| !known.iter().any(|known| known.item == *item && known.consent == Consent::Trusted));
    if items.is_empty() {
        return Ok(());
    }
    store.decide(root, &items, Consent::Trusted).map_err(|error| anyhow!("{error}"))
}

/// The user's record, for a command that is about nothing else.
fn known_store() -> Result<TrustStore> {
    store().ok_or_else(|| anyhow!("what you trust is remembered in ~/.deepagents/trust.json, but HOME is not set"))
}
