//! Parses a script into its simple commands.
//!
//! The parser is `rable`, which is tested against bash's own. Shells differ, and it is unknown which one will run the
//! text, so anything that `dash`, `bash` and `ash` read differently is not interpreted; it is a [`Doubt`].

mod parts;
mod place;
mod simple;
mod values;

use std::collections::BTreeSet;
use std::ops::{Bound, Range};

use rable::{Node, NodeKind, PipeSep};

use super::directory::Directories;
use super::word::{self, Inner, Word, is_name};
use super::{mentions, written};
pub(super) use parts::{Document, Doubt, Redirection, Simple};
use values::Values;

/// Maximum length of a text in bytes. Longer texts contain data.
const MAX_SCRIPT_BYTES: usize = 64 << 10;
/// Maximum number of substitutions in a text. The parser reads nested ones once per level.
const MAX_SUBSTITUTIONS: usize = 48;
/// Maximum number of constructs that may be nested, at any depth.
const MAX_NESTED: usize = 1_000;
/// Stack size for parsing. Reserved in full, but used only for nested text.
const STACK_BYTES: usize = 128 << 20;
/// Maximum depth of commands that run other commands.
pub(super) const MAX_WRAPPERS: usize = 12;

/// A parsed script.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) commands: Vec<Simple>,
    /// What could not be judged. The commands may be complete nonetheless.
    pub(super) doubts: Vec<Doubt>,
    /// A reason a denied or asked-about command may be hidden. Does not matter to allowing rules.
    pub(super) hides: Option<Doubt>,
    /// Whether it is more than one simple command.
    pub(super) compound: bool,
    /// Whether it changes its directory, so that relative paths are unknown.
    pub(super) moves: bool,
    /// Where it is after what has been read.
    pub(super) place: Directories,
    /// Commands that are in functions, which may be called in any directory.
    bodies: Vec<Range<usize>>,
    /// Variables that it has set.
    values: Values,
    /// Number of constructs around the current command in which it may not be run, or be run more than once.
    branches: usize,
    /// Delimiters of here-documents.
    ends: BTreeSet<String>,
}

impl Script {
    /// Parses a script. Runs on a separate thread, since the parser needs stack space for nested text.
    pub(super) fn read(text: &str) -> Self {
        let refused = |doubt| Self { doubts: vec![doubt], ..Self::default() };
        if !is_bounded(text) {
            return refused(Doubt::TooMuch);
        }
        std::thread::scope(|scope| {
            let reading = std::thread::Builder::new().name("deepagents-command".to_owned()).stack_size(STACK_BYTES);
            let reading = reading.spawn_scoped(scope, || {
                let mut script = Self::default();
                script.text(text, 0);
                script.propagate_kept();
                written::judge(&mut script);
                script.lose_bodies();
                script
            });
            // The thread could not be started, or it panicked.
            reading.ok().and_then(|reading| reading.join().ok()).unwrap_or_else(|| refused(Doubt::TooMuch))
        })
    }

    pub(super) fn text(&mut self, text: &str, depth: usize) {
        if depth > MAX_WRAPPERS || !is_bounded(text) {
            return self.doubts.push(Doubt::TooMuch);
        }
        match rable::parse(text, false) {
            Ok(nodes) => {
                self.compound |= nodes.len() > 1;
                for node in &nodes {
                    let before = self.place.clone();
                    if let Err(doubt) = self.node(node, depth) {
                        self.doubts.push(doubt);
                    }
                    self.place.or(&before);
                }
                if !self.ends.is_empty() && text.lines().any(|line| almost_ends(line, &self.ends)) {
                    self.doubts.push(Doubt::NotRead);
                }
            }
            Err(_) => self.doubts.push(Doubt::NotRead),
        }
    }

    /// Returns whether any command from this index on may run its input.
    pub(super) fn has_live(&self, from: usize) -> bool {
        self.commands.iter().skip(from).any(Simple::is_live)
    }

    /// Records that the output of these commands may be run.
    fn mention_printed(&mut self, from: usize, to: usize) {
        let commands = self.commands.get_mut(from..to).unwrap_or_default();
        commands.iter_mut().filter(|simple| simple.inert).for_each(mentions::printed);
    }

