//! Paths inside a workspace.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// An absolute path inside a workspace, such as `/src/main.rs`.
///
/// Parsed, not validated: a `VPath` is always absolute and `/`-separated, with no empty, `.` or `..` components, no
/// trailing slash and no NUL. It says nothing about the location of files on the host. Paths are ordered by their text.
///
/// ```
/// use deepagents_fs::VPath;
/// let path = VPath::parse("src//./main.rs")?;
/// assert_eq!(path.as_str(), "/src/main.rs");
/// assert_eq!(path.name(), Some("main.rs"));
/// assert!(VPath::parse("../secret").is_err());
/// # Ok::<(), deepagents_fs::PathError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct VPath(Arc<str>);

/// Reason a text is not a valid path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// A component is `..`.
    #[error("path traversal is not allowed: {}", quoted(.0))]
    Traversal(String),
    /// The text begins with `~`.
    #[error("home directories are not available, give a path from the workspace root: {}", quoted(.0))]
    Home(String),
    /// The text begins with a drive letter and a colon.
    #[error("drive letters are not supported, give a path from the workspace root such as /dir/file: {}", quoted(.0))]
    Drive(String),
    /// The text contains a NUL character.
    #[error("a path cannot contain a NUL character: {}", .0.escape_debug())]
    Nul(String),
    /// The path has too many bytes or names.
    #[error("a path can have at most {MAX_BYTES} bytes and {MAX_NAMES} names, this one has {bytes} and {names}")]
    TooLong {
        /// Length in bytes, without the leading slash.
        bytes: usize,
        /// Number of its components.
        names: usize,
    },
}

/// Limits on the paths of calls, as the work on a path can grow with the square of its length. Directories that exist
/// may be nested deeper.
const MAX_BYTES: usize = 16 << 10;
const MAX_NAMES: usize = 1024;

impl VPath {
    /// Parses a path as written by a model or a person.
    ///
    /// Relative paths start at the root and backslashes count as slashes. Repeated slashes, `.` components and a
    /// trailing slash are dropped; the empty string is the root.
    ///
    /// # Errors
    /// Returns an error if a component is `..`, if the text begins with `~` or a drive letter or contains NUL, or if the
    /// path is longer than 16 KiB or 1024 components.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let path = Self::read(text)?;
        let (bytes, names) = (path.relative().len(), path.components().count());
        if bytes > MAX_BYTES || names > MAX_NAMES {
            return Err(PathError::TooLong { bytes, names });
        }
        Ok(path)
    }

    /// Parses a path of any length. Stored paths may be longer than those of calls, because directories may be.
    fn read(text: &str) -> Result<Self, PathError> {
        if text.contains('\0') {
            return Err(PathError::Nul(text.to_owned()));
        }
        if text.starts_with('~') {
            return Err(PathError::Home(text.to_owned()));
        }
        let mut start = text.chars();
        if start.next().is_some_and(|c| c.is_ascii_alphabetic()) && start.next() == Some(':') {
            return Err(PathError::Drive(text.to_owned()));
        }
        let mut out = String::with_capacity(text.len() + 1);
        for component in text.split(['/', '\\']) {
            match component {
                "" | "." => {}
                ".." => return Err(PathError::Traversal(text.to_owned())),
                name => {
                    out.push('/');
                    out.push_str(name);
                }
            }
        }
        if out.is_empty() {
            out.push('/');
        }
        Ok(Self(out.into()))
    }

    /// Returns the root, `/`.
    pub fn root() -> Self {
        Self("/".into())
    }

    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether this is the root.
    pub fn is_root(&self) -> bool {
        &*self.0 == "/"
    }

    /// Returns the components from the root down; none for the root.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> + Clone {
        self.0.split('/').filter(|c| !c.is_empty())
    }

    /// Returns the last component; `None` for the root.
    pub fn name(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(_, name)| name).filter(|name| !name.is_empty())
    }

    /// Returns the parent directory; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        match self.0.rsplit_once('/') {
            Some((parent, _)) if !parent.is_empty() => Some(Self(parent.into())),
            _ => Some(Self::root()),
        }
    }

    /// Returns the ancestor directories, nearest first, ending with the root.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// Returns the ancestor directories, starting with the root.
    pub(crate) fn ancestors_from_root(&self) -> impl Iterator<Item = Self> {
        self.ancestors().collect::<Vec<_>>().into_iter().rev()
    }

    /// Appends a relative path.
    ///
    /// # Errors
    /// Returns an error if `relative` does not parse as a path.
    pub fn join(&self, relative: &str) -> Result<Self, PathError> {
        // Parse it separately first, so that `~` and drive letters at its start are rejected.
        let below = Self::parse(relative)?;
        Ok(below.under(self))
    }

    /// Returns the path prefixed with `base`: `/a` under `/mnt` is `/mnt/a`.
    #[must_use]
    pub fn under(&self, base: &Self) -> Self {
        if base.is_root() {
            return self.clone();
        }
        if self.is_root() {
            return base.clone();
        }
        Self(format!("{base}{self}").into())
    }

    /// Returns whether this is `base` or lies below it, by whole components: `/ab` does not start with `/a`.
    pub fn starts_with(&self, base: &Self) -> bool {
        self.strip_prefix(base).is_some()
    }

    /// Returns the path relative to `base`: `/a/b` from `/a` is `/b`, `/a` from `/a` is `/`. `None` if it is not below
    /// `base`.
    pub fn strip_prefix(&self, base: &Self) -> Option<Self> {
        if base.is_root() {
            return Some(self.clone());
        }
        match self.0.strip_prefix(&*base.0)? {
            "" => Some(Self::root()),
            rest if rest.starts_with('/') => Some(Self(rest.into())),
            _ => None,
        }
    }

    /// Returns the path without its leading slash; empty for the root.
    pub fn relative(&self) -> &str {
        self.0.strip_prefix('/').unwrap_or(&self.0)
    }

    /// Returns the part of the name after its last dot, in lower case; `None` for dot files and names without a dot.
    pub fn extension(&self) -> Option<String> {
        let (stem, extension) = self.name()?.rsplit_once('.')?;
        if stem.is_empty() { None } else { Some(extension.to_lowercase()) }
    }

    /// Formats the path for a line of a list. A path with characters that break lines or control terminals is quoted
    /// and escaped, so that no name can imitate another line.
    pub fn quoted(&self) -> impl fmt::Display + '_ {
        quoted(&self.0)
    }

    /// Returns the child with a name known to be a single component.
    pub(crate) fn child(&self, name: &str) -> Self {
        if self.is_root() { Self(format!("/{name}").into()) } else { Self(format!("{self}/{name}").into()) }
    }
}

/// Formats a path as [`VPath::quoted`] does.
fn quoted(path: &str) -> impl fmt::Display + '_ {
    fmt::from_fn(move |f| {
        // Line and paragraph separators, and characters that change the text direction.
        let odd = |c: char| {
            c.is_control()
                || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
                || matches!(c, '\u{2066}'..='\u{2069}')
        };
        if path.contains(odd) { write!(f, "{path:?}") } else { f.write_str(path) }
    })
}

/// Returns whether an untrusted name can be a path component.
pub(crate) fn is_component(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

impl fmt::Display for VPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for VPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl AsRef<str> for VPath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for VPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Default for VPath {
    fn default() -> Self {
        Self::root()
    }
}

impl FromStr for VPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for VPath {
    type Error = PathError;

    fn try_from(text: String) -> Result<Self, PathError> {
        Self::read(&text)
    }
}
