//! A path that leads to one place.

use std::sync::Arc;

use crate::search::{GlobOutcome, GrepFile, GrepOutcome, Scope};
use crate::{Entry, FsError, Listing, VPath};

/// What is done at the path is done at the place, on the way to which no link is followed. What is found there, and what
/// went wrong, is told as it would be of the path.
#[derive(Debug)]
pub(super) struct Led {
    pub(super) path: VPath,
    pub(super) place: VPath,
}

impl Led {
    /// How a path at or below the place is called from the path.
    fn back(&self, path: &VPath) -> VPath {
        path.strip_prefix(&self.place).map_or_else(|| path.clone(), |below| below.under(&self.path))
    }

    pub(super) fn error(&self, error: FsError) -> FsError {
        match error {
            // No link is followed, so a loop is a single one.
            FsError::LinkLoop(_) => FsError::LeadsElsewhere(self.path.clone()),
            error => error.map_path(|path| self.back(path)),
        }
    }

    pub(super) fn listing(&self, listing: Listing) -> Listing {
        let entries = listing.entries.into_iter().map(|entry| Entry { path: self.back(&entry.path), ..entry });
        Listing { entries: entries.collect(), ..listing }
    }

    /// The scope at the place, which sees what it sees at the path.
    pub(super) fn scope(self: &Arc<Self>, scope: &Scope) -> Scope {
        let (led, before) = (self.clone(), scope.visible.clone());
        let visible = before.map(|sees| Arc::new(move |path: &VPath| sees(&led.back(path))) as _);
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

    /// What could not be done below, where links are told of as ever.
    fn below(&self, error: FsError) -> FsError {
        error.map_path(|path| self.back(path))
    }
}