    /// Records that files and variables written by some commands may be run by others.
    fn propagate_kept(&mut self) {
        // Behind `exec > file`, everything is written to the file.
        let opens = |simple: &Simple| {
            simple.writes_a_file() && matches!(simple.words.as_slice(), [program] if program.known() == Some("exec"))
        };
        if let Some(at) = self.commands.iter().position(opens) {
            self.commands.iter_mut().skip(at).for_each(|simple| simple.kept = true);
            self.joined(at);
        }
        if self.has_live(0) {
            self.commands.iter_mut().filter(|simple| simple.inert && simple.kept).for_each(mentions::printed);
        }
    }

    /// Adds everything a node runs. A doubt does not stop its siblings from being read.
    fn node(&mut self, node: &Node, depth: usize) -> Result<(), Doubt> {
        if !matches!(node.kind, NodeKind::Command { .. }) {
            self.compound = true;
        }
        match &node.kind {
            NodeKind::Command { assignments, words, redirects } => self.simple(assignments, words, redirects, depth),
            NodeKind::Pipeline { commands, separators } => {
                // Not every shell has `|&`.
                let doubt = separators.contains(&PipeSep::PipeBoth).then_some(Doubt::NotRead);
                let mut parts = Vec::new();
                let (first, start) = (self.commands.len(), self.place.clone());
                let mut reached = start.clone();
                for node in commands {
                    let from = self.commands.len();
                    self.place = start.clone();
                    self.apart(commands.len() > 1, |script| script.try_node(node, depth));
                    reached.or(&self.place);
                    parts.push((from, self.commands.len()));
                }
                // In some shells, the last part runs in the shell itself.
                self.place = reached;
                let (mut live, mut kept) = (false, false);
                for (from, to) in parts.into_iter().rev() {
                    if live {
                        self.mention_printed(from, to);
                    }
                    let part = self.commands.get_mut(from..to).unwrap_or_default();
                    part.iter_mut().for_each(|simple| simple.kept |= kept);
                    kept |= part.iter().any(|simple| simple.writes_a_file() || simple.kept);
                    live |= part.iter().any(Simple::is_live);
                }
                self.joined(first);
                doubt.map_or(Ok(()), Err)
            }
            NodeKind::List { items } => {
                self.list(items, false, depth);
                Ok(())
            }
            NodeKind::If { condition, then_body, else_body, redirects } => {
                let parts = [&**condition, then_body].into_iter().chain(else_body.as_deref());
                self.compound_command(parts, redirects, false, depth)
            }
            NodeKind::While { condition, body, redirects } | NodeKind::Until { condition, body, redirects } => {
                self.compound_command([&**condition, body], redirects, true, depth)
            }
            NodeKind::For { var, words, body, redirects } => {
                let (from, start) = (self.commands.len(), self.place.clone());
                self.values.forget(var);
                self.parts([&**body], true, depth);
                let after = std::mem::replace(&mut self.place, start);
                let mut values = Vec::new();
                for word in words.iter().flatten() {
                    values.push(self.word(word, depth)?);
                }
                // Without words, it iterates over the positional parameters.
                if words.is_none() {
                    values.push(Word::Computed(None));
                }
                self.assigned(values.into_iter().map(|value| (var.clone(), value)), depth);
                let read = self.redirects(redirects, from, depth);
                self.place = after;
                read
            }
            NodeKind::Case { word, patterns, redirects } => {
                let (from, start) = (self.commands.len(), self.place.clone());
                let bodies = patterns.iter().filter_map(|pattern| pattern.body.as_ref());
                self.parts(bodies, false, depth);
                let after = std::mem::replace(&mut self.place, start);
                self.word(word, depth)?;
                for pattern in patterns.iter().flat_map(|pattern| &pattern.patterns) {
                    self.word(pattern, depth)?;
                }
                if patterns.iter().any(|pattern| pattern.terminator.contains('&')) {
                    return Err(Doubt::NotRead);
                }
                let read = self.redirects(redirects, from, depth);
                self.place = after;
                read
            }
            NodeKind::Function { body, name } if is_name(name) => {
                if mentions::may_be_inert(name) || super::wrappers::is_known(name) {
                    self.hides = Some(Doubt::Renames);
                }
                let (from, place) = (self.commands.len(), self.place.clone());
                let read = self.apart(true, |script| script.node(body, depth));
                self.bodies.push(from..self.commands.len());
                if self.place != place {
                    self.place = Directories::UNKNOWN;
                }
                read
            }
            NodeKind::Subshell { body, redirects } => {
                let place = self.place.clone();
                let read = self.compound_command([&**body], redirects, false, depth);
                self.place = place;
                read
            }
            NodeKind::BraceGroup { body, redirects } => self.compound_command([&**body], redirects, false, depth),
            NodeKind::Negation { pipeline } | NodeKind::Time { pipeline, .. } => self.node(pipeline, depth),
            NodeKind::Empty | NodeKind::Comment { .. } => Ok(()),
            // The rest exists only in bash: `[[`, `((`, `select`, `coproc`, arrays.
            _ => Err(Doubt::NotRead),
        }
    }

