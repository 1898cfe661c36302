//! Errors of file operations.

use std::io::ErrorKind;
use std::path::PathBuf;

use crate::VPath;

/// Error of a file operation. Messages name the workspace path, never a host path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FsError {
    /// Nothing exists at the path.
    #[error("{} does not exist", .0.quoted())]
    NotFound(VPath),
    /// The path is a directory; a file was expected.
    #[error("{} is a directory, not a file", .0.quoted())]
    IsDirectory(VPath),
    /// A directory was expected, or a parent of the path is a file.
    #[error("{} is a file, not a directory", .0.quoted())]
    NotADirectory(VPath),
    /// Something already exists where a new file was to be created.
    #[error("{} already exists", .0.quoted())]
    AlreadyExists(VPath),
    /// The file is no longer at the version that the write was based on.
    #[error("{} has changed since it was read; read it again", .0.quoted())]
    Changed(VPath),
    /// A symbolic link in the path leads out of the workspace.
    #[error("{} leads outside the workspace", .0.quoted())]
    Outside(VPath),
    /// Symbolic links form a loop.
    #[error("{} is part of a loop of symbolic links", .0.quoted())]
    LinkLoop(VPath),
    /// The path resolves elsewhere than when it was checked: a link was put on the way.
    #[error("{} does not lead where it did a moment ago; look at it again", .0.quoted())]
    LeadsElsewhere(VPath),
    /// A device, FIFO or socket.
    #[error("{} is neither a regular file nor a directory", .0.quoted())]
    Special(VPath),
    /// The root, a route or a mount point cannot be deleted or overwritten.
    #[error("{} is a fixed part of the workspace and cannot be replaced or deleted", .0.quoted())]
    Fixed(VPath),
    /// The backend is read-only.
    #[error("{} is read-only", .0.quoted())]
    ReadOnly(VPath),
    /// The path is, or contains, one of the [protected places](crate::permissions::ProtectedPlaces).
    #[error("{} is protected, or holds what is: it can be read, but not changed or deleted", .0.quoted())]
    Protected(VPath),
    /// The operation exceeded its time limit.
    #[error("{}: {reason}", .path.quoted())]
    TimedOut {
        /// The path.
        path: VPath,
        /// What took so long, and a narrower operation to try instead.
        reason: String,
    },
    /// A permission rule denies it, or requires an approval that was not given.
    #[error("permission denied for {operation} on {}{}", .path.quoted(), .reason.in_words(.rule))]
    Denied {
        /// The path as it was given.
        path: VPath,
        /// `read` or `write`.
        operation: &'static str,
        /// The pattern of the rule that matched.
        rule: String,
        /// What the rule matched.
        reason: DeniedReason,
    },
    /// The content exceeds what may be held in memory.
    #[error("{} is too large: {size} bytes, the limit is {limit}", .path.quoted())]
    TooLarge {
        /// The path.
        path: VPath,
        /// Actual size in bytes.
        size: u64,
        /// Limit in bytes.
        limit: u64,
    },
    /// The store rejects the name: it is too long or contains characters that the store cannot represent.
    #[error("{} is not a name this workspace can store: {reason}", .path.quoted())]
    BadName {
        /// The path.
        path: VPath,
        /// Why.
        reason: String,
    },
    /// The pattern of a search or of a rule is invalid.
    #[error("invalid pattern `{}`: {reason}", beginning(.pattern))]
    Pattern {
        /// The searched directory, or the root.
        path: VPath,
        /// The pattern.
        pattern: String,
        /// Why.
        reason: String,
    },
    /// Deleting a directory failed after some of what is in it was deleted.
    #[error("{source}; {removed} of the entries below it are already deleted")]
    PartlyDeleted {
        /// Number of entries that were deleted.
        removed: u64,
        /// Why no more were.
        source: Box<FsError>,
    },
    /// The operating system or the store reported a failure.
    #[error("{}: {reason}", .path.quoted())]
    Io {
        /// The path.
        path: VPath,
        /// Kind of the failure.
        kind: ErrorKind,
        /// Description, without host paths.
        reason: String,
    },
}

/// What a rule that denies an operation matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeniedReason {
    /// The path itself.
    #[default]
    Path,
    /// What the path leads to through symbolic links. Messages do not name it, because it may be hidden from listings.
    Target,
    /// Something that a directory to be deleted contains or may contain.
    Contents,
}

impl DeniedReason {
    /// Returns the end of a message, which is empty if the path says it all.
    fn in_words(self, rule: &str) -> String {
        match self {
            Self::Path => String::new(),
            Self::Target => ": a link on it leads to a place that a rule protects".to_owned(),
            Self::Contents => format!(": the rule `{}` protects what it may contain", beginning(rule)),
        }
    }
}

/// A directory could not be opened as a workspace.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {} as a workspace: {source}", .path.display())]
pub struct OpenError {
    /// The directory as given.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: std::io::Error,
}

/// Matches the path of any variant, with the same borrow as the error. `$of_source` returns that of another error.
macro_rules! path_of {
    ($error:expr, $of_source:ident) => {
        match $error {
            Self::NotFound(path)
            | Self::IsDirectory(path)
            | Self::NotADirectory(path)
            | Self::AlreadyExists(path)
            | Self::Changed(path)
            | Self::Outside(path)
            | Self::LinkLoop(path)
            | Self::LeadsElsewhere(path)
            | Self::Special(path)
            | Self::Fixed(path)
            | Self::ReadOnly(path)
            | Self::Protected(path)
            | Self::TimedOut { path, .. }
            | Self::Denied { path, .. }
            | Self::TooLarge { path, .. }
            | Self::BadName { path, .. }
            | Self::Pattern { path, .. }
            | Self::Io { path, .. } => path,
            Self::PartlyDeleted { source, .. } => source.$of_source(),
        }
    };
}

/// Returns the beginning of a pattern: a reason behind a long one would be cut off where errors are bounded.
fn beginning(pattern: &str) -> String {
    match pattern.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", pattern.get(..end).unwrap_or_default()),
        None => pattern.to_owned(),
    }
}

impl FsError {
    /// Returns the path the error is about.
    pub fn path(&self) -> &VPath {
        path_of!(self, path)
    }

    fn path_mut(&mut self) -> &mut VPath {
        path_of!(self, path_mut)
    }

    /// Returns the error with its path mapped. Used by wrappers that expose files under other paths.
    #[must_use]
    pub fn map_path(mut self, f: impl FnOnce(&VPath) -> VPath) -> Self {
        let path = self.path_mut();
        *path = f(path);
        self
    }

    /// Creates an error for a failure of the store itself. `reason` must not name host paths.
    pub fn io(path: &VPath, kind: ErrorKind, reason: impl Into<String>) -> Self {
        Self::Io { path: path.clone(), kind, reason: reason.into() }
    }

    /// Converts an operating-system error. The message describes only the error kind, so that no host path leaks.
    pub fn from_io(path: &VPath, error: &std::io::Error) -> Self {
        let path = path.clone();
        match error.kind() {
            ErrorKind::NotFound => Self::NotFound(path),
            ErrorKind::AlreadyExists => Self::AlreadyExists(path),
            ErrorKind::IsADirectory => Self::IsDirectory(path),
            ErrorKind::NotADirectory => Self::NotADirectory(path),
            ErrorKind::InvalidFilename => Self::BadName { path, reason: "a name on it is too long".to_owned() },
            ErrorKind::ReadOnlyFilesystem => Self::ReadOnly(path),
            kind => Self::Io { path, kind, reason: kind.to_string() },
        }
    }
}
