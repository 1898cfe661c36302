//! A file that records consent.

use std::io;
use std::path::{Path, PathBuf};

use deepagents_core::env::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

use super::TrustItem;
use crate::user_file::{UserFile, UserFileError, root_name};

/// A file that records consent by root and item. It belongs to the user: mode 0600, in a directory that is created with
/// mode 0700 if it does not exist.
///
/// Changes are atomic and made under a lock shared by all processes. All methods perform blocking I/O. An invalid file
/// is an error; it never counts as no consent or as full consent.
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

/// A person's decision about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    /// The item may be used.
    Trusted,
    /// The item is left out, and nobody is asked about it again.
    Refused,
}

/// A recorded decision about an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustRecord {
    /// The directory that contains it, as an absolute path with links resolved.
    pub root: String,
    /// The item.
    pub item: TrustItem,
    /// The decision.
    pub consent: Consent,
    /// When it was made, in RFC 3339 format.
    pub at: String,
}

/// An error from reading or recording consent. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] UserFileError),
    /// The root cannot be accessed, or its path is not UTF-8.
    #[error("trust in the directory `{}` cannot be remembered: {source}", root.display())]
    Root {
        /// The root as given.
        root: PathBuf,
        /// The underlying I/O error.
        source: io::Error,
    },
}

impl TrustStore {
    /// Uses the consent in this file, which need not exist.
    pub fn at(file: impl Into<PathBuf>) -> Self {
        Self { file: UserFile::at(file, "remembers what you trust") }
    }

    /// Returns the path of the file.
    pub fn file(&self) -> &Path {
        self.file.path()
    }

    /// Returns `true` if a person has approved exactly this item in this root.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn is_trusted(&self, root: &Path, item: &TrustItem) -> Result<bool, TrustError> {
        Ok(self.standing(root, item)? == Some(Consent::Trusted))
    }

    /// Returns the decision about exactly this item in this root, if there is one.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn standing(&self, root: &Path, item: &TrustItem) -> Result<Option<Consent>, TrustError> {
        Ok(self.of_root(root)?.into_iter().find(|record| record.item == *item).map(|record| record.consent))
    }

    /// Records a person's consent to an item.
    ///
    /// # Errors
    /// Returns an error if it cannot be recorded.
    pub fn consent(&self, root: &Path, item: &TrustItem) -> Result<(), TrustError> {
        self.decide(root, std::slice::from_ref(item), Consent::Trusted)
    }

    /// Records a person's decision about items, atomically. It replaces earlier decisions about them.
    ///
    /// # Errors
    /// Returns an error if it cannot be recorded.
    pub fn decide(&self, root: &Path, items: &[TrustItem], consent: Consent) -> Result<(), TrustError> {
        let root = key(root)?;
        // The time is for display only and decides nothing.
        let at = SystemClock.now().to_string();
        let change = |records: &mut Vec<TrustRecord>| {
            records.retain(|record| record.root != root || !items.contains(&record.item));
            let new = items.iter().cloned();
            records.extend(new.map(|item| TrustRecord { root: root.clone(), item, consent, at: at.clone() }));
            true
        };
        Ok(self.file.change(change)?)
    }

    /// Returns all records, ordered by root and item.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn records(&self) -> Result<Vec<TrustRecord>, TrustError> {
        let mut records: Vec<TrustRecord> = self.file.records()?;
        records.sort_by(|a, b| (&a.root, &a.item).cmp(&(&b.root, &b.item)));
        Ok(records)
    }

    /// Returns the records of a root.
    ///
    /// # Errors
    /// Returns an error if the root cannot be resolved or the file cannot be read.
    pub fn of_root(&self, root: &Path) -> Result<Vec<TrustRecord>, TrustError> {
        let root = key(root)?;
        Ok(self.records()?.into_iter().filter(|record| record.root == root).collect())
    }

    /// Removes the records selected by `which` and returns them.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written.
    pub fn forget(&self, which: impl Fn(&TrustRecord) -> bool) -> Result<Vec<TrustRecord>, TrustError> {
        Ok(self.file.remove(which)?)
    }
}

/// Returns the name under which a root is recorded.
fn key(root: &Path) -> Result<String, TrustError> {
    root_name(root).map_err(|source| TrustError::Root { root: root.to_owned(), source })
}
