//! Places that nobody changes on the side, whatever rules say.

use super::{AccessMode, Decision};
use crate::VPath;

/// What git takes a directory for a repository by: its head, and its own objects and references or the place of others'.
pub(crate) const REPOSITORY: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

/// Whether git takes a directory that has some of [`REPOSITORY`] for a repository.
pub(crate) fn is_repository(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && ((has("objects") && has("refs")) || has("commondir"))
}

/// Files and directories that decide what programs do outside of the workspace later: repositories, whose hooks and
/// configuration name programs that the next `git status` runs, and what steers the agent itself. They can be read.
///
/// One list binds file tools and commands: [`LocalOptions::protected`](crate::LocalOptions::protected) and
/// [`SandboxPolicy::protected_places`](crate::sandbox::SandboxPolicy::protected_places), both with this default:
///
/// * `.git`, `.hg` and `.jj`, at any depth, as directories or files, and what git takes for a repository whatever its
///   name, such as a bare one, the root among them: denied;
/// * `/.deepagents` and `/AGENTS.md`: a person is asked, and commands, which cannot ask, only read them; what a
///   command makes there is renamed when it ends ([`Moved`](crate::shell::Moved)).
///
/// With these go what the last two, and links in them, lead to, and what the settings of a repository or of the user have git run
/// or include (`core.hooksPath`, `include.path`, filters), what links in a repository lead to and what its hooks name, if it lies
/// in the workspace: commands only read it, and a person is asked where the repository is that of a directory above.
///
/// A path is judged as it is written and where it leads. Case does not count, as some disks do not keep it apart. All
/// below a place is protected with it, and a directory that holds one cannot be deleted.
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

/// One of the places, and what is said about changing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedPlace {
    /// Where.
    pub place: Place,
    /// Whether it may not be changed or a person is asked. A place that is allowed is not protected.
    pub mode: AccessMode,
}

/// Where something protected is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Whatever has this name, at any depth.
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

    /// Whether a path is there, or below or above.
    pub(crate) fn covers(&self, path: &VPath) -> bool {
        match self {
            Self::Named(name) => path.components().any(|component| component.eq_ignore_ascii_case(name)),
            // A directory above goes with what it holds.
            Self::At(place) => place.components().zip(path.components()).all(|(a, b)| a.eq_ignore_ascii_case(b)),
        }
    }
}

impl ProtectedPlaces {
    /// These places.
    pub fn new(places: impl IntoIterator<Item = ProtectedPlace>) -> Self {
        Self { places: places.into_iter().collect() }
    }

    /// Nothing is protected.
    pub fn none() -> Self {
        Self::new([])
    }

    /// The places.
    pub fn iter(&self) -> impl Iterator<Item = &ProtectedPlace> {
        self.places.iter()
    }

    /// What is said about changing what is at a path, with all below it: denied before asked about.
    pub fn decide(&self, path: &VPath) -> Decision<'_> {
        let of = |mode| self.places.iter().find(|place| place.mode == mode && place.place.covers(path));
        let found = of(AccessMode::Deny).or_else(|| of(AccessMode::Ask));
        found.map_or(Decision::FREE, |found| Decision { mode: found.mode, pattern: Some(found.place.as_str()) })
    }

    /// Whether a directory above a path is a repository to git, whatever its name, or would be one with what is made there:
    /// what a `.git` that is a file names, or a bare one. `is_there` is asked about paths below the root.
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

    /// The name that is denied at any depth, if this is one.
    pub(crate) fn denied_name(&self, name: &str) -> Option<&str> {
        self.denied_names().find(|denied| denied.eq_ignore_ascii_case(name))
    }

    /// The names that are denied at any depth.
    pub(crate) fn denied_names(&self) -> impl Iterator<Item = &str> {
        self.places.iter().filter(|place| place.mode == AccessMode::Deny).filter_map(|place| match &place.place {
            Place::Named(name) => Some(name.as_str()),
            Place::At(_) => None,
        })
    }
}

impl Default for ProtectedPlaces {
    /// Repositories, and what steers the agent.
    fn default() -> Self {
        let denied = [".git", ".hg", ".jj"].map(|name| (Place::Named(name.to_owned()), AccessMode::Deny));
        let asked = [".deepagents", "AGENTS.md"].map(|name| (Place::At(VPath::root().child(name)), AccessMode::Ask));
        Self::new(denied.into_iter().chain(asked).map(|(place, mode)| ProtectedPlace { place, mode }))
    }
}
