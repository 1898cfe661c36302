//! The files of a state, ordered by path, and updates to them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Content, FileData};
use crate::VPath;

/// Value of the channel: files ordered by path. A clone costs one reference count.
#[derive(Clone, Default, PartialEq)]
pub struct FileMap {
    files: RedBlackTreeMapSync<VPath, Arc<FileData>>,
}

/// An update of files: a file to store at each path, or `None` to delete it.
pub type FilesUpdate = BTreeMap<VPath, Option<Arc<FileData>>>;

impl FileMap {
    /// Returns the text of the file at a path; `None` if there is no file or its content is binary.
    ///
    /// ```
    /// use deepagents_core::run::Outcome;
    /// use deepagents_fs::Files;
    /// fn report(outcome: &Outcome) -> Option<&str> {
    ///     outcome.state.get::<Files>()?.text("/report.md")
    /// }
    /// ```
    pub fn text(&self, path: &str) -> Option<&str> {
        match self.get(&VPath::parse(path).ok()?)?.content() {
            Content::Text(text) => Some(text),
            Content::Binary(_) => None,
        }
    }

    /// Returns the file at a path.
    pub fn get(&self, path: &VPath) -> Option<&Arc<FileData>> {
        self.files.get(path)
    }

    /// Iterates over the files in path order.
    pub fn iter(&self) -> impl Iterator<Item = (&VPath, &Arc<FileData>)> {
        self.files.iter()
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.files.size()
    }

    /// Returns whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the files below a directory in path order.
    pub fn below(&self, directory: &VPath) -> Vec<(&VPath, &Arc<FileData>)> {
        use std::ops::Bound::{Excluded, Included};
        // '0' follows '/', so this sorts directly after everything below the directory.
        let base = directory.as_str().trim_end_matches('/');
        let (first, end) = (format!("{base}/"), format!("{base}0"));
        self.files.range::<str, _>((Included(first.as_str()), Excluded(end.as_str()))).collect()
    }

    /// Returns the first file whose path is at or after `from`.
    pub(crate) fn first_from(&self, from: &str) -> Option<(&VPath, &Arc<FileData>)> {
        use std::ops::Bound::{Included, Unbounded};
        self.files.range::<str, _>((Included(from), Unbounded)).next()
    }

    /// Returns whether any files are below a path.
    pub fn is_directory(&self, path: &VPath) -> bool {
        if path.is_root() {
            return true;
        }
        let base = format!("{path}/");
        self.first_from(&base).is_some_and(|(file, _)| file.as_str().starts_with(&base))
    }

    /// Returns the nearest ancestor of the path that is a file.
    pub fn file_above(&self, path: &VPath) -> Option<VPath> {
        path.ancestors().find(|above| self.files.contains_key(above))
    }

    /// Applies an update, deletions first. Skips paths that cannot be a file and returns them with the reason.
    pub(super) fn apply(&mut self, update: FilesUpdate) -> Vec<(VPath, String)> {
        for path in update.iter().filter(|(_, file)| file.is_none()).map(|(path, _)| path) {
            self.files.remove_mut(path);
        }
        let mut refused = Vec::new();
        for (path, file) in update {
            let Some(file) = file else { continue };
            match self.obstacle(&path) {
                Some(reason) => refused.push((path, reason)),
                None => self.files.insert_mut(path, file),
            }
        }
        refused
    }

    fn obstacle(&self, path: &VPath) -> Option<String> {
        if path.is_root() {
            return Some("/ is the root and cannot be a file".to_owned());
        }
        if self.is_directory(path) {
            return Some(format!("{path} is a directory and cannot be a file"));
        }
        self.file_above(path).map(|above| format!("{above} is a file, so {path} cannot be below it"))
    }
}

impl fmt::Debug for FileMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.files.iter()).finish()
    }
}

impl FromIterator<(VPath, Arc<FileData>)> for FileMap {
    fn from_iter<I: IntoIterator<Item = (VPath, Arc<FileData>)>>(files: I) -> Self {
        Self { files: files.into_iter().collect() }
    }
}

impl Serialize for FileMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.files.iter())
    }
}

impl<'de> Deserialize<'de> for FileMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut out = Self::default();
        for (path, file) in BTreeMap::<VPath, Arc<FileData>>::deserialize(deserializer)? {
            if let Some(obstacle) = out.obstacle(&path) {
                return Err(D::Error::custom(obstacle));
            }
            out.files.insert_mut(path, file);
        }
        Ok(out)
    }
}
