//! A path pinned to a place.

use std::sync::Arc;

use crate::search::{GlobOutcome, GrepFile, GrepOutcome, Scope};
use crate::{Entry, FsError, Listing, VPath};

/// Redirects operations on `path` to `place` and refuses links on the way there. Results and errors name the path
/// instead of the place.
#[derive(Debug)]
pub(super) struct PinnedPath {
    pub(super) path: VPath,
    pub(super) place: VPath,
}

impl PinnedPath {
    /// Maps a path at or below the place back to one at or below the path.
    fn back(&self, path: &VPath) -> VPath {
        path.strip_prefix(&self.place).map_or_else(|| path.clone(), |below| below.under(&self.path))
    }

    pub(super) fn error(&self, error: FsError) -> FsError {
        match error {
            // Links are refused, so this is not a loop: there is a link on the way.
            FsError::LinkLoop(_) => FsError::LeadsElsewhere(self.path.clone()),
            error => error.map_path(|path| self.back(path)),
        }
    }

    pub(super) fn listing(&self, listing: Listing) -> Listing {
        let entries = listing.entries.into_iter().map(|entry| Entry { path: self.back(&entry.path), ..entry });
        Listing { entries: entries.collect(), ..listing }
    }

    /// Returns the scope at the place, with its filter still applied to the original paths.
    pub(super) fn scope(self: &Arc<Self>, scope: &Scope) -> Scope {
        let (pin, before) = (self.clone(), scope.visible.clone());
        let visible = before.map(|sees| Arc::new(move |path: &VPath| sees(&pin.back(path))) as _);
        Scope { path: self.place.clone(), visible, ..scope.clone() }
    }

    pub(super) fn globbed(&self, found: GlobOutcome) -> GlobOutcome {
        let files = found.files.iter().map(|file| self.back(file)).collect();
        GlobOutcome { files, errors: found.errors.map(|error| self.below(error)), ..found }
    }

    pub(super) fn grepped(&self, found: GrepOutcome) -> GrepOutcome {
        let files = found.files.into_iter().map(|file| GrepFile { path: self.back(&file.path), ..file }).collect();
        GrepOutcome { files, errors: found.errors.map(|error| self.below(error)), ..found }
    }

    /// Maps an error about a file below the place, where links are reported as usual.
    fn below(&self, error: FsError) -> FsError {
        error.map_path(|path| self.back(path))
    }
}
