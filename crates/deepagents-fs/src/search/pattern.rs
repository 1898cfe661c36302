//! Globs over paths: one dialect for searches and rules.

use std::collections::HashMap;

use super::braces::expand;
use super::segment::Segment;
use crate::VPath;

/// A compiled glob.
///
/// `*`, `?` and `[…]` match within one name, `**` as a whole component matches any number of them, `{a,b}` and
/// `{1..3}` stand for alternatives, a backslash takes the meaning from the next character. A pattern without a slash
/// matches a name at any depth; one with a slash the whole path below the place of the search, and a leading slash
/// changes nothing. Upper and lower case differ.
///
/// The classes `[[:alpha:]]`, `[[:digit:]]` and so on are of ASCII characters.
///
/// A name that begins with a dot is matched only by a component that does too, unless the pattern was compiled
/// [with dots](Self::with_dots).
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

/// Why a text is not a glob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// It has no characters.
    #[error("the pattern is empty")]
    Empty,
    /// A component is `..`.
    #[error("`..` is not allowed in a pattern")]
    Traversal,
    /// It is longer than a pattern may be.
    #[error("the pattern is {bytes} bytes long, the limit is {limit}")]
    TooLong {
        /// Bytes of the pattern.
        bytes: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// Its braces stand for more than 1000 patterns, or for so many long ones, or it has too many components.
    #[error("its braces stand for more than 1000 patterns, or for patterns that are too long in all")]
    TooMany,
    /// One of the patterns that its braces stand for can match no path.
    #[error("`{0}`, which it stands for, matches no path")]
    Nothing(String),
    /// A component cannot be compiled.
    #[error("`{text}` in the pattern cannot be used: {reason}")]
    Component {
        /// The component.
        text: String,
        /// Why.
        reason: String,
    },
}

/// Bytes that a pattern may have.
const LONGEST: usize = 4096;
/// Components that all patterns may have which one stands for.
const MOST_SEGMENTS: usize = 4096;

/// How far into a pattern a directory has come; what lies below is matched from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress(Vec<(usize, usize)>);

/// How a rule's pattern lies to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternMatch {
    /// It matches the path.
    Path,
    /// It matches a directory above the path.
    Above,
    /// It may match something below the path, but neither the path nor what is above.
    Below,
    /// It matches nothing there.
    Elsewhere,
}

impl Progress {
    /// Whether nothing below can match.
    pub(crate) fn is_dead(&self) -> bool {
        self.0.is_empty()
    }
}

