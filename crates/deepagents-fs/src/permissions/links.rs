//! Targets of the links at a place.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::VPath;

/// Depth to which directories in a place are searched: `skills/NAME/SKILL.md` is at depth three.
const MAX_DEPTH: usize = 3;
/// Maximum number of entries examined.
const MAX_ENTRIES: usize = 1024;

/// Returns the targets of the links at and in a place, if they are elsewhere below the root: whoever writes to a target
/// changes the place. A target need not exist.
pub(crate) fn leads(root: &Path, place: &VPath) -> BTreeSet<VPath> {
    let (mut found, mut seen, mut left) = (BTreeSet::new(), BTreeSet::new(), MAX_ENTRIES);
    let mut todo = vec![(root.join(place.relative()), 0)];
    while let Some((path, level)) = todo.pop() {
        let Some(next) = left.checked_sub(1) else { break };
        left = next;
        let Ok(there) = path.symlink_metadata() else {
            // A link in the path leads there.
            let real = real(&path);
            found.extend(real.and_then(|real| below(root, &real)).filter(|real| real != place));
            continue;
        };
        let Some(real) = real(&path) else { continue };
        if there.is_symlink() || level == 0 {
            found.extend(below(root, &real).filter(|real| real != place));
        }
        if level < MAX_DEPTH && real != root && real.starts_with(root) && seen.insert(real.clone()) {
            let entries = std::fs::read_dir(&real).into_iter().flatten().flatten();
            todo.extend(entries.take(left).map(|entry| (entry.path(), level + 1)));
        }
    }
    found
}

/// Resolves a path. If only its last component is missing, resolves the parent directory.
fn real(path: &Path) -> Option<PathBuf> {
    if let Ok(real) = path.canonicalize() {
        return Some(real);
    }
    let target = path.read_link().map_or_else(|_| path.to_owned(), |to| path.with_file_name(to));
    Some(target.parent()?.canonicalize().ok()?.join(target.file_name()?))
}

fn below(root: &Path, real: &Path) -> Option<VPath> {
    let relative = real.strip_prefix(root).ok()?.to_str().filter(|path| !path.is_empty())?;
    VPath::try_from(format!("/{relative}")).ok()
}
