//! A path pinned to a place.

use std::sync::Arc;

use crate::search::Scope;
use crate::{FsError, VPath};

/// Redirects operations on `path` to `place` and refuses links on the way there. Results and errors name the path
/// instead of the place.
#[derive(Debug)]
pub(super) struct PinnedPath {
    pub(super) path: VPath,
    pub(super) place: VPath,
}

impl PinnedPath {
    /// Maps a path at or below the place back to one at or below the path.
    pub(super) fn back(&self, path: &VPath) -> VPath {
        path.strip_prefix(&self.place).map_or_else(|| path.clone(), |below| below.under(&self.path))
    }

    /// Maps the error of an operation on the path.
    pub(super) fn error(&self, error: FsError) -> FsError {
        match error {
            // Links are refused, so this is not a loop: there is a link on the way.
            FsError::LinkLoop(_) => FsError::LeadsElsewhere(self.path.clone()),
            error => error.map_path(|path| self.back(path)),
        }
    }

    /// Returns the scope at the place, with its filter still applied to the original paths.
    pub(super) fn scope(self: &Arc<Self>, scope: &Scope) -> Scope {
        let (pin, before) = (self.clone(), scope.visible.clone());
        let visible = before.map(|sees| Arc::new(move |path: &VPath| sees(&pin.back(path))) as _);
        Scope { path: self.place.clone(), visible, ..scope.clone() }
    }
}
