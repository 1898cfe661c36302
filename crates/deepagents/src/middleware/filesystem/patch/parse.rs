//! Parses patches.

use std::collections::BTreeSet;
use std::iter::Peekable;

use deepagents_fs::{PathError, VPath};

use super::{FileChange, Hunk, HunkLine, Patch};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";

/// An error from parsing a patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The first line is wrong.
    #[error("a patch begins with the line `{BEGIN}`")]
    NoBegin,
    /// The last line is wrong, for example because the answer was cut off.
    #[error("a patch ends with the line `{END}`; send it whole")]
    NoEnd,
    /// The patch has no changes.
    #[error("the patch names no file: write `{ADD}PATH`, `{UPDATE}PATH` or `{DELETE}PATH`")]
    Empty,
    /// A line is not valid at its position.
    #[error("line {number} of the patch, `{text}`, is not understood: {expected}")]
    Line {
        /// The line number, from 1.
        number: usize,
        /// The line, truncated to 200 characters.
        text: String,
        /// What would be valid there.
        expected: &'static str,
    },
    /// A path is invalid.
    #[error("line {number} of the patch: {error}")]
    Path {
        /// The line number, from 1.
        number: usize,
        /// The problem with the path.
        error: PathError,
    },
    /// An updated file neither changes nor moves.
    #[error("the patch changes nothing in {}: write hunks of lines that begin with ` `, `-` or `+`", .0.quoted())]
    NoHunks(VPath),
    /// A path is changed twice.
    #[error("the patch names {} twice: put all that changes there in one place", .0.quoted())]
    Twice(VPath),
}

impl Patch {
    /// Parses a patch. Ignores surrounding whitespace and an enclosing here-document.
    ///
    /// # Errors
    /// Returns a [`PatchError`] that says which line is wrong, and what would be valid there.
    pub fn parse(text: &str) -> Result<Self, PatchError> {
        let all: Vec<&str> = unwrapped(text).lines().collect();
        let lines = match all.as_slice() {
            [first, ..] if first.trim() != BEGIN => return Err(PatchError::NoBegin),
            [_, lines @ .., last] if last.trim() == END => lines,
            [] => return Err(PatchError::NoBegin),
            _ => return Err(PatchError::NoEnd),
        };
        let mut reader = Reader { lines: (2..).zip(lines.iter().copied()).peekable() };
        let mut changes = Vec::new();
        while let Some(change) = reader.change()? {
            changes.push(change);
        }
        let patch = Self { changes };
        if patch.changes.is_empty() {
            return Err(PatchError::Empty);
        }
        let mut seen = BTreeSet::new();
        let twice = patch.paths().find(|path| !seen.insert(*path)).cloned();
        twice.map_or(Ok(patch), |path| Err(PatchError::Twice(path)))
    }
}

/// Removes the shell here-document in which some models wrap a patch.
fn unwrapped(text: &str) -> &str {
    let text = text.trim();
    let inner = ["<<'EOF'", "<<\"EOF\"", "<<EOF"].iter().find_map(|start| text.strip_prefix(start));
    inner.and_then(|inner| inner.strip_suffix("EOF")).map_or(text, str::trim)
}

/// The remaining lines, with line numbers.
struct Reader<I: Iterator> {
    lines: Peekable<I>,
}

impl<'a, I: Iterator<Item = (usize, &'a str)>> Reader<I> {
    /// Parses the change to the next file, if there is one.
    fn change(&mut self) -> Result<Option<FileChange>, PatchError> {
        while self.lines.next_if(|(_, line)| line.trim().is_empty()).is_some() {}
        let Some((number, line)) = self.lines.next() else { return Ok(None) };
        let trimmed = line.trim();
        let change = if let Some(path) = trimmed.strip_prefix(ADD) {
            FileChange::Add { path: path_of(number, path)?, content: self.content() }
        } else if let Some(path) = trimmed.strip_prefix(DELETE) {
            FileChange::Delete { path: path_of(number, path)? }
        } else if let Some(path) = trimmed.strip_prefix(UPDATE) {
            self.update(path_of(number, path)?)?
        } else {
            let expected = "here begins a file, with `*** Add File: PATH` (each of its lines after a `+`), \
                            `*** Update File: PATH` or `*** Delete File: PATH`";
            return Err(wrong(number, line, expected));
        };
        Ok(Some(change))
    }

