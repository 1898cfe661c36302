//! Where the links of a place lead.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::VPath;

/// Levels of directories in a place whose entries are looked at: `skills/NAME/SKILL.md` has three.
const LEVELS: usize = 3;
/// Entries that are looked at.
const MOST: usize = 1024;

/// Where the links at a place and in it lead, if that is elsewhere below the root: whoever writes there writes what the place
/// says. What a link leads to need not be there.
pub(crate) fn leads(root: &Path, place: &VPath) -> BTreeSet<VPath> {
    let (mut found, mut seen, mut left) = (BTreeSet::new(), BTreeSet::new(), MOST);
    let mut todo = vec![(root.join(place.relative()), 0)];
    while let Some((path, level)) = todo.pop() {
        let Some(next) = left.checked_sub(1) else { break };
        left = next;
        let Ok(there) = path.symlink_metadata() else {
            // A link on the way leads there.
            let real = real(&path);
            found.extend(real.and_then(|real| below(root, &real)).filter(|real| real != place));
            continue;
        };
        let Some(real) = real(&path) else { continue };
        if there.is_symlink() || level == 0 {
            found.extend(below(root, &real).filter(|real| real != place));
        }
        if level < LEVELS && real != root && real.starts_with(root) && seen.insert(real.clone()) {
            let entries = std::fs::read_dir(&real).into_iter().flatten().flatten();
            todo.extend(entries.take(left).map(|entry| (entry.path(), level + 1)));
        }
    }
    found
}

/// A path without links; of one whose last part is not there, its directory has none.
fn real(path: &Path) -> Option<PathBuf> {
    if let Ok(real) = path.canonicalize() {
        return Some(real);
    }
    let target = path.read_link().map_or_else(|_| path.to_owned(), |to| path.with_file_name(to));
    Some(target.parent()?.canonicalize().ok()?.join(target.file_name()?))
}

fn below(root: &Path, real: &Path) -> Option<VPath> {
    let relative = real.strip_prefix(root).ok()?.to_str().filter(|path| !path.is_empty())?;
    VPath::parse(&format!("/{relative}")).ok()
}
