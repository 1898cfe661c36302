//! Path globs: one syntax for searches and rules.

use std::collections::HashMap;

use super::braces::expand;
use super::segment::Segment;
use crate::VPath;

/// A compiled glob.
///
/// `*`, `?` and `[…]` match within one name; `**` as a whole component matches any number of names; `{a,b}` and
/// `{01..12}` are alternatives; a backslash escapes the next character. A pattern without a slash matches a name at any
/// depth; a pattern with one matches the whole path from the search directory on. A leading slash makes no other
/// difference. Matching is case-sensitive. An empty pattern matches nothing, and so does one that names directories, with
/// `/` or `/.` at its end.
///
/// `[[:alpha:]]`, `[[:digit:]]` and the other named classes match ASCII characters only.
///
/// A name with a leading dot is matched only by a component with a leading dot, unless the pattern was compiled [with
/// dots](Self::with_dots).
///
/// ```
/// use deepagents_fs::search::Pattern;
/// let pattern = Pattern::new("src/**/*.{rs,toml}")?;
/// assert!(pattern.matches("src/a/b.rs"));
/// assert!(!pattern.matches("src/.git/b.rs"));
/// assert!(Pattern::new("*.rs")?.matches("deep/down/main.rs"));
/// # Ok::<(), deepagents_fs::search::PatternError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pattern {
    alternatives: Vec<Vec<Segment>>,
    dots: bool,
    text: String,
}

/// Reason a text is not a valid glob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The pattern of a rule is empty.
    #[error("the pattern is empty")]
    Empty,
    /// A component is `..`.
    #[error("`..` is not allowed in a pattern")]
    Traversal,
    /// A component of a rule's pattern is `~`, which would name a directory called so instead of a home.
    #[error("`~` does not stand for a home directory; name the directory, or write `[~]` for one with that name")]
    Home,
    /// The pattern is too long.
    #[error("the pattern is {bytes} bytes long, the limit is {limit}")]
    TooLong {
        /// Length of the pattern in bytes.
        bytes: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// The braces expand to more than 1000 patterns or to too many bytes, or the pattern has too many components.
    #[error("its braces stand for more than 1000 patterns, or for patterns that are too long in all")]
    TooMany,
    /// One of the patterns that the braces expand to cannot match any path.
    #[error("`{0}`, which it stands for, matches no path")]
    Nothing(String),
    /// A component is invalid.
    #[error("`{text}` in the pattern cannot be used: {reason}")]
    Component {
        /// The component.
        text: String,
        /// Why.
        reason: String,
    },
}

/// Maximum length of a pattern in bytes.
const MAX_PATTERN_BYTES: usize = 4096;
/// Maximum number of components of all patterns that one expands to.
const MAX_SEGMENTS: usize = 4096;

/// State of a match after entering a directory, from which names below it are matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress(Vec<(usize, usize)>);

/// Relation of a rule's pattern to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternMatch {
    /// The pattern matches the path.
    Path,
    /// The pattern matches a directory above the path.
    Above,
    /// The pattern may match something below the path, but matches neither the path nor an ancestor.
    Below,
    /// The pattern matches neither the path nor anything above or below it.
    Elsewhere,
}

impl Progress {
    /// Returns whether nothing below can match.
    pub(crate) fn is_dead(&self) -> bool {
        self.0.is_empty()
    }
}

