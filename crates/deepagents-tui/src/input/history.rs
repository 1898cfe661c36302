//! What was typed before, across starts.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Bytes of the file that are read at the start.
const READ: u64 = 256 * 1024;
/// The file is written anew, with its newest half, when it has come to this size.
const MOST: u64 = 4 * 1024 * 1024;

/// Earlier inputs, the newest last, and which of them the person looks at.
#[derive(Debug, Default)]
pub(crate) struct History {
    file: Option<PathBuf>,
    entries: Vec<String>,
    at: Option<usize>,
    /// What was in the input before the person went back.
    draft: String,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    text: String,
}

impl History {
    /// The history in a file. One that cannot be read is empty.
    pub(crate) fn open(file: Option<PathBuf>) -> Self {
        let entries = file.as_ref().map(read).unwrap_or_default();
        Self { file, entries, ..Self::default() }
    }

    /// Keeps an input; a repetition of the last one is not kept twice.
    pub(crate) fn add(&mut self, text: &str) {
        self.at = None;
        if text.trim().is_empty() || self.entries.last().is_some_and(|last| last == text) {
            return;
        }
        self.entries.push(text.to_owned());
        // A history that cannot be written is one for this start.
        let _ = self.append(text);
    }

    fn append(&self, text: &str) -> std::io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        if let Some(directory) = file.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut line = serde_json::to_vec(&Entry { text: text.to_owned() })?;
        line.push(b'\n');
        if fs::metadata(file).is_ok_and(|info| info.len() > MOST) {
            let kept: Vec<u8> =
                self.entries.iter().skip(self.entries.len() / 2).try_fold(Vec::new(), |mut all, text| {
                    serde_json::to_writer(&mut all, &Entry { text: text.clone() })?;
                    all.push(b'\n');
                    Ok::<_, serde_json::Error>(all)
                })?;
            return fs::write(file, kept);
        }
        // Lines of programs that write at the same time stay whole: each is one write at the end. What was typed is nobody
        // else's business.
        OpenOptions::new().create(true).append(true).mode(0o600).open(file)?.write_all(&line)
    }

    /// The entry before the one that is looked at.
    pub(crate) fn older(&mut self, present: &str) -> Option<&str> {
        let at = match self.at {
            None => {
                present.clone_into(&mut self.draft);
                self.entries.len()
            }
            Some(at) => at,
        };
        let at = at.checked_sub(1)?;
        self.at = Some(at);
        self.entries.get(at).map(String::as_str)
    }

    /// The entry after the one that is looked at, and at last what was there before; nothing where none is looked at.
    pub(crate) fn newer(&mut self) -> Option<&str> {
        let at = self.at? + 1;
        if at < self.entries.len() {
            self.at = Some(at);
            return self.entries.get(at).map(String::as_str);
        }
        self.at = None;
        Some(&self.draft)
    }

    /// Whether an entry is looked at.
    pub(crate) fn is_open(&self) -> bool {
        self.at.is_some()
    }

    /// Looks at none any more.
    pub(crate) fn leave(&mut self) {
        self.at = None;
    }

    /// The newest entry with these words, passing over so many.
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
    let from = length.saturating_sub(READ);
    let mut bytes = Vec::new();
    if open.seek(SeekFrom::Start(from)).is_err() || open.take(READ).read_to_end(&mut bytes).is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().skip(usize::from(from > 0));
    lines.filter_map(|line| serde_json::from_str::<Entry>(line).ok()).map(|entry| entry.text).collect()
}
