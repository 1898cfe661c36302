//! Finding files by name (glob) and lines by content (grep), the same on every backend.
//!
//! Results are sorted by path, whatever the limits. Names that begin with a dot are looked into only where the pattern
//! or the path of the query names them. Symbolic links are not followed, except that the path of a query may lead
//! through them. Files with a NUL in their first 8 KiB are not searched.
//!
//! A search holds some tens of megabytes at most, whatever is asked for and whatever is there: patterns are bounded, and
//! what is found ends where it would take more.

mod braces;
mod collect;
mod engine;
mod ignores;
mod long_lines;
mod matcher;
mod pattern;
mod segment;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use collect::{Collector, Control, MOST_FILES, sibling_order};
#[cfg(unix)]
pub(crate) use collect::{LONGEST_PATH, MOST_PATH_BYTES};
pub use engine::{glob, grep};
pub(crate) use ignores::Ignores;
pub(crate) use matcher::{Found, LineMatcher};
pub use pattern::{Pattern, PatternError};
pub(crate) use pattern::{PatternMatch, Progress};

use crate::{FsError, VPath};

/// Which paths may be seen; a file that it refuses is as if it did not exist.
pub type PathFilter = Arc<dyn Fn(&VPath) -> bool + Send + Sync>;

/// Where to search, and for how long.
#[derive(Clone)]
pub struct Scope {
    /// The directory to search, or one file.
    pub path: VPath,
    /// Leave out what `.gitignore` files in the workspace name. Off by default.
    pub respect_gitignore: bool,
    /// How long the search may take; then it ends with what it has. Ten seconds by default.
    pub deadline: Option<Duration>,
    /// Which files may be seen. All by default.
    pub visible: Option<PathFilter>,
}

impl Scope {
    /// A directory, or one file.
    pub fn new(path: VPath) -> Self {
        Self { path, respect_gitignore: false, deadline: Some(Duration::from_secs(10)), visible: None }
    }

    pub(crate) fn sees(&self, path: &VPath) -> bool {
        self.visible.as_ref().is_none_or(|visible| visible(path))
    }

    fn refuse(&self, pattern: &str, reason: String) -> FsError {
        FsError::Pattern { path: self.path.clone(), pattern: pattern.to_owned(), reason }
    }

    /// A glob as it applies below the scope's path. One that itself begins with that path is understood.
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
    /// The glob, from the scope's path on.
    pub pattern: Pattern,
    /// Where.
    pub scope: Scope,
    /// At most so many files; no limit by default.
    pub max_files: Option<usize>,
}

impl GlobQuery {
    /// Files that match a glob below a directory. A glob that repeats the directory's path, with its slash in front,
    /// means the same as one without it.
    ///
    /// # Errors
    /// When the glob cannot be used.
    pub fn new(pattern: &str, path: VPath) -> Result<Self, FsError> {
        let scope = Scope::new(path);
        Ok(Self { pattern: scope.glob(pattern)?, scope, max_files: None })
    }
}

/// The files that a glob found.
#[derive(Clone, Debug, Default)]
pub struct GlobOutcome {
    /// The files, sorted by path.
    pub files: Vec<VPath>,
    /// Why there may be more.
    pub truncation: Option<Truncation>,
    /// What could not be looked into.
    pub errors: WalkErrors,
}

/// A search for lines.
#[derive(Clone, Debug)]
pub struct GrepQuery {
    /// What to look for within one line: text as it stands, unless `regex` is set.
    pub pattern: String,
    /// The pattern is a regular expression.
    pub regex: bool,
    /// Upper and lower case are the same.
    pub ignore_case: bool,
    /// Only files that match this glob, from the scope's path on.
    pub glob: Option<Pattern>,
    /// Where.
    pub scope: Scope,
    /// Lines to show before and after each match, 200 at most.
    pub context: usize,
    /// At most so many matching lines in all; no limit by default.
    pub max_count: Option<usize>,
    /// At most so many matching lines in each file; no limit by default.
    pub max_per_file: Option<usize>,
}

impl GrepQuery {
    /// Lines with a text in a file, or in the files below a directory.
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
    /// When the glob cannot be used.
    pub fn only(mut self, glob: &str) -> Result<Self, FsError> {
        self.glob = Some(self.scope.glob(glob)?);
        Ok(self)
    }

    /// The files to search: those of the glob, otherwise all without a dot name.
    pub(crate) fn files(&self) -> Result<Pattern, FsError> {
        match &self.glob {
            Some(glob) => Ok(glob.clone()),
            None => self.scope.glob("*"),
        }
    }
}

/// The lines that a grep found.
#[derive(Clone, Debug, Default)]
pub struct GrepOutcome {
    /// Files with at least one match, sorted by path.
    pub files: Vec<GrepFile>,
    /// Matching lines in all of them.
    pub matches: usize,
    /// Why there may be more.
    pub truncation: Option<Truncation>,
    /// What could not be searched.
    pub errors: WalkErrors,
    /// Files that were passed over since they are not text.
    pub binary: usize,
}

/// The matches in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepFile {
    /// The file.
    pub path: VPath,
    /// Matching lines and those around them, in order, each once.
    pub lines: Vec<GrepLine>,
}

/// A line of a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepLine {
    /// Its number, from 1, as in [`lines`](crate::lines).
    pub number: u64,
    /// Its text without what ends it; of a very long line the part around the first match.
    pub text: String,
    /// Whether it matches; otherwise it is near one that does.
    pub matched: bool,
    /// Whether the text is only a part of the line.
    pub clipped: bool,
}

impl GrepLine {
    /// About how many bytes of memory it takes.
    pub(crate) fn weight(&self) -> usize {
        self.text.len() + 64
    }
}

/// Why a search ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Truncation {
    /// There was more than was asked for, or than is held in memory.
    Limit,
    /// The time was over.
    Deadline,
}

/// What could not be looked into during a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkErrors {
    /// The first twenty.
    pub errors: Vec<FsError>,
    /// How many there were.
    pub count: usize,
}

impl WalkErrors {
    /// Adds one.
    pub fn push(&mut self, error: FsError) {
        self.count += 1;
        if self.errors.len() < 20 {
            self.errors.push(error);
        }
    }

    /// Adds those of another search.
    pub fn extend(&mut self, other: Self) {
        self.count += other.count;
        let room = 20_usize.saturating_sub(self.errors.len());
        self.errors.extend(other.errors.into_iter().take(room));
    }

    /// The same errors, each changed.
    #[must_use]
    pub(crate) fn map(self, f: impl Fn(FsError) -> FsError) -> Self {
        Self { errors: self.errors.into_iter().map(f).collect(), count: self.count }
    }
}
