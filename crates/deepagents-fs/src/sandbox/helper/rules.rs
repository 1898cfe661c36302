//! Translates file rules into guards: hidden, read-only or free.

use std::path::{Path, PathBuf};

use super::failure::{At, Failure};
use super::find::entries;
use crate::VPath;
use crate::permissions::{AccessMode, Operation, Permissions, Rule};
use crate::sandbox::protocol::Guard;

/// Maximum number of places bound individually. Each needs one or two mounts.
const MAX_BOUND_PLACES: usize = 20_000;

/// Sets of rules that all apply.
pub(super) struct Rules(Vec<Permissions>);

impl Rules {
    pub(super) fn new(rules: &[Vec<Rule>]) -> Result<Self, Failure> {
        let compiled = rules.iter().map(|rules| Permissions::new(rules.iter().cloned()));
        compiled.collect::<Result<_, _>>().map(Self).at("read the rules")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Permissions::is_empty)
    }

    /// Returns the guard of a path. Places that require a person's approval are closed, as a command cannot ask.
    fn at(&self, path: &VPath) -> Guard {
        let closed = |operation| self.0.iter().any(|rules| rules.decide(operation, path).mode != AccessMode::Allow);
        match () {
            () if closed(Operation::Read) => Guard::Hide,
            () if closed(Operation::Write) => Guard::Protect,
            () => Guard::Free,
        }
    }

    /// Returns all places below a root whose guard differs from their parent's, parents first. The empty path is the
    /// root itself.
    pub(super) fn places(&self, root: &Path) -> Result<Vec<(PathBuf, Guard)>, Failure> {
        let step = "apply the rules about files";
        let mut found = Vec::new();
        if self.is_empty() {
            return Ok(found);
        }
        // If the workspace is not readable, only its directories are visible.
        let own = if self.at(&VPath::root()) == Guard::Free { Guard::Free } else { Guard::Protect };
        if own != Guard::Free {
            found.push((PathBuf::new(), own));
        }
        let mut todo = vec![(PathBuf::new(), VPath::root(), own)];
        while let Some((directory, above, inherited)) = todo.pop() {
            let Ok(entries) = entries(&root.join(&directory)) else {
                found.push((directory, Guard::Hide));
                continue;
            };
            for entry in entries {
                let kind = entry.file_type().on(step, entry.path().display())?;
                if kind.is_symlink() {
                    // Rules apply to the link's target at its own path.
                    continue;
                }
                let path = above.child(&entry.file_name().to_string_lossy());
                let place = directory.join(entry.file_name());
                let mut guard = self.at(&path);
                if guard == Guard::Hide && kind.is_dir() && self.0.iter().any(|rules| rules.may_allow_below(&path)) {
                    guard = Guard::Protect;
                }
                if guard != inherited {
                    found.push((place.clone(), guard));
                }
                if found.len() > MAX_BOUND_PLACES {
                    let reason =
                        format!("they name more than {MAX_BOUND_PLACES} individual files; use directories instead");
                    return Err(Failure::new(step, reason));
                }
                if kind.is_dir() && guard != Guard::Hide {
                    todo.push((place, path, guard));
                }
            }
        }
        Ok(found)
    }
}
