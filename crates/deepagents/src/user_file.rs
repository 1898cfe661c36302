//! A versioned JSON file with records of the user that several processes read and change.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use deepagents_fs::locked_file::{FileLock, replace_secret};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Maximum size of the file in bytes.
const MAX_BYTES: u64 = 64 << 20;
/// Format version of these files.
const VERSION: u32 = 1;

/// A file of records that belongs to the user: mode 0600, in a directory that is created with mode 0700 if it does not
/// exist. Changes are atomic and made under a lock shared by all processes.
#[derive(Clone, Debug)]
pub(crate) struct UserFile {
    file: PathBuf,
    /// What the file remembers, as a phrase that follows `which`.
    what: &'static str,
}

/// An error from reading or changing the user's records. Nothing was changed.
///
/// ```
/// use deepagents::UserFileError;
/// fn hint(error: &UserFileError) -> String {
///     match error {
///         UserFileError::Damaged { file, .. } => format!("move {} away and begin anew", file.display()),
///         other => other.to_string(),
///     }
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserFileError {
    /// The file cannot be read or written.
    #[error("`{}`, which {what}, cannot be used: {source}", file.display())]
    Io {
        /// The path of the file.
        file: PathBuf,
        /// The purpose of the file, as a phrase that follows `which`.
        what: &'static str,
        /// The underlying I/O error.
        source: io::Error,
    },
    /// The content of the file is invalid.
    #[error("`{}`, which {what}, cannot be parsed ({why}); repair it, or remove it and start afresh", file.display())]
    Damaged {
        /// The path of the file.
        file: PathBuf,
        /// The purpose of the file, as a phrase that follows `which`.
        what: &'static str,
        /// The problem with the content.
        why: String,
    },
}

/// The serialized form of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<T> {
    v: u32,
    records: Vec<T>,
}

impl UserFile {
    /// Uses the records in this file, which need not exist.
    pub(crate) fn at(file: impl Into<PathBuf>, what: &'static str) -> Self {
        Self { file: file.into(), what }
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.file
    }

    fn failed(&self) -> impl Fn(io::Error) -> UserFileError + '_ {
        |source| UserFileError::Io { file: self.file.clone(), what: self.what, source }
    }

    fn damaged(&self, why: &impl ToString) -> UserFileError {
        UserFileError::Damaged { file: self.file.clone(), what: self.what, why: why.to_string() }
    }

    /// Reads the records; returns none if the file does not exist.
    #[allow(clippy::disallowed_methods, reason = "the user's own record, no file of a workspace")]
    pub(crate) fn records<T: DeserializeOwned>(&self) -> Result<Vec<T>, UserFileError> {
        let file = match File::open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed()(error)),
        };
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(self.failed())?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(self.damaged(&format!("it has more than {MAX_BYTES} bytes")));
        }
        let document: Document<serde_json::Value> =
            serde_json::from_slice(&bytes).map_err(|error| self.damaged(&error))?;
        if document.v != VERSION {
            return Err(
                self.damaged(&format!("it has version {}, but this program knows only version {VERSION}", document.v))
            );
        }
        let records = document.records.into_iter().map(serde_json::from_value);
        records.collect::<Result<_, _>>().map_err(|error| self.damaged(&error))
    }

    /// Removes the records selected by `which` and returns them.
    pub(crate) fn remove<T: Serialize + DeserializeOwned>(
        &self,
        which: impl Fn(&T) -> bool,
    ) -> Result<Vec<T>, UserFileError> {
        let mut gone = Vec::new();
        self.change(|records| {
            gone = records.extract_if(.., |record| which(record)).collect();
            !gone.is_empty()
        })?;
        Ok(gone)
    }

    /// Changes the records. Does not write if `change` returns `false`.
    pub(crate) fn change<T: Serialize + DeserializeOwned>(
        &self,
        change: impl FnOnce(&mut Vec<T>) -> bool,
    ) -> Result<(), UserFileError> {
        let _lock = FileLock::take(&self.file).map_err(self.failed())?;
        let mut records = self.records()?;
        if !change(&mut records) {
            return Ok(());
        }
        let document = Document { v: VERSION, records };
        let text = serde_json::to_string_pretty(&document).map_err(|error| self.damaged(&error))?;
        replace_secret(&self.file, text.as_bytes()).map_err(self.failed())
    }
}

/// Returns the name under which a root is recorded: absolute and with links resolved.
#[allow(clippy::disallowed_methods, reason = "the name of a root, whose files are not looked at")]
pub(crate) fn root_name(root: &Path) -> io::Result<String> {
    let name = root.canonicalize()?.into_os_string().into_string();
    name.map_err(|_| io::Error::new(io::ErrorKind::InvalidFilename, "its path is not UTF-8"))
}
