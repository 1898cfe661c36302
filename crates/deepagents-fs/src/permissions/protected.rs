//! Places that are protected from changes, whatever the rules say.

use super::{AccessMode, Decision};
use crate::VPath;

/// Entries by which git recognises a repository: its head, and either its own objects and references or the location of
/// shared ones.
const REPOSITORY: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

/// Returns the entry of [`REPOSITORY`] with a name, ignoring case as some disks do.
pub(crate) fn repository_entry(name: &str) -> Option<&'static str> {
    REPOSITORY.into_iter().find(|entry| entry.eq_ignore_ascii_case(name))
}

/// Returns whether git takes a directory with some of the entries in [`REPOSITORY`] for a repository.
pub(crate) fn is_repository(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && ((has("objects") && has("refs")) || has("commondir"))
}

/// Files and directories that control programs outside the workspace: repositories, whose hooks and configuration name
/// programs that the next `git status` runs, and files that control the agent itself. They can be read.
///
/// The same list applies to file tools, as [`LocalOptions::protected`](crate::LocalOptions::protected), and to
/// commands, as [`SandboxPolicy::protected_places`](crate::sandbox::SandboxPolicy::protected_places). The default for
/// both is:
///
/// * `.git`, `.hg` and `.jj`, at any depth, as directories or files, and any directory that git takes for a repository,
///   including bare ones and the root: denied;
/// * `/.deepagents` and `/AGENTS.md`: require a person's approval. Commands, which cannot ask, may only read them; what
///   a command creates there is renamed when it ends ([`Moved`](crate::shell::Moved)).
///
/// Further files are covered if they are in the workspace: the link targets of the latter two places; what the settings
/// of a repository or of the user make git run or include (`core.hooksPath`, `include.path`, filters); and in a
/// repository, the targets of links and what its hooks name. Commands may only read these files, and file tools require
/// approval if the repository is that of a directory above.
///
/// Both a path as written and its target are checked, ignoring case, as some disks do. Everything below a place is
/// protected with it, and a directory that contains one cannot be deleted.
///
/// ```
/// use deepagents_fs::VPath;
/// use deepagents_fs::permissions::{AccessMode, Place, ProtectedPlace, ProtectedPlaces};
/// let standard = ProtectedPlaces::default();
/// assert_eq!(standard.decide(&VPath::parse("/lib/.git/config")?).mode, AccessMode::Deny);
/// assert_eq!(standard.decide(&VPath::parse("/AGENTS.md")?).mode, AccessMode::Ask);
/// let workflows = ProtectedPlace { place: Place::At(VPath::parse("/.github")?), mode: AccessMode::Deny };
/// let more = ProtectedPlaces::new(standard.iter().cloned().chain([workflows]));
/// assert_eq!(more.decide(&VPath::parse("/.github/workflows/ci.yml")?).mode, AccessMode::Deny);
/// # Ok::<(), deepagents_fs::PathError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedPlaces {
    places: Vec<ProtectedPlace>,
}

/// A protected place, and what happens on attempts to change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedPlace {
    /// The place.
    pub place: Place,
    /// Whether changes are denied or require approval. A place with `Allow` is not protected.
    pub mode: AccessMode,
}

/// Location of a protected place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Anything with this name, at any depth.
    Named(String),
    /// This path.
    At(VPath),
}

impl Place {
    fn as_str(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::At(path) => path.as_str(),
        }
    }

    /// Returns whether a path is at, below or above the place.
    pub(crate) fn covers(&self, path: &VPath) -> bool {
        match self {
            Self::Named(name) => path.components().any(|component| component.eq_ignore_ascii_case(name)),
            // A change of a parent directory affects what it contains.
            Self::At(place) => place.components().zip(path.components()).all(|(a, b)| a.eq_ignore_ascii_case(b)),
        }
    }
}

impl ProtectedPlaces {
    /// Creates a list of places.
    pub fn new(places: impl IntoIterator<Item = ProtectedPlace>) -> Self {
        Self { places: places.into_iter().collect() }
    }

    /// Creates a list that protects nothing.
    pub fn none() -> Self {
        Self::new([])
    }

    /// Returns the places.
    pub fn iter(&self) -> impl Iterator<Item = &ProtectedPlace> {
        self.places.iter()
    }

    /// Returns the places at a path that are protected in some way.
    #[cfg(unix)]
    pub(crate) fn paths(&self) -> impl Iterator<Item = &VPath> {
        self.protected().filter_map(|place| if let Place::At(path) = place { Some(path) } else { None })
    }

    /// Returns the names that are protected in some way, at any depth.
    #[cfg(unix)]
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.protected().filter_map(|place| if let Place::Named(name) = place { Some(name.as_str()) } else { None })
    }

    #[cfg(unix)]
    fn protected(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(|place| place.mode != AccessMode::Allow).map(|place| &place.place)
    }

    /// Returns the decision about changing a path with everything below it. Denial takes precedence over approval.
    pub fn decide(&self, path: &VPath) -> Decision<'_> {
        let of = |mode| self.places.iter().find(|place| place.mode == mode && place.place.covers(path));
        let found = of(AccessMode::Deny).or_else(|| of(AccessMode::Ask));
        found.map_or(Decision::FREE, |found| Decision { mode: found.mode, pattern: Some(found.place.as_str()) })
    }

    /// Returns whether a parent directory of a path is a git repository under any name, or would become one by creating
    /// the path: a bare repository, or one that a `.git` file points to. `is_there` is called with paths below the
    /// root.
    pub(crate) fn in_repository(&self, real: &VPath, is_there: impl Fn(&str) -> bool) -> bool {
        if self.denied_name(".git").is_none() {
            return false;
        }
        let mut above = String::new();
        real.components().any(|next| {
            let found = is_repository(|name| next.eq_ignore_ascii_case(name) || is_there(&format!("{above}{name}")));
            above = format!("{above}{next}/");
            found
        })
    }

    /// Returns whether a directory with these [entries](repository_entry) is a repository that is protected.
    pub(crate) fn holds_repository(&self, entries: &[&str]) -> bool {
        self.denied_name(".git").is_some() && is_repository(|name| entries.contains(&name))
    }

    /// Returns the matching name that is denied at any depth, if there is one.
    pub(crate) fn denied_name(&self, name: &str) -> Option<&str> {
        self.denied_names().find(|denied| denied.eq_ignore_ascii_case(name))
    }

    /// Returns the names that are denied at any depth.
    pub(crate) fn denied_names(&self) -> impl Iterator<Item = &str> {
        self.places.iter().filter(|place| place.mode == AccessMode::Deny).filter_map(|place| match &place.place {
            Place::Named(name) => Some(name.as_str()),
            Place::At(_) => None,
        })
    }
}

impl Default for ProtectedPlaces {
    /// Protects repositories and files that control the agent.
    fn default() -> Self {
        let denied = [".git", ".hg", ".jj"].map(|name| (Place::Named(name.to_owned()), AccessMode::Deny));
        let asked = [".deepagents", "AGENTS.md"].map(|name| (Place::At(VPath::root().child(name)), AccessMode::Ask));
        Self::new(denied.into_iter().chain(asked).map(|(place, mode)| ProtectedPlace { place, mode }))
    }
}
