//! Notes that processes leave behind when they are killed: lines in an append-only file.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// A note.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Note {
    /// A model was called.
    Model {
        agent: String,
        /// The last answer in the agent's conversation, if any.
        after: Option<usize>,
        /// The results of that answer's calls, by tag.
        results: BTreeMap<String, String>,
        /// Whether a summary was requested.
        summary: bool,
    },
    /// A call had its external effect.
    Effect { tag: String, key: String },
    /// The run waits for decisions on these calls.
    Interrupted { tools: Vec<String> },
    /// Decisions on all of them were made.
    Decided,
    /// A process was killed.
    Killed,
}

/// The file of notes.
pub(crate) struct Notes(File);

impl Notes {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Ok(Self(OpenOptions::new().append(true).create(true).open(path)?))
    }

    /// Appends a note. A line is written completely or not at all, even if the process is killed.
    pub(crate) fn add(&self, note: &Note) -> Result<()> {
        (&self.0).write_all(format!("{}\n", serde_json::to_string(note)?).as_bytes())?;
        Ok(())
    }

    /// Appends a note that also survives a crash of the machine, as external effects do.
    pub(crate) fn add_synced(&self, note: &Note) -> Result<()> {
        self.add(note)?;
        Ok(self.0.sync_data()?)
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<Note>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}
