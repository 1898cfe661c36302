//! Patches of several files in the format that OpenAI's models are trained on.
//!
//! ```text
//! *** Begin Patch
//! *** Add File: /notes.md
//! +A line of the new file.
//! *** Update File: /src/main.rs
//! *** Move to: /src/bin/main.rs
//! @@ fn main() {
//!      let name = "world";
//! -    println!("Hello");
//! +    println!("Hello, {name}");
//! *** Delete File: /old.txt
//! *** End Patch
//! ```
//!
//! A line after `@@` is a context line above the hunk. Lines of a hunk begin with a space (unchanged), `-` or `+`; a
//! following `*** End of File` anchors them to the end of the file.

mod apply;
mod parse;

use deepagents_fs::VPath;

pub use apply::HunkError;
pub(super) use apply::apply;
pub use parse::PatchError;

/// Changes to several files, with at most one change per path.
///
/// ```
/// use deepagents::middleware::filesystem::Patch;
/// let patch = Patch::parse("*** Begin Patch\n*** Delete File: /old.txt\n*** End Patch")?;
/// assert_eq!(patch.paths().map(|path| path.as_str()).collect::<Vec<_>>(), ["/old.txt"]);
/// # Ok::<(), deepagents::middleware::filesystem::PatchError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The changes in the order in which they are made; at least one.
    pub changes: Vec<FileChange>,
}

/// The change to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileChange {
    /// Adds a file.
    Add {
        /// Its path.
        path: VPath,
        /// Its content.
        content: String,
    },
    /// Deletes a file.
    Delete {
        /// Its path.
        path: VPath,
    },
    /// Changes lines of a file, moves it, or both.
    Update {
        /// Its path.
        path: VPath,
        /// Its new path, if it moves.
        move_to: Option<VPath>,
        /// Its changes, in the order of its lines.
        hunks: Vec<Hunk>,
    },
}

/// A change of lines at one position of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    /// Context lines above the position, in order.
    pub above: Vec<String>,
    /// The lines at the position.
    pub lines: Vec<HunkLine>,
    /// Whether they are the last lines of the file.
    pub at_end: bool,
}

/// A line of a hunk, without its line ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HunkLine {
    /// An unchanged line.
    Context(String),
    /// A removed line.
    Remove(String),
    /// An added line.
    Add(String),
}

impl Patch {
    /// Returns the paths that the patch touches, including the new paths of moved files.
    pub fn paths(&self) -> impl Iterator<Item = &VPath> {
        self.changes.iter().flat_map(|change| {
            let (path, to) = match change {
                FileChange::Add { path, .. } | FileChange::Delete { path } => (path, None),
                FileChange::Update { path, move_to, .. } => (path, move_to.as_ref()),
            };
            std::iter::once(path).chain(to)
        })
    }
}
