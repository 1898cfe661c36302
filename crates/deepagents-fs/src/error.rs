//! What goes wrong with files.

use std::io::ErrorKind;
use std::path::PathBuf;

use crate::VPath;

/// What an operation on files failed with. Every message names the workspace path and never a host path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FsError {
    /// Nothing is there.
    #[error("{} does not exist", .0.quoted())]
    NotFound(VPath),
    /// A file was wanted.
    #[error("{} is a directory, not a file", .0.quoted())]
    IsDirectory(VPath),
    /// A directory was wanted, or one of the path's parents is a file.
    #[error("{} is a file, not a directory", .0.quoted())]
    NotADirectory(VPath),
    /// A new file was wanted.
    #[error("{} already exists", .0.quoted())]
    AlreadyExists(VPath),
    /// The file is not the version that the write was based on.
    #[error("{} has changed since it was read; read it again", .0.quoted())]
    Changed(VPath),
    /// A symbolic link on the way leaves the workspace.
    #[error("{} leads outside the workspace", .0.quoted())]
    Outside(VPath),
    /// Symbolic links go round in a circle.
    #[error("{} is part of a loop of symbolic links", .0.quoted())]
    LinkLoop(VPath),
    /// A path leads elsewhere than it did when it was judged: somebody has put a link on the way.
    #[error("{} does not lead where it did a moment ago; look at it again", .0.quoted())]
    LeadsElsewhere(VPath),
    /// A device, FIFO or socket.
    #[error("{} is neither a regular file nor a directory", .0.quoted())]
    Special(VPath),
    /// The root, a route or a mount point cannot be deleted or overwritten.
    #[error("{} is a fixed part of the workspace and cannot be replaced or deleted", .0.quoted())]
    Fixed(VPath),
    /// The backend does not do this.
    #[error("{} is read-only", .0.quoted())]
    ReadOnly(VPath),
    /// It is one of the [protected places](crate::permissions::ProtectedPlaces), or holds one.
    #[error("{} is protected, or holds what is: it can be read, but not changed or deleted", .0.quoted())]
    Protected(VPath),
    /// It took longer than a call may.
    #[error("{}: {reason}", .path.quoted())]
    TimedOut {
        /// The path.
        path: VPath,
        /// What took so long, and what to ask for instead.
        reason: String,
    },
    /// A permission rule forbids it, or asks for an approval that was not given.
    #[error("permission denied for {operation} on {}", .path.quoted())]
    Denied {
        /// The path as it was given.
        path: VPath,
        /// `read` or `write`.
        operation: &'static str,
        /// The pattern of the rule that decided.
        rule: String,
    },
    /// More bytes than may be held in memory.
    #[error("{} is too large: {size} bytes, the limit is {limit}", .path.quoted())]
    TooLarge {
        /// The path.
        path: VPath,
        /// Bytes there are.
        size: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The store refuses the name: too long, or with characters that it cannot hold.
    #[error("{} is not a name this workspace can store: {reason}", .path.quoted())]
    BadName {
        /// The path.
        path: VPath,
        /// Why.
        reason: String,
    },
    /// A search pattern or a rule's pattern cannot be used.
    #[error("invalid pattern `{pattern}`: {reason}")]
    Pattern {
        /// The directory that was searched, or the root.
        path: VPath,
        /// The pattern.
        pattern: String,
        /// Why.
        reason: String,
    },
    /// The operating system or the store failed.
    #[error("{}: {reason}", .path.quoted())]
    Io {
        /// The path.
        path: VPath,
        /// The class of the failure.
        kind: ErrorKind,
        /// What happened, without host paths.
        reason: String,
    },
}

/// A directory could not be opened as a workspace.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {} as a workspace: {source}", .path.display())]
pub struct OpenError {
    /// The directory, as it was given.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: std::io::Error,
}

/// The path of any variant, borrowed as the error is.
macro_rules! path_of {
    ($error:expr) => {
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
        }
    };
}

impl FsError {
    /// The path it is about.
    pub fn path(&self) -> &VPath {
        path_of!(self)
    }

    /// The same error about another path; a wrapper that shows files elsewhere uses it.
    #[must_use]
    pub fn map_path(mut self, f: impl FnOnce(&VPath) -> VPath) -> Self {
        let path = path_of!(&mut self);
        *path = f(path);
        self
    }

    /// A failure of the store itself. `reason` must not name host paths.
    pub fn io(path: &VPath, kind: ErrorKind, reason: impl Into<String>) -> Self {
        Self::Io { path: path.clone(), kind, reason: reason.into() }
    }

    /// An operating-system error about a path, told in its class's words so that no host path shows.
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