impl Pattern {
    /// Compiles a glob that does not match dot names with wildcards.
    ///
    /// # Errors
    /// When it is empty, climbs, is too long, stands for too many patterns, or has a class such as `[z-a]`.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        Self::compile(pattern, false, true)
    }

    /// Compiles a glob for which a leading dot is a character like others.
    ///
    /// # Errors
    /// When it is empty, climbs, is too long, stands for too many patterns, or has a class such as `[z-a]`.
    pub fn with_dots(pattern: &str) -> Result<Self, PatternError> {
        Self::compile(pattern, true, true)
    }

    /// A rule's pattern: dots are like others, a slash at its end stands for all below, and `X/**` covers `X` too. Each
    /// pattern that braces stand for has to match something.
    pub(crate) fn rule(pattern: &str) -> Result<Self, PatternError> {
        let mut compiled = Self::compile(pattern, true, false)?;
        let above =
            |segments: &Vec<Segment>| Some(segments.split_last().filter(|(last, _)| last.is_globstar())?.1.to_vec());
        let above: Vec<Vec<Segment>> = compiled.alternatives.iter().filter_map(above).collect();
        compiled.alternatives.extend(above);
        Ok(compiled)
    }

    /// `search`: a pattern of a search, which may float and matches files alone; otherwise it is a rule's.
    fn compile(pattern: &str, dots: bool, search: bool) -> Result<Self, PatternError> {
        if pattern.is_empty() {
            return Err(PatternError::Empty);
        }
        if pattern.len() > LONGEST {
            return Err(PatternError::TooLong { bytes: pattern.len(), limit: LONGEST });
        }
        let (mut alternatives, mut components) = (Vec::new(), 0);
        // Alternatives have most of their components in common.
        let mut compiled = HashMap::new();
        for text in expand(pattern).ok_or(PatternError::TooMany)? {
            let directories_only = text.ends_with('/') && !(search && text.len() == 1);
            let mut segments = Vec::new();
            if search && !text.contains('/') && text != "**" {
                segments.push(Segment::Globstar);
            }
            for component in text.split('/') {
                match component {
                    "" | "." => {}
                    ".." => return Err(PatternError::Traversal),
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
            if components > MOST_SEGMENTS {
                return Err(PatternError::TooMany);
            }
            // Only files are found, so a pattern for directories matches nothing.
            if !search || !directories_only {
                alternatives.push(segments);
            }
        }
        Ok(Self { alternatives, dots, text: pattern.to_owned() })
    }

    /// The glob as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches a path, given with or without its leading slash.
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

    /// How a rule's pattern lies to a path.
    pub(crate) fn match_of(&self, path: &VPath) -> PatternMatch {
        // A pattern without names stands for the root.
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

    /// Where matching begins.
    pub(crate) fn start(&self) -> Progress {
        let mut out = Vec::new();
        for alternative in 0..self.alternatives.len() {
            self.advance(&mut out, alternative, 0);
        }
        Progress(out)
    }

    /// Goes down into a directory.
    pub(crate) fn enter(&self, progress: &Progress, name: &str) -> Progress {
        let mut out = Vec::new();
        for (alternative, at) in &progress.0 {
            let Some(segment) = self.segment(*alternative, *at) else { continue };
            let next = if segment.is_globstar() { *at } else { at + 1 };
            // What ends the pattern is of no use above a name, so it is not matched.
            if self.segment(*alternative, next).is_some() && segment.matches(name, self.dots) {
                self.advance(&mut out, *alternative, next);
            }
        }
        Progress(out)
    }

    /// Whether a path that ends with this name matches.
    pub(crate) fn ends(&self, progress: &Progress, name: &str) -> bool {
        progress.0.iter().any(|(alternative, at)| {
            let rest = self.alternatives.get(*alternative).and_then(|segments| segments.get(*at..));
            let Some((segment, after)) = rest.and_then(<[Segment]>::split_first) else { return false };
            segment.matches(name, self.dots) && after.iter().all(Segment::is_globstar)
                // What follows must be nothing, except that `**` may match the last name itself.
                && (after.is_empty() || segment.is_globstar())
        })
    }

    /// The paths at or below which all that it matches lies, one for each alternative.
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

    /// Without the names that it begins with, if it does in all its alternatives.
    pub(crate) fn below(&self, names: &[&str]) -> Option<Self> {
        let below = |segments: &Vec<Segment>| {
            let (head, rest) = segments.split_at_checked(names.len())?;
            head.iter().zip(names).all(|(segment, name)| segment.literal() == Some(*name)).then(|| rest.to_vec())
        };
        let alternatives = self.alternatives.iter().map(below).collect::<Option<Vec<_>>>()?;
        Some(Self { alternatives, dots: self.dots, text: self.text.clone() })
    }

    /// What is left of it in a directory: matches there what this matches from above.
    pub(crate) fn inside(&self, directory: &VPath) -> Self {
        let progress = directory.components().fold(self.start(), |progress, name| self.enter(&progress, name));
        let rest = |(alternative, at): &(usize, usize)| Some(self.alternatives.get(*alternative)?.get(*at..)?.to_vec());
        let alternatives = progress.0.iter().filter_map(rest).collect();
        Self { alternatives, dots: self.dots, text: self.text.clone() }
    }

    fn segment(&self, alternative: usize, at: usize) -> Option<&Segment> {
        self.alternatives.get(alternative)?.get(at)
    }

    /// Adds a position, and the one behind if it is at a `**`, which may match nothing.
    fn advance(&self, out: &mut Vec<(usize, usize)>, alternative: usize, at: usize) {
        let mut at = at;
        loop {
            let Some(segment) = self.segment(alternative, at) else { return };
            // Those of one alternative come together, so only these are looked through.
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
