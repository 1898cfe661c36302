//! What was agreed to, in a file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use deepagents_core::env::{Clock, SystemClock, Timestamp};
use serde::{Deserialize, Serialize};

use super::TrustItem;

/// Bytes that the file may have.
const MAX_BYTES: u64 = 64 << 20;
/// The version of the file's form.
const VERSION: u32 = 1;

/// A file that remembers what was agreed to, by root and item. It is the user's: mode 0600, in a directory that is made
/// with 0700 where there is none.
///
/// Changes are made under a lock across processes and are there whole or not at all. Every method blocks for as long as
/// the file takes. A file that cannot be understood is an error, never no consent or all of it.
#[derive(Clone, Debug)]
pub struct TrustStore {
    file: PathBuf,
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
    /// The file cannot be read or written.
    #[error("`{}`, which remembers what you trust, cannot be used: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("`{}`, which remembers what you trust, cannot be understood ({why}); repair it, or remove it and be asked again", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The root cannot be looked at or has no name that can be written down.
    #[error("nothing can be remembered of the directory `{}`: {source}", root.display())]
    Root {
        /// The root as given.
        root: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// The file as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    v: u32,
    #[serde(default)]
    records: Vec<TrustRecord>,
}

impl TrustStore {
    /// Consent in this file, which need not exist.
    pub fn at(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into() }
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
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
        let at = now().to_string();
        self.change(|records| {
            records.retain(|record| record.root != root || !items.contains(&record.item));
            let new = items.iter().cloned();
            records.extend(new.map(|item| TrustRecord { root: root.clone(), item, consent, at: at.clone() }));
            true
        })
    }

    /// Everything that is remembered, in order of roots and items.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn records(&self) -> Result<Vec<TrustRecord>, TrustError> {
        let mut records = self.load()?.records;
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
        self.change(|records| {
            gone = records.extract_if(.., |record| which(record)).collect();
            !gone.is_empty()
        })?;
        Ok(gone)
    }

    fn failed(&self) -> impl Fn(io::Error) -> TrustError + '_ {
        |source| TrustError::Io { file: self.file.clone(), source }
    }

    #[allow(clippy::disallowed_methods, reason = "the user's own record, no file of a workspace")]
    fn load(&self) -> Result<Document, TrustError> {
        let file = match File::open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Document { v: VERSION, records: Vec::new() });
            }
            Err(error) => return Err(self.failed()(error)),
        };
        let damaged = |why: String| TrustError::Damaged { file: self.file.clone(), why };
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(self.failed())?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(damaged(format!("it has more than {MAX_BYTES} bytes")));
        }
        let document: Document = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        match document.v {
            VERSION => Ok(document),
            other => Err(damaged(format!("it is of version {other}, and this program knows {VERSION}"))),
        }
    }

    /// Changes the records, unless the change says that nothing changed.
    #[allow(clippy::disallowed_methods, reason = "the user's own record, no file of a workspace")]
    fn change(&self, change: impl FnOnce(&mut Vec<TrustRecord>) -> bool) -> Result<(), TrustError> {
        if let Some(directory) = self.file.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            private_directory().create(directory).map_err(self.failed())?;
        }
        // The file itself is replaced, so the lock is another one that stays.
        let lock = private_file().create(true).write(true).open(beside(&self.file, "lock")).map_err(self.failed())?;
        lock.lock().map_err(self.failed())?;
        let mut document = self.load()?;
        if !change(&mut document.records) {
            return Ok(());
        }
        let damaged =
            |error: serde_json::Error| TrustError::Damaged { file: self.file.clone(), why: error.to_string() };
        let text = serde_json::to_string_pretty(&document).map_err(damaged)?;
        let new = beside(&self.file, "new");
        let write = || {
            // One that a killed process has left may be anything.
            match fs::remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = private_file().create_new(true).write(true).open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.file)
        };
        write().map_err(self.failed())
    }
}

/// The root as it is written down.
#[allow(clippy::disallowed_methods, reason = "the name of a root, whose files are not looked at")]
fn key(root: &Path) -> Result<String, TrustError> {
    let failed = |source| TrustError::Root { root: root.to_owned(), source };
    let real = root.canonicalize().map_err(failed)?;
    let name = real.into_os_string().into_string();
    name.map_err(|_| failed(io::Error::new(io::ErrorKind::InvalidFilename, "its path is not UTF-8")))
}

/// When something is said. It is shown to people and decides nothing.
fn now() -> Timestamp {
    SystemClock.now()
}

/// A file of the same name with something behind it.
fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn private_directory() -> DirBuilder {
    let mut directory = DirBuilder::new();
    directory.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut directory, 0o700);
    directory
}
