//! Directories in which the commands of a script may run.

use std::collections::BTreeSet;

use super::word::Word;

/// Maximum number of directories that are tracked.
const MAX_DIRECTORIES: usize = 16;

/// The directories a script may be in: below the one it starts in (`""`), beside it (`../x`), or absolute. Unknown if
/// `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directories(Option<BTreeSet<String>>);

impl Default for Directories {
    fn default() -> Self {
        Self(Some(BTreeSet::from([String::new()])))
    }
}

impl Directories {
    pub(super) const UNKNOWN: Self = Self(None);

    /// Changes to the directory that `cd` with these arguments leads to, if it succeeds.
    pub(super) fn enter(&mut self, args: &[Word]) {
        let operands = args.iter().filter(|arg| !matches!(arg.known(), Some("--" | "-P" | "-L" | "-e")));
        let operands: Vec<_> = operands.map(Word::known).collect();
        // Without an operand it leads home, and `-` is the previous directory.
        *self = match operands.as_slice() {
            [Some(to)] if !to.starts_with('-') && !to.is_empty() => Self(self.joined(to)),
            _ => Self::UNKNOWN,
        };
    }

    /// Adds the directories of another alternative.
    pub(super) fn or(&mut self, other: &Self) {
        let both = self.0.iter().flatten().chain(other.0.iter().flatten()).cloned().collect::<BTreeSet<_>>();
        let is_known = self.0.is_some() && other.0.is_some() && both.len() <= MAX_DIRECTORIES;
        self.0 = is_known.then_some(both);
    }

    /// Returns the paths that a path in these directories may stand for; `None` if that is unknown.
    pub(super) fn joined(&self, path: &str) -> Option<BTreeSet<String>> {
        if path.starts_with('/') {
            return Some(BTreeSet::from([join("", path)]));
        }
        Some(self.0.as_ref()?.iter().map(|directory| join(directory, path)).collect())
    }
}

/// Joins two paths, removing empty, `.` and `..` components without regard to links.
fn join(directory: &str, path: &str) -> String {
    let is_absolute = path.starts_with('/') || directory.starts_with('/');
    let before = if path.starts_with('/') { "" } else { directory };
    let mut parts: Vec<&str> = Vec::new();
    for part in before.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if is_absolute => {}
            part => parts.push(part),
        }
    }
    format!("{}{}", if is_absolute { "/" } else { "" }, parts.join("/"))
}
