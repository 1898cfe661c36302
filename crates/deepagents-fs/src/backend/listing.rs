//! The children of a directory.

use jiff::Timestamp;

use super::Kind;
use crate::{FsError, VPath};

/// One child of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path of the child.
    pub path: VPath,
    /// Kind of the child, following links.
    pub kind: Kind,
    /// Size in bytes; 0 if not a file.
    pub size: u64,
    /// Time of the last write, if known.
    pub modified: Option<Timestamp>,
    /// Whether it is a symbolic link. Searches and walks do not follow links.
    pub link: bool,
}

impl Entry {
    /// Creates an entry for a file.
    pub fn file(path: VPath, size: u64) -> Self {
        Self { path, kind: Kind::File, size, modified: None, link: false }
    }

    /// Creates an entry for a directory.
    pub fn directory(path: VPath) -> Self {
        Self { path, kind: Kind::Directory, size: 0, modified: None, link: false }
    }
}

/// The children of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The children, sorted by path, without duplicates.
    pub entries: Vec<Entry>,
    /// Number of children omitted because no path can name them: their names are not UTF-8 or contain a backslash.
    pub unnameable: usize,
}

impl Listing {
    /// Creates a listing from entries in any order.
    pub fn from_entries(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut entries: Vec<Entry> = entries.into_iter().collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        entries.dedup_by(|a, b| a.path == b.path);
        Self { entries, unnameable: 0 }
    }

    /// Maps the paths of the children, whose order must not change by that.
    pub(crate) fn map_paths(self, f: impl Fn(&VPath) -> VPath) -> Self {
        let entries = self.entries.into_iter().map(|entry| Entry { path: f(&entry.path), ..entry });
        Self { entries: entries.collect(), ..self }
    }

    /// Lists a directory in a store that has only files and orders them by path. `first_from` returns the first file at
    /// or after a text, so that the files below a child directory are skipped.
    pub(crate) fn jumping<'a, T>(
        directory: &VPath,
        first_from: impl Fn(&str) -> Option<(&'a VPath, T)>,
        entry: impl Fn(VPath, T) -> Entry,
    ) -> Self {
        let base = format!("{}/", directory.as_str().trim_end_matches('/'));
        let (mut entries, mut from) = (Vec::new(), base.clone());
        while let Some((file, facts)) = first_from(&from) {
            let Some(rest) = file.as_str().strip_prefix(&base) else { break };
            if let Some((name, _)) = rest.split_once('/') {
                let child = directory.child(name);
                // '0' follows '/', so this sorts after everything below the child.
                from = format!("{child}0");
                entries.push(Entry::directory(child));
            } else {
                from = format!("{file}\0");
                entries.push(entry(file.clone(), facts));
            }
        }
        Self::from_entries(entries)
    }

    /// Lists a directory in a store that has only files, given in any order. Files deeper down appear as directories.
    ///
    /// ```
    /// use deepagents_fs::{Entry, Kind, Listing, VPath};
    /// let files = ["/a/b", "/a/c/d", "/e"].map(|path| VPath::parse(path).map(|path| Entry::file(path, 0)));
    /// let files = files.into_iter().collect::<Result<Vec<_>, _>>()?;
    /// let listing = Listing::implied(&VPath::parse("/a")?, files)?;
    /// assert_eq!(listing.entries.iter().map(|entry| entry.kind).collect::<Vec<_>>(), [Kind::File, Kind::Directory]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the directory does not exist; see [`Stat::implied`](super::Stat::implied).
    pub fn implied(directory: &VPath, files: impl IntoIterator<Item = Entry>) -> Result<Self, FsError> {
        let mut entries = Vec::new();
        for file in files {
            let Some(below) = file.path.strip_prefix(directory) else {
                if directory.starts_with(&file.path) {
                    return Err(FsError::NotADirectory(file.path));
                }
                continue;
            };
            let mut names = below.components();
            let Some(name) = names.next() else { return Err(FsError::NotADirectory(file.path)) };
            entries.push(if names.next().is_some() { Entry::directory(directory.child(name)) } else { file });
        }
        if entries.is_empty() && !directory.is_root() {
            return Err(FsError::NotFound(directory.clone()));
        }
        Ok(Self::from_entries(entries))
    }
}
