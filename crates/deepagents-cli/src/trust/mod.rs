//! Trust: what a directory brings that steers the agent takes effect only after the user has agreed to it.

mod admit;
mod ask;
mod brought;
mod command;
mod whole;

use std::io::{self, IsTerminal};
use std::path::Path;

use anyhow::{Result, anyhow};
use deepagents::trust::{Consent, FoundItem, TrustItem, TrustStore};

use crate::args::AgentArgs;
use crate::own_files::of_user;

pub(crate) use admit::admit;
pub(crate) use brought::{Brought, is_users_own, survey_all};
pub(crate) use command::trust;
pub(crate) use whole::Whole;

/// What to do with items that the user has not decided about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Undecided {
    /// Ask the user at the terminal.
    Ask,
    /// Agree to them, and store that.
    Accept,
    /// Leave them out, and report it.
    #[default]
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

/// The user's decisions about what a root brings.
#[derive(Debug, Default)]
pub(crate) struct Consents(Vec<(TrustItem, Consent)>);

impl Consents {
    /// Reads the stored decisions; there are none if there is no home directory.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub(crate) fn of_root(root: &Path) -> Result<Self> {
        let records = store().map_or(Ok(Vec::new()), |store| store.of_root(root));
        // Of an error, only the message is printed, which contains the cause.
        let records = records.map_err(|error| anyhow!("{error}"))?;
        Ok(Self(records.into_iter().map(|record| (record.item, record.consent)).collect()))
    }

    /// Returns the decision about exactly this item.
    pub(crate) fn about(&self, item: &TrustItem) -> Option<Consent> {
        self.0.iter().rfind(|(known, _)| known == item).map(|(_, consent)| *consent)
    }

    /// Whether the user has agreed to exactly this item.
    pub(crate) fn has(&self, item: &TrustItem) -> bool {
        self.about(item) == Some(Consent::Trusted)
    }

    /// Whether the user has decided about this item or about another version of it.
    pub(crate) fn has_version_of(&self, item: &TrustItem) -> bool {
        self.0.iter().any(|(known, _)| (&known.name, &known.source) == (&item.name, &item.source))
    }

    /// Adds agreed items, for this process only.
    pub(crate) fn add(&mut self, items: impl IntoIterator<Item = TrustItem>) {
        self.0.extend(items.into_iter().map(|item| (item, Consent::Trusted)));
    }
}

/// Returns the user's trust store; `None` if there is no home directory.
fn store() -> Option<TrustStore> {
    of_user("trust.json").map(TrustStore::at)
}

/// Stores the user's decision about items; without a home directory, there is nowhere to store it.
///
/// # Errors
/// Returns an error if the store cannot be written.
pub(crate) fn decide(root: &Path, items: &[TrustItem], consent: Consent) -> Result<()> {
    let Some(store) = store().filter(|_| !items.is_empty()) else { return Ok(()) };
    store.decide(root, items, consent).map_err(|error| anyhow!("{error}"))
}

/// Stores that the user agrees to items from now on.
///
/// # Errors
/// Returns an error if the store cannot be read or written.
pub(crate) fn remember(root: &Path, items: impl IntoIterator<Item = FoundItem>) -> Result<()> {
    let mut items: Vec<TrustItem> = items.into_iter().map(|found| found.item).collect();
    if !items.is_empty() {
        let known = Consents::of_root(root)?;
        items.retain(|item| !known.has(item));
    }
    decide(root, &items, Consent::Trusted)
}

/// Returns the user's trust store, for a command that is useless without it.
fn known_store() -> Result<TrustStore> {
    store().ok_or_else(|| anyhow!("what you trust is stored in ~/.deepagents/trust.json, but HOME is not set"))
}
