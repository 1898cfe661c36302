//! The report of what was and was not imported, and copying, which never overwrites.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, stat};
use serde::Serialize;

use super::place::{Existing, Place};
use crate::own_files::is_same;
use crate::render::escaped;

/// Maximum size of an imported file in bytes, and number of files in a tree.
const MAX_FILE_BYTES: u64 = 16 << 20;
const MAX_FILES: usize = 2_000;
/// Maximum depth of trees.
const MAX_DEPTH: usize = 12;

/// The outcome for a file or a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ImportStatus {
    /// It was imported.
    Taken,
    /// It exists already, or need not be imported.
    Unchanged,
    /// It could not be imported.
    Left,
}

/// One line of the report.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) became: ImportStatus,
    pub(super) what: String,
    pub(super) why: String,
}

/// Everything that was done, or would be done in a dry run.
pub(super) struct Report {
    dry_run: bool,
    place: Place,
    pub(super) lines: Vec<Outcome>,
    files: usize,
    /// Hashes of the files that a dry run would have written so far; later ones may conflict with them.
    planned: HashMap<PathBuf, u64>,
    /// Whether anything could not be read or written.
    pub(super) has_failed: bool,
}

impl Report {
    pub(super) fn new(dry_run: bool, place: Place) -> Self {
        Self { dry_run, place, lines: Vec::new(), files: 0, planned: HashMap::new(), has_failed: false }
    }

    fn add(&mut self, became: ImportStatus, what: &Path, why: impl Into<String>) {
        self.lines.push(Outcome { became, what: what.display().to_string(), why: why.into() });
    }

    pub(super) fn unchanged(&mut self, what: &Path, why: impl Into<String>) {
        self.add(ImportStatus::Unchanged, what, why);
    }

    pub(super) fn note_skipped(&mut self, what: &Path, why: impl Into<String>) {
        self.add(ImportStatus::Left, what, why);
    }

    /// Records an I/O error; the import continues with the rest.
    fn failed(&mut self, what: &Path, why: String) {
        self.has_failed = true;
        self.note_skipped(what, why);
    }

    /// Reads a file; `None` if it does not exist or cannot be imported.
    pub(super) fn read(&mut self, from: &Path) -> Option<Vec<u8>> {
        let about = match fs::symlink_metadata(from) {
            Ok(about) => about,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return None;
            }
            Err(error) => {
                self.failed(from, format!("it cannot be accessed: {error}"));
                return None;
            }
        };
        let why = if !about.is_file() {
            "it is a link, or not a regular file"
        } else if self.place.leads_outside(from) {
            "it is reached by a link that leads out of the directory"
        } else if about.len() > MAX_FILE_BYTES {
            "it is too large"
        } else {
            let read = fs::read(from);
            return read.map_err(|error| self.failed(from, format!("it cannot be read: {error}"))).ok();
        };
        self.note_skipped(from, why);
        None
    }

    /// Lists a directory, sorted by name; empty if it does not exist or cannot be imported.
    pub(super) fn entries(&mut self, directory: &Path) -> Vec<(String, PathBuf)> {
        if self.place.leads_outside(directory) {
            self.note_skipped(directory, "it is reached by a link that leads out of the directory");
            return Vec::new();
        }
        let listing = match fs::read_dir(directory) {
            Ok(listing) => listing,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Vec::new();
            }
            Err(error) => {
                self.failed(directory, format!("it cannot be read: {error}"));
                return Vec::new();
            }
        };
        let mut all = Vec::new();
        for entry in listing.flatten() {
            match entry.file_name().into_string() {
                Ok(name) => all.push((name, entry.path())),
                Err(_) => self.note_skipped(&entry.path(), "its name is not UTF-8"),
            }
        }
        all.sort();
        all
    }

    /// Writes a new file. Returns whether it exists now, or would after a real run.
    pub(super) fn write(&mut self, from: &Path, to: &Path, bytes: &[u8]) -> bool {
        let there = match self.place.inspect(to, bytes) {
            Ok(Existing::Nothing) if self.dry_run => Ok(self.plan(to, bytes)),
            Ok(Existing::Nothing) => mode_of(from).and_then(|mode| self.place.make(to, bytes, mode)),
            looked => looked,
        };
        let there = match there {
            Ok(there) => there,
            Err(error) => {
                self.failed(from, format!("{} cannot be written: {error}", to.display()));
                return false;
            }
        };
        let is_there = matches!(there, Existing::Nothing | Existing::Same);
        match there {
            Existing::Nothing => self.add(ImportStatus::Taken, from, format!("as {}", to.display())),
            Existing::Same => self.unchanged(from, format!("already exists as {}", to.display())),
            Existing::Other => self.note_skipped(
                from,
                format!("{} already exists with different content; merge them by hand", to.display()),
            ),
            // A link like this is common where both programs read one file.
            Existing::Link(link) if link == to && is_same(from, to) => {
                self.unchanged(from, format!("already exists: {} is a link to it", to.display()));
            }
            Existing::Link(link) => {
                self.note_skipped(from, format!("{} is a link, and its target is not changed", link.display()));
            }
            Existing::Odd(odd) => self.note_skipped(from, format!("{} is of an unexpected type", odd.display())),
        }
        is_there
    }

    /// Returns what a real run would find at the path by now.
    fn plan(&mut self, to: &Path, bytes: &[u8]) -> Existing {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        match self.planned.get(to) {
            Some(first) if *first == hasher.finish() => Existing::Same,
            Some(_) => Existing::Other,
            None => {
                self.planned.insert(to.to_owned(), hasher.finish());
                Existing::Nothing
            }
        }
    }

    /// Imports the files in and below a directory.
    pub(super) fn copy_tree(&mut self, from: &Path, to: &Path) {
        self.tree(from, to, MAX_DEPTH);
    }

    fn tree(&mut self, from: &Path, to: &Path, depth: usize) {
        for (name, path) in self.entries(from) {
            self.files += 1;
            if self.files > MAX_FILES || depth == 0 {
                return self.note_skipped(&path, "there are too many files, or they are nested too deep");
            }
            let to = to.join(name);
            if path.is_dir() && !path.is_symlink() {
                self.tree(&path, &to, depth - 1);
            } else if let Some(bytes) = self.read(&path) {
                self.write(&path, &to, &bytes);
            }
        }
    }
}

/// Returns the mode for the copy of a file: the same permissions, but always readable and writable for the user.
fn mode_of(file: &Path) -> io::Result<Mode> {
    let bits = stat(file)?.st_mode;
    Ok(Mode::from_raw_mode(bits & 0o177) | Mode::RUSR | Mode::WUSR)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (ImportStatus::Taken, if self.dry_run { "would be imported" } else { "imported" }),
            (ImportStatus::Unchanged, "nothing to do"),
            (ImportStatus::Left, "not imported"),
        ];
        let mut first = true;
        for (became, title) in parts {
            let lines: Vec<&Outcome> = self.lines.iter().filter(|line| line.became == became).collect();
            if lines.is_empty() {
                continue;
            }
            write!(f, "{}{title}:", if first { "" } else { "\n" })?;
            first = false;
            for line in lines {
                write!(f, "\n  {}: {}", escaped(&line.what), escaped(&line.why))?;
            }
        }
        Ok(())
    }
}