impl Pattern {
    /// Compiles a glob whose wildcards do not match a leading dot.
    ///
    /// # Errors
    /// Returns an error if the pattern contains `..`, is too long, expands to too many patterns, or has an invalid
    /// class such as `[z-a]`.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        Self::compile(pattern, false, true)
    }

    /// Compiles a glob that treats a leading dot like any other character.
    ///
    /// # Errors
    /// Returns an error if the pattern contains `..`, is too long, expands to too many patterns, or has an invalid
    /// class such as `[z-a]`.
    pub fn with_dots(pattern: &str) -> Result<Self, PatternError> {
        Self::compile(pattern, true, true)
    }

    /// Compiles a rule's pattern: dots are not special, a trailing slash covers everything below, and `X/**` covers `X`
    /// too. Every pattern that the braces expand to must be able to match something.
    pub(crate) fn rule(pattern: &str) -> Result<Self, PatternError> {
        let mut compiled = Self::compile(pattern, true, false)?;
        let above =
            |segments: &Vec<Segment>| Some(segments.split_last().filter(|(last, _)| last.is_globstar())?.1.to_vec());
        let above: Vec<Vec<Segment>> = compiled.alternatives.iter().filter_map(above).collect();
        compiled.alternatives.extend(above);
        Ok(compiled)
    }

    /// With `search`, compiles the pattern of a search, which matches only files and, without a slash, at any depth.
    /// Otherwise compiles a rule's pattern.
    fn compile(pattern: &str, dots: bool, search: bool) -> Result<Self, PatternError> {
        if pattern.is_empty() && !search {
            return Err(PatternError::Empty);
        }
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(PatternError::TooLong { bytes: pattern.len(), limit: MAX_PATTERN_BYTES });
        }
        let (mut alternatives, mut components) = (Vec::new(), 0);
        // Alternatives share most of their components.
        let mut compiled = HashMap::new();
        for text in expand(pattern).ok_or(PatternError::TooMany)? {
            let directories_only = if search {
                text.len() > 1 && text.ends_with('/') || text.ends_with("/.")
            } else {
                text.ends_with('/')
            };
            let at_any_depth = search && !text.contains('/') && text != "**";
            let mut segments = Vec::new();
            if at_any_depth {
                segments.push(Segment::Globstar);
            }
            for component in text.split('/') {
                match component {
                    "" | "." => {}
                    ".." => return Err(PatternError::Traversal),
                    "~" if !search => return Err(PatternError::Home),
                    "**" if segments.last().is_some_and(Segment::is_globstar) => {}
                    name => segments.push(match compiled.get(name) {
                        Some(segment) => Segment::clone(segment),
                        None => compiled.entry(name.to_owned()).or_insert(Segment::compile(name)?).clone(),
                    }),
                }
            }
            if !search && directories_only && !segments.last().is_some_and(Segment::is_globstar) {
                segments.push(Segment::Globstar);
            }
            if !search && segments.iter().any(Segment::matches_nothing) {
                return Err(PatternError::Nothing(text));
            }
            components += segments.len();
            if components > MAX_SEGMENTS {
                return Err(PatternError::TooMany);
            }
            let names_nothing = at_any_depth && segments.len() == 1;
            // Searches find only files, so a pattern for directories matches nothing, and neither does an empty one.
            if !search || !directories_only && !names_nothing {
                alternatives.push(segments);
            }
        }
        Ok(Self { alternatives, dots, text: pattern.to_owned() })
    }

    /// Returns the glob as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern matches a path, given with or without its leading slash.
    pub fn matches(&self, path: &str) -> bool {
        let mut names = path.split('/').filter(|name| !name.is_empty()).peekable();
        let mut progress = self.start();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                return self.ends(&progress, name);
            }
            progress = self.enter(&progress, name);
            if progress.is_dead() {
                return false;
            }
        }
        false
    }

    /// Returns the relation of a rule's pattern to a path.
    pub(crate) fn match_of(&self, path: &VPath) -> PatternMatch {
        // A pattern without components matches the root.
        let mut above = self.alternatives.iter().any(Vec::is_empty);
        if path.is_root() {
            return if above { PatternMatch::Path } else { PatternMatch::Below };
        }
        let mut names = path.components().peekable();
        let mut progress = self.start();
        while let Some(name) = names.next() {
            let covered = self.ends(&progress, name);
            if covered && names.peek().is_none() {
                return PatternMatch::Path;
            }
            above |= covered;
            progress = self.enter(&progress, name);
            if progress.is_dead() {
                return if above { PatternMatch::Above } else { PatternMatch::Elsewhere };
            }
        }
        if above { PatternMatch::Above } else { PatternMatch::Below }
    }

    /// Returns the initial state of a match.
    pub(crate) fn start(&self) -> Progress {
        let mut out = Vec::new();
        for alternative in 0..self.alternatives.len() {
            self.advance(&mut out, alternative, 0);
        }
        Progress(out)
    }

    /// Advances the match into a directory.
    pub(crate) fn enter(&self, progress: &Progress, name: &str) -> Progress {
        let mut out = Vec::new();
        for (alternative, at) in &progress.0 {
            let Some(segment) = self.segment(*alternative, *at) else { continue };
            let next = if segment.is_globstar() { *at } else { at + 1 };
            // The last component of the pattern cannot match a directory on the way, so skip it.
            if self.segment(*alternative, next).is_some() && segment.matches(name, self.dots) {
                self.advance(&mut out, *alternative, next);
            }
        }
        Progress(out)
    }

    /// Returns whether a path that ends with this name matches.
    pub(crate) fn ends(&self, progress: &Progress, name: &str) -> bool {
        progress.0.iter().any(|(alternative, at)| {
            let rest = self.alternatives.get(*alternative).and_then(|segments| segments.get(*at..));
            let Some((segment, after)) = rest.and_then(<[Segment]>::split_first) else { return false };
            segment.matches(name, self.dots) && after.iter().all(Segment::is_globstar)
                // Nothing may follow, except that `**` may match the last name itself.
                && (after.is_empty() || segment.is_globstar())
        })
    }

    /// Returns, for each alternative, the path at or below which all of its matches lie.
    ///
    /// ```
    /// use deepagents_fs::search::Pattern;
    /// let anchors = Pattern::new("/src/{core,web/**}/*.rs")?.anchors().map(|path| path.to_string()).collect::<Vec<_>>();
    /// assert_eq!(anchors, ["/src/core", "/src/web"]);
    /// # Ok::<(), deepagents_fs::search::PatternError>(())
    /// ```
    pub fn anchors(&self) -> impl Iterator<Item = VPath> {
        let anchor = |segments: &Vec<Segment>| {
            segments.iter().map_while(Segment::literal).fold(VPath::root(), |path, name| path.child(name))
        };
        self.alternatives.iter().map(anchor)
    }

    /// Strips leading names; `None` unless all alternatives begin with them.
    pub(crate) fn below(&self, names: &[&str]) -> Option<Self> {
        let below = |segments: &Vec<Segment>| {
            let (head, rest) = segments.split_at_checked(names.len())?;
            head.iter().zip(names).all(|(segment, name)| segment.literal() == Some(*name)).then(|| rest.to_vec())
        };
        let alternatives = self.alternatives.iter().map(below).collect::<Option<Vec<_>>>()?;
        Some(Self { alternatives, dots: self.dots, text: self.text.clone() })
    }

    /// Returns the pattern relative to a directory: it matches there what this pattern matches from above.
    pub(crate) fn inside(&self, directory: &VPath) -> Self {
        let progress = directory.components().fold(self.start(), |progress, name| self.enter(&progress, name));
        let rest = |(alternative, at): &(usize, usize)| Some(self.alternatives.get(*alternative)?.get(*at..)?.to_vec());
        let alternatives = progress.0.iter().filter_map(rest).collect();
        Self { alternatives, dots: self.dots, text: self.text.clone() }
    }

    fn segment(&self, alternative: usize, at: usize) -> Option<&Segment> {
        self.alternatives.get(alternative)?.get(at)
    }

    /// Adds a position and, if it is at a `**`, the next one too, since `**` may match nothing.
    fn advance(&self, out: &mut Vec<(usize, usize)>, alternative: usize, at: usize) {
        let mut at = at;
        loop {
            let Some(segment) = self.segment(alternative, at) else { return };
            // Positions of one alternative are adjacent, so only those are checked.
            let mut own = out.iter().rev().take_while(|(other, _)| *other == alternative);
            if !own.any(|(_, other)| *other == at) {
                out.push((alternative, at));
            }
            if !segment.is_globstar() {
                return;
            }
            at += 1;
        }
    }
}
