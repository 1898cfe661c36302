//! The input history, which persists across starts.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::json;

/// Maximum bytes read from the file at the start, and the size from which on it is rewritten with its newer half.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Earlier inputs, newest last, and the one being viewed.
#[derive(Debug, Default)]
pub(crate) struct History {
    file: Option<PathBuf>,
    entries: Vec<String>,
    at: Option<usize>,
    /// The input before the user went back in the history.
    draft: String,
}

/// A line of the file.
#[derive(Deserialize)]
struct Entry {
    text: String,
}

impl History {
    /// Opens the history in a file. An unreadable file counts as empty.
    pub(crate) fn open(file: Option<PathBuf>) -> Self {
        let entries = file.as_ref().map(read).unwrap_or_default();
        Self { file, entries, ..Self::default() }
    }

    /// Adds an input, unless it repeats the last one.
    pub(crate) fn add(&mut self, text: &str) {
        self.at = None;
        if text.trim().is_empty() || self.entries.last().is_some_and(|last| last == text) {
            return;
        }
        self.entries.push(text.to_owned());
        // A history that cannot be written lasts until the program ends.
        let _ = self.append(text);
    }

    fn append(&self, text: &str) -> std::io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        if let Some(directory) = file.parent() {
            fs::create_dir_all(directory)?;
        }
        let line = |text: &str| format!("{}\n", json!({"text": text}));
        if fs::metadata(file).is_ok_and(|info| info.len() > MAX_FILE_BYTES) {
            let newer = self.entries.iter().skip(self.entries.len() / 2);
            return fs::write(file, newer.map(|text| line(text)).collect::<String>());
        }
        // Each line is appended with a single write, so that concurrent programs do not mix their lines. Only the user
        // may read the file.
        OpenOptions::new().create(true).append(true).mode(0o600).open(file)?.write_all(line(text).as_bytes())
    }

    /// Returns the entry before the one being viewed.
    pub(crate) fn older(&mut self, present: &str) -> Option<&str> {
        if self.at.is_none() {
            present.clone_into(&mut self.draft);
        }
        let at = self.at.unwrap_or(self.entries.len()).checked_sub(1)?;
        self.at = Some(at);
        self.entries.get(at).map(String::as_str)
    }

    /// Returns the entry after the one being viewed, and finally the draft. Returns `None` if no entry is being viewed.
    pub(crate) fn newer(&mut self) -> Option<&str> {
        let at = self.at? + 1;
        self.at = Some(at).filter(|at| *at < self.entries.len());
        self.entries.get(at).or(Some(&self.draft)).map(String::as_str)
    }

    /// Stops viewing entries.
    pub(crate) fn stop_viewing(&mut self) {
        self.at = None;
    }

    /// Returns the newest entry that contains the text, after skipping `skip` matches.
    pub(crate) fn search(&self, words: &str, skip: usize) -> Option<&str> {
        let words = words.to_lowercase();
        let mut seen: Vec<&str> = Vec::new();
        for entry in self.entries.iter().rev() {
            if entry.to_lowercase().contains(&words) && !seen.contains(&entry.as_str()) {
                if seen.len() == skip {
                    return Some(entry);
                }
                seen.push(entry);
            }
        }
        None
    }
}

fn read(file: &PathBuf) -> Vec<String> {
    let Ok(mut open) = fs::File::open(file) else { return Vec::new() };
    let length = open.metadata().map_or(0, |info| info.len());
    let from = length.saturating_sub(MAX_FILE_BYTES);
    let mut bytes = Vec::new();
    if open.seek(SeekFrom::Start(from)).is_err() || open.take(MAX_FILE_BYTES).read_to_end(&mut bytes).is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().skip(usize::from(from > 0));
    lines.filter_map(|line| serde_json::from_str::<Entry>(line).ok()).map(|entry| entry.text).collect()
}
