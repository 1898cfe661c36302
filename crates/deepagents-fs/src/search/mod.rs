//! Finds files by name (glob) and lines by content (grep), with the same semantics on every backend.
//!
//! Results are sorted by path, whatever the limits. Names with a leading dot are searched only if the pattern or the
//! path of the query names them. Symbolic links are not followed, except in the path of a query. Files with a NUL in
//! their first 8 KiB are not searched.
//!
//! A search holds at most some tens of megabytes, whatever the query and the files: the size of patterns is limited,
//! and results are truncated before they take more.

mod braces;
mod collect;
mod engine;
mod ignores;
mod long_lines;
mod matcher;
mod pattern;
mod segment;
mod utf16;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use collect::{Collector, Control, MAX_FILES, sibling_order};
#[cfg(unix)]
pub(crate) use collect::{MAX_PATH_BYTES, MAX_PATHS_BYTES};
pub use engine::{glob, grep};
pub(crate) use ignores::Ignores;
pub(crate) use matcher::{Found, LineMatcher};
pub use pattern::{Pattern, PatternError};
pub(crate) use pattern::{PatternMatch, Progress};
pub(crate) use segment::{Token, matches_tokens};
pub(crate) use utf16::Utf16Reader;

use crate::{FsError, VPath};

/// Filter for visible paths; a file that it rejects is treated as missing.
pub type PathFilter = Arc<dyn Fn(&VPath) -> bool + Send + Sync>;

/// Where to search, and for how long.
#[derive(Clone)]
pub struct Scope {
    /// The directory to search, or one file.
    pub path: VPath,
    /// Whether to skip files that `.gitignore` files in the workspace exclude. Off by default.
    pub respect_gitignore: bool,
    /// Time limit, after which the search returns what it has; ten seconds by default.
    pub deadline: Option<Duration>,
    /// Filter for visible files; all are visible by default.
    pub visible: Option<PathFilter>,
}

impl Scope {
    /// Creates a scope for a directory or a single file.
    pub fn new(path: VPath) -> Self {
        Self { path, respect_gitignore: false, deadline: Some(Duration::from_secs(10)), visible: None }
    }

    pub(crate) fn sees(&self, path: &VPath) -> bool {
        self.visible.as_ref().is_none_or(|visible| visible(path))
    }

    fn refuse(&self, pattern: &str, reason: String) -> FsError {
        FsError::Pattern { path: self.path.clone(), pattern: pattern.to_owned(), reason }
    }

    /// Compiles a glob relative to the scope's path. A glob that itself starts with that path is accepted.
    fn glob(&self, pattern: &str) -> Result<Pattern, FsError> {
        let compiled = Pattern::new(pattern).map_err(|error| self.refuse(pattern, error.to_string()))?;
        if pattern.starts_with('/') && !self.path.is_root() {
            let names: Vec<&str> = self.path.components().collect();
            return Ok(compiled.below(&names).unwrap_or(compiled));
        }
        Ok(compiled)
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("path", &self.path)
            .field("respect_gitignore", &self.respect_gitignore)
            .field("deadline", &self.deadline)
            .field("filtered", &self.visible.is_some())
            .finish()
    }
}

/// A search for files by name.
#[derive(Clone, Debug)]
pub struct GlobQuery {
    /// The glob, relative to the scope's path.
    pub pattern: Pattern,
    /// The scope.
    pub scope: Scope,
    /// Maximum number of files; unlimited by default.
    pub max_files: Option<usize>,
}

impl GlobQuery {
    /// Creates a query for the files below a directory that match a glob. A glob that starts with a slash and the
    /// directory's path is equivalent to one without that prefix.
    ///
    /// # Errors
    /// Returns an error if the glob is invalid.
    pub fn new(pattern: &str, path: VPath) -> Result<Self, FsError> {
        let scope = Scope::new(path);
        Ok(Self { pattern: scope.glob(pattern)?, scope, max_files: None })
    }
}

/// Result of a glob search.
#[derive(Clone, Debug, Default)]
pub struct GlobOutcome {
    /// The files, sorted by path.
    pub files: Vec<VPath>,
    /// Reason there may be more files; `None` if the result is complete.
    pub truncation: Option<Truncation>,
    /// Errors on the way.
    pub errors: WalkErrors,
}

impl GlobOutcome {
    /// Maps the paths of files and errors.
    pub(crate) fn map_paths(self, f: impl Fn(&VPath) -> VPath) -> Self {
        Self { files: self.files.iter().map(&f).collect(), errors: self.errors.map_paths(f), ..self }
    }
}