    /// Parses the lines of a new file.
    fn content(&mut self) -> String {
        let mut content = String::new();
        while let Some((_, line)) = self.lines.next_if(|(_, line)| line.starts_with('+')) {
            content.push_str(line.strip_prefix('+').unwrap_or(line));
            content.push('\n');
        }
        content
    }

    fn update(&mut self, path: VPath) -> Result<FileChange, PatchError> {
        let mut move_to = None;
        if let Some((number, line)) = self.lines.next_if(|(_, line)| line.trim().starts_with(MOVE)) {
            move_to = Some(path_of(number, line.trim().strip_prefix(MOVE).unwrap_or(line))?);
        }
        let mut hunks = Vec::new();
        while let Some(hunk) = self.hunk()? {
            hunks.push(hunk);
        }
        if hunks.is_empty() && move_to.is_none() {
            return Err(PatchError::NoHunks(path));
        }
        Ok(FileChange::Update { path, move_to, hunks })
    }

    /// Parses the next hunk of a file, if there is one.
    fn hunk(&mut self) -> Result<Option<Hunk>, PatchError> {
        let starts_file = |line: &str| [ADD, DELETE, UPDATE].iter().any(|start| line.trim().starts_with(start));
        let mut hunk = Hunk::default();
        let mut header = None;
        while let Some((number, line)) = self.lines.next_if(|(_, line)| line.starts_with("@@")) {
            header = Some((number, line));
            let above = line.strip_prefix("@@").unwrap_or(line).trim();
            // A pair of `@@` around line numbers is unified diff syntax; the numbers are ignored.
            let above = match above.split_once("@@") {
                Some((numbers, rest)) if numbers.trim_start().starts_with('-') => rest.trim(),
                _ => above,
            };
            hunk.above.extend((!above.is_empty()).then(|| above.to_owned()));
        }
        while let Some(&(number, line)) = self.lines.peek() {
            if line.starts_with("@@") || starts_file(line) {
                break;
            }
            self.lines.next();
            if line.trim() == END_OF_FILE {
                hunk.at_end = true;
                break;
            }
            hunk.lines.push(match line.split_at_checked(1) {
                // Trailing spaces often get lost.
                None => HunkLine::Context(String::new()),
                Some((" ", text)) => HunkLine::Context(text.to_owned()),
                Some(("-", text)) => HunkLine::Remove(text.to_owned()),
                Some(("+", text)) => HunkLine::Add(text.to_owned()),
                _ => {
                    let expected = "lines of a hunk begin with a blank, `-` or `+`, and `@@ LINE` stands above them";
                    return Err(wrong(number, line, expected));
                }
            });
        }
        // Blank lines before the next file are not part of the hunk.
        let followed = self.lines.peek().is_none_or(|(_, line)| starts_file(line));
        while followed && hunk.lines.last() == Some(&HunkLine::Context(String::new())) && !hunk.at_end {
            hunk.lines.pop();
        }
        match (hunk.lines.is_empty(), header) {
            (false, _) => Ok(Some(hunk)),
            (true, None) if !hunk.at_end => Ok(None),
            (true, header) => {
                let (number, line) = header.unwrap_or((0, END_OF_FILE));
                Err(wrong(number, line, "lines that begin with a blank, `-` or `+` follow it"))
            }
        }
    }
}

fn path_of(number: usize, path: &str) -> Result<VPath, PatchError> {
    VPath::parse(path.trim()).map_err(|error| PatchError::Path { number, error })
}

fn wrong(number: usize, line: &str, expected: &'static str) -> PatchError {
    PatchError::Line { number, text: line.chars().take(200).collect(), expected }
}
