//! Reasons an edit fails.

use crate::{FsError, VPath};

/// A line of the file that resembles the text searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearLine {
    /// Line number, from 1.
    pub number: u64,
    /// Text of the line, at most 200 characters.
    pub text: String,
}

/// A place of the file that differs from the text searched for only in white space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LooseMatch {
    /// Number of its first line, from 1.
    pub first: u64,
    /// Number of its last line.
    pub last: u64,
    /// Its lines exactly as an edit needs them; only the place itself if they are very long.
    pub text: String,
    /// Whether the text is only the beginning of the place.
    pub is_cut: bool,
}

/// Reason an edit failed. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// No edit was given.
    #[error("no edits were given for {}", .0.quoted())]
    NoEdits(VPath),
    /// The old text of an edit is empty.
    #[error("the old text is empty; give the exact text to replace in {}", .path.quoted())]
    EmptyOld {
        /// The file.
        path: VPath,
        /// Index of the edit, from 0.
        index: usize,
    },
    /// The old text is not in the file.
    #[error("the text to replace is not in {}{}", .path.quoted(), show_near(.nearest))]
    NotFound {
        /// The file.
        path: VPath,
        /// Index of the edit, from 0.
        index: usize,
        /// Lines that resemble its first line, the closest first; if that line is in the file, the lines that differ
        /// after it.
        nearest: Vec<NearLine>,
    },
    /// The old text is in the file only with other white space.
    #[error("the text to replace is not in {}{}", .path.quoted(), show_loose(.places, *.count))]
    OtherWhiteSpace {
        /// The file.
        path: VPath,
        /// Index of the edit, from 0.
        index: usize,
        /// The first places.
        places: Vec<LooseMatch>,
        /// Number of places.
        count: usize,
    },
    /// The old text ends with a newline that does not follow the matching text at the end of the file.
    #[error(
        "the text to replace ends with a newline that is not at the end of {}; leave it out{}",
        .path.quoted(), show_count(*.count)
    )]
    NoFinalNewline {
        /// The file.
        path: VPath,
        /// Index of the edit, from 0.
        index: usize,
        /// Number of occurrences of the text without its final newline.
        count: usize,
    },
    /// The old text occurs several times.
    #[error(
        "the text to replace is in {} {count} times, {}; add surrounding lines to make it unique or replace all",
        .path.quoted(), show_lines(.lines, *.count)
    )]
    NotUnique {
        /// The file.
        path: VPath,
        /// Index of the edit, from 0.
        index: usize,
        /// Number of occurrences.
        count: usize,
        /// Line numbers of the first ten occurrences.
        lines: Vec<u64>,
    },
    /// The new text differs from the old one only in its line ends, and the file already has those of the new one.
    #[error("the edit would change nothing: {} already has these line ends", .path.quoted())]
    NoChange {
        /// The file.
        path: VPath,
        /// Index of the edit, from 0.
        index: usize,
    },
    /// The file would become too large.
    #[error("{} would become {size} bytes long, the limit is {limit}", .path.quoted())]
    TooLarge {
        /// The file.
        path: VPath,
        /// Index of the edit, from 0.
        index: usize,
        /// Size the file would have, in bytes.
        size: u64,
        /// Size limit in bytes.
        limit: u64,
    },
    /// The file is not text.
    #[error("{} is not UTF-8 text and cannot be edited by replacing text", .0.quoted())]
    Binary(VPath),
    /// Reading or writing failed.
    #[error(transparent)]
    Fs(#[from] FsError),
}

impl EditError {
    /// Returns whether the error quotes the file.
    pub(super) fn quotes_file(&self) -> bool {
        match self {
            Self::NotFound { nearest, .. } => !nearest.is_empty(),
            Self::OtherWhiteSpace { .. } => true,
            _ => false,
        }
    }

    /// Returns the error for somebody who must not read the file.
    pub(super) fn without_quotes(self) -> Self {
        match self {
            Self::NotFound { path, index, .. } | Self::OtherWhiteSpace { path, index, .. } => {
                Self::NotFound { path, index, nearest: Vec::new() }
            }
            other => other,
        }
    }

    /// Returns the index of the edit that failed, from 0, if it was one of them.
    pub fn index(&self) -> Option<usize> {
        match self {
            Self::EmptyOld { index, .. }
            | Self::NotFound { index, .. }
            | Self::OtherWhiteSpace { index, .. }
            | Self::NoFinalNewline { index, .. }
            | Self::NotUnique { index, .. }
            | Self::NoChange { index, .. }
            | Self::TooLarge { index, .. } => Some(*index),
            Self::NoEdits(_) | Self::Binary(_) | Self::Fs(_) => None,
        }
    }
}

fn show_near(nearest: &[NearLine]) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    for (at, line) in nearest.iter().enumerate() {
        let before = if at == 0 { "; similar lines:" } else { "" };
        let _ = write!(out, "{before}\n  {}: {}", line.number, line.text);
    }
    out
}

fn show_loose(places: &[LooseMatch], count: usize) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    for (at, place) in places.iter().enumerate() {
        let LooseMatch { first, last, .. } = place;
        let lines = if first == last { format!("line {first}") } else { format!("lines {first}-{last}") };
        let _ = match at {
            0 => write!(out, ", but with other white space in {lines}; exactly:\n{}", place.text),
            _ => write!(out, "\nand in {lines}:\n{}", place.text),
        };
        if place.is_cut {
            out.push_str("\n(cut here; read the rest)");
        }
    }
    if count > places.len() {
        let _ = write!(out, "\nand in {} more places", count - places.len());
    }
    out
}

fn show_count(count: usize) -> String {
    if count > 1 { format!(" and add surrounding lines, as it is there {count} times") } else { String::new() }
}

fn show_lines(lines: &[u64], count: usize) -> String {
    let numbers: Vec<String> = lines.iter().map(u64::to_string).collect();
    let more = if lines.len() < count { " and more" } else { "" };
    format!("in lines {}{more}", numbers.join(", "))
}
