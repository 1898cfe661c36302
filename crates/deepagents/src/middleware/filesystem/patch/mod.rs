//! Patches: changes of several files in the format that OpenAI's models are trained on.
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
//! A line after `@@` stands above the place. Lines of a hunk begin with a blank (they stay), `-` or `+`; `*** End of File`
//! after them says that they are at the end of the file.

mod apply;
mod parse;

use deepagents_fs::VPath;

pub use apply::HunkError;
pub(super) use apply::apply;
pub use parse::PatchError;

/// Changes of several files; no two are of the same path.
///
/// ```
/// use deepagents::middleware::filesystem::Patch;
/// let patch = Patch::parse("*** Begin Patch\n*** Delete File: /old.txt\n*** End Patch")?;
/// assert_eq!(patch.paths().map(|path| path.as_str()).collect::<Vec<_>>(), ["/old.txt"]);
/// # Ok::<(), deepagents::middleware::filesystem::PatchError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The changes, in the order they are made in; at least one.
    pub changes: Vec<FileChange>,
}

/// What a patch does with one file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileChange {
    /// A new file.
    Add {
        /// Where.
        path: VPath,
        /// All that it holds.
        content: String,
    },
    /// A file that goes.
    Delete {
        /// Which.
        path: VPath,
    },
    /// A file whose lines change, or that moves, or both.
    Update {
        /// Which.
        path: VPath,
        /// Where it is afterwards, if that is elsewhere.
        move_to: Option<VPath>,
        /// Its changes, in the order of its lines.
        hunks: Vec<Hunk>,
    },
}

/// Lines that change at one place of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    /// Lines that stand above the place, each one after the one before.
    pub above: Vec<String>,
    /// The lines at the place.
    pub lines: Vec<HunkLine>,
    /// Whether they are the last ones of the file.
    pub at_end: bool,
}

/// A line of a hunk, without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HunkLine {
    /// It is there and stays.
    Context(String),
    /// It is there and goes.
    Remove(String),
    /// It comes.
    Add(String),
}

impl Patch {
    /// The paths that it touches: those of its files, and where they move to.
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