/// A search for lines by content.
#[derive(Clone, Debug)]
pub struct GrepQuery {
    /// The text to find within a line: literal, unless `regex` is set.
    pub pattern: String,
    /// Whether the pattern is a regular expression.
    pub regex: bool,
    /// Whether to ignore case.
    pub ignore_case: bool,
    /// Searches only files that match this glob, relative to the scope's path.
    pub glob: Option<Pattern>,
    /// The scope.
    pub scope: Scope,
    /// Number of context lines before and after each match, at most 200.
    pub context: usize,
    /// Maximum number of matching lines in total; unlimited by default.
    pub max_count: Option<usize>,
    /// Maximum number of matching lines per file; unlimited by default.
    pub max_per_file: Option<usize>,
}

impl GrepQuery {
    /// Creates a query for lines that contain a text, in a file or in the files below a directory.
    pub fn new(pattern: impl Into<String>, path: VPath) -> Self {
        Self {
            pattern: pattern.into(),
            regex: false,
            ignore_case: false,
            glob: None,
            scope: Scope::new(path),
            context: 0,
            max_count: None,
            max_per_file: None,
        }
    }

    /// Searches only files that match a glob.
    ///
    /// # Errors
    /// Returns an error if the glob is invalid.
    pub fn only(mut self, glob: &str) -> Result<Self, FsError> {
        self.glob = Some(self.scope.glob(glob)?);
        Ok(self)
    }

    /// Returns the pattern of files to search: the glob, or all files without a dot name.
    pub(crate) fn files(&self) -> Result<Pattern, FsError> {
        match &self.glob {
            Some(glob) => Ok(glob.clone()),
            None => self.scope.glob("*"),
        }
    }
}

/// Result of a grep search.
#[derive(Clone, Debug, Default)]
pub struct GrepOutcome {
    /// Files with at least one match, sorted by path.
    pub files: Vec<GrepFile>,
    /// Number of matching lines in all files.
    pub matches: usize,
    /// Reason there may be more lines; `None` if the result is complete.
    pub truncation: Option<Truncation>,
    /// Errors on the way.
    pub errors: WalkErrors,
    /// Number of files that were skipped because they are not text.
    pub binary: usize,
}

impl GrepOutcome {
    /// Maps the paths of files and errors.
    pub(crate) fn map_paths(self, f: impl Fn(&VPath) -> VPath) -> Self {
        let files = self.files.into_iter().map(|file| GrepFile { path: f(&file.path), ..file }).collect();
        Self { files, errors: self.errors.map_paths(f), ..self }
    }
}

/// The matches in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepFile {
    /// Path of the file.
    pub path: VPath,
    /// Matching and context lines in order, without duplicates.
    pub lines: Vec<GrepLine>,
    /// Whether the file may have more matching lines, because a limit was reached.
    pub truncated: bool,
}

/// A matching line or a context line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepLine {
    /// Line number, from 1, as in [`lines`](crate::lines).
    pub number: u64,
    /// Text of the line without its terminator; for a very long line, the part around the first match.
    pub text: String,
    /// Whether the line matches; otherwise it is a context line.
    pub matched: bool,
    /// Whether the text is only part of the line.
    pub clipped: bool,
}

impl GrepLine {
    /// Returns the approximate memory use in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.text.len() + 64
    }
}

/// Reason a search ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Truncation {
    /// The result reached the requested limit or a memory limit.
    Limit,
    /// The deadline passed.
    Deadline,
}

/// Errors that occurred during a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkErrors {
    /// The first twenty errors.
    pub errors: Vec<FsError>,
    /// Total number of errors.
    pub count: usize,
    /// Number of entries passed over because no path can name them: their names are not UTF-8 or contain a backslash.
    /// What is below them is not searched either.
    pub unnameable: usize,
}

impl WalkErrors {
    /// Adds an error.
    pub fn push(&mut self, error: FsError) {
        self.count += 1;
        if self.errors.len() < 20 {
            self.errors.push(error);
        }
    }

    /// Adds the errors of another search.
    pub fn extend(&mut self, other: Self) {
        self.count += other.count;
        self.unnameable += other.unnameable;
        let room = 20_usize.saturating_sub(self.errors.len());
        self.errors.extend(other.errors.into_iter().take(room));
    }

    fn map_paths(self, f: impl Fn(&VPath) -> VPath) -> Self {
        Self { errors: self.errors.into_iter().map(|error| error.map_path(&f)).collect(), ..self }
    }
}