    /// Adds what the parts of a compound command run, and the files that it opens for all of them.
    fn compound_command<'a>(
        &mut self,
        parts: impl IntoIterator<Item = &'a Node>,
        redirects: &[Node],
        repeats: bool,
        depth: usize,
    ) -> Result<(), Doubt> {
        let (from, start) = (self.commands.len(), self.place.clone());
        self.parts(parts, repeats, depth);
        let after = std::mem::replace(&mut self.place, start);
        let read = self.redirects(redirects, from, depth);
        self.place = after;
        read
    }

    fn try_node(&mut self, node: &Node, depth: usize) {
        if let Err(doubt) = self.node(node, depth) {
            self.doubts.push(doubt);
        }
    }

    /// Reads a word, and adds what its substitutions run.
    fn word(&mut self, node: &Node, depth: usize) -> Result<Word, Doubt> {
        self.word_with(node, depth, &|_| None)
    }

    /// Reads a word in which some variables are known.
    fn word_with(&mut self, node: &Node, depth: usize, value: &dyn Fn(&str) -> Option<String>) -> Result<Word, Doubt> {
        word::read(node, value, &mut |inner| {
            self.compound = true;
            let place = self.place.clone();
            let read = self.apart(true, |script| match inner {
                Inner::Node(node) => script.node(node, depth),
                Inner::Text(text) => {
                    script.text(text, depth + 1);
                    Ok(())
                }
            });
            self.place = place;
            read
        })
    }
}

/// Returns whether some shells take a line for the end of a here-document and others do not.
fn almost_ends(line: &str, ends: &BTreeSet<String>) -> bool {
    let line = line.trim_start_matches('\t');
    // Try the longest delimiter that the line begins with, then shorter ones.
    let mut most = line;
    while let Some(end) = ends.range::<str, _>((Bound::Unbounded, Bound::Included(most))).next_back() {
        let behind = line.strip_prefix(end.as_str()).map(str::trim_start);
        if line != end && behind.is_some_and(|behind| behind.is_empty() || behind.starts_with([')', '`'])) {
            return true;
        }
        let common = most.char_indices().zip(end.chars()).take_while(|((_, a), b)| a == b);
        let length = common.map(|((at, c), _)| at + c.len_utf8()).last().unwrap_or_default();
        // Any other delimiter that is a prefix of the line is no longer than this.
        let shorter = if length == end.len() { end.char_indices().next_back().map_or(0, |(at, _)| at) } else { length };
        if end.is_empty() {
            return false;
        }
        most = line.get(..shorter).unwrap_or_default();
    }
    false
}

/// Returns whether a text is short and flat enough to be parsed quickly with little stack, judging by the constructs it
/// might nest.
fn is_bounded(text: &str) -> bool {
    let substitutions = ["$(", "<(", ">(", "`", "${"].iter().map(|open| text.matches(open).count()).sum::<usize>();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let keywords =
        words.filter(|word| matches!(*word, "if" | "while" | "until" | "for" | "case" | "time" | "elif")).count();
    let nested = text.matches(['(', '{', '!']).count() + keywords;
    text.len() <= MAX_SCRIPT_BYTES && substitutions <= MAX_SUBSTITUTIONS && nested <= MAX_NESTED
}
