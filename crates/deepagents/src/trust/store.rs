//! What was agreed to, in a file.

use std::io;
use std::path::{Path, PathBuf};

use deepagents_core::env::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

use super::TrustItem;
use crate::user_file::{UserFile, UserFileError, root_name};

/// A file that remembers what was agreed to, by root and item. It is the user's: mode 0600, in a directory that is made
/// with 0700 where there is none.
///
/// Changes are made under a lock across processes and are there whole or not at all. Every method blocks for as long as
/// the file takes. A file that cannot be understood is an error, never no consent or all of it.
///
/// ```
/// use deepagents::trust::{Consent, TrustItem, TrustKind, TrustStore};
/// # let dir = tempfile::tempdir()?;
/// # let root = dir.path();
/// let store = TrustStore::at(dir.path().join("trust.json"));
/// let notes = TrustItem::new(TrustKind::Memory, "/AGENTS.md", "/AGENTS.md", "Run the tests.");
/// store.decide(root, &[notes.clone()], Consent::Refused)?;
/// assert_eq!(store.standing(root, &notes)?, Some(Consent::Refused));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TrustStore {
    file: UserFile,
}

/// What a person has said about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    /// It may be used.
    Trusted,
    /// It is left out, and nobody is asked about it again.
    Refused,
}

/// What is remembered of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustRecord {
    /// The directory that brings it, absolute and without links.
    pub root: String,
    /// The item.
    pub item: TrustItem,
    /// What was said.
    pub consent: Consent,
    /// When, RFC 3339.
    pub at: String,
}

/// Why consent cannot be read or remembered. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] UserFileError),
    /// The root cannot be looked at or has no name that can be written down.
    #[error("trust in the directory `{}` cannot be remembered: {source}", root.display())]
    Root {
        /// The root as given.
        root: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl TrustStore {
    /// Consent in this file, which need not exist.
    pub fn at(file: impl Into<PathBuf>) -> Self {
        Self { file: UserFile::at(file, "remembers what you trust") }
    }

    /// The file.
    pub fn file(&self) -> &Path {
        self.file.path()
    }

    /// Whether a person has agreed to exactly this item of this root.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn is_trusted(&self, root: &Path, item: &TrustItem) -> Result<bool, TrustError> {
        Ok(self.standing(root, item)? == Some(Consent::Trusted))
    }

    /// What was said about exactly this item of this root, if anything was.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn standing(&self, root: &Path, item: &TrustItem) -> Result<Option<Consent>, TrustError> {
        Ok(self.of_root(root)?.into_iter().find(|record| record.item == *item).map(|record| record.consent))
    }

    /// Remembers that a person agrees to an item.
    ///
    /// # Errors
    /// When it cannot be remembered.
    pub fn consent(&self, root: &Path, item: &TrustItem) -> Result<(), TrustError> {
        self.decide(root, std::slice::from_ref(item), Consent::Trusted)
    }

    /// Remembers what a person says about items, all or none of them. What was said of them before no longer holds.
    ///
    /// # Errors
    /// When it cannot be remembered.
    pub fn decide(&self, root: &Path, items: &[TrustItem], consent: Consent) -> Result<(), TrustError> {
        let root = key(root)?;
        // It is shown to people and decides nothing.
        let at = SystemClock.now().to_string();
        let change = |records: &mut Vec<TrustRecord>| {
            records.retain(|record| record.root != root || !items.contains(&record.item));
            let new = items.iter().cloned();
            records.extend(new.map(|item| TrustRecord { root: root.clone(), item, consent, at: at.clone() }));
            true
        };
        Ok(self.file.change(change)?)
    }

    /// Everything that is remembered, in order of roots and items.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn records(&self) -> Result<Vec<TrustRecord>, TrustError> {
        let mut records: Vec<TrustRecord> = self.file.records()?;
        records.sort_by(|a, b| (&a.root, &a.item).cmp(&(&b.root, &b.item)));
        Ok(records)
    }

    /// What is remembered of a root.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn of_root(&self, root: &Path) -> Result<Vec<TrustRecord>, TrustError> {
        let root = key(root)?;
        Ok(self.records()?.into_iter().filter(|record| record.root == root).collect())
    }

    /// Forgets what was said about the items that `which` picks, and gives those records.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn forget(&self, which: impl Fn(&TrustRecord) -> bool) -> Result<Vec<TrustRecord>, TrustError> {
        let mut gone = Vec::new();
        self.file.change(|records: &mut Vec<TrustRecord>| {
            gone = records.extract_if(.., |record| which(record)).collect();
            !gone.is_empty()
        })?;
        Ok(gone)
    }
}

/// The root as it is written down.
fn key(root: &Path) -> Result<String, TrustError> {
    root_name(root).map_err(|source| TrustError::Root { root: root.to_owned(), source })
}
