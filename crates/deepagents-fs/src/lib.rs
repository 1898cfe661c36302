//! The files an agent works on.
//!
//! A [`VPath`] names a file; a [`Backend`] stores it, in the thread's state ([`StateBackend`]) or in a directory on
//! disk ([`LocalBackend`]). Reading windows of [`lines`] and exact [`edit`]s are implemented once and behave the same
//! on every backend.

#[cfg(unix)]
mod attributes;
mod backend;
pub mod classify;
mod composite;
pub mod edit;
mod error;
mod files;
mod forward;
mod host_directory;
pub mod lines;
#[cfg(unix)]
mod local;
pub mod locked_file;
mod locks;
mod overlay;
mod path;
pub mod permissions;
mod portable;
mod readonly;
pub mod sandbox;
pub mod search;
pub mod shell;
mod state;
mod store;
#[cfg(all(unix, feature = "undo"))]
mod undo;

pub use backend::{
    Backend, ByteRange, Capabilities, Entry, FileRead, FsFuture, Kind, Listing, PathGuard, Stat, Version, WriteMode,
    Written,
};
pub use classify::ContentKind;
pub use composite::CompositeBackend;
pub use error::{DeniedReason, FsError, OpenError};
pub use files::{Content, FileData, FileMap, Files, FilesUpdate};
pub use host_directory::{AccessGuard, CommandGuard, HostDirectory};
#[cfg(unix)]
pub use local::{LocalBackend, LocalOptions};
#[cfg(all(unix, feature = "undo"))]
pub use local::{RestoreError, Restored};
pub use overlay::{Applied, ApplyError, OverlayBackend, OverlayChange, OverlayChangeKind};
pub use path::{PathError, VPath};
pub use portable::{PortableBackend, PortableOptions};
pub use readonly::ReadOnly;
pub use state::StateBackend;
pub use store::StoreBackend;
#[cfg(all(unix, feature = "undo"))]
pub use undo::{
    Conflict, ConflictReason, FileChange, FileUndo, FileVersion, GcStats, OnConflict, RestorePlan, Skipped, UndoCursor,
    UndoError, UndoStore, UndoUpdate,
};
#[doc(hidden)]
pub use {bytes, deepagents_core};
