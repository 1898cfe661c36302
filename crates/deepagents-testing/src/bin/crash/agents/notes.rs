//! What processes leave behind, whatever becomes of them: lines in a file that is only appended to.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// A line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Note {
    /// A model was asked.
    Model {
        agent: String,
        /// The last answer that the agent was shown, if any.
        after: Option<usize>,
        /// The results of that answer, by tag.
        results: BTreeMap<String, String>,
        /// Whether a summary was asked for.
        summary: bool,
    },
    /// A call took effect outside.
    Effect { tag: String, key: String },
    /// A run waits for decisions about these calls.
    Interrupted { tools: Vec<String> },
    /// Decisions about all of them are given.
    Decided,
    /// A process was killed.
    Killed,
}

/// The file.
pub(crate) struct Notes(File);

impl Notes {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Ok(Self(OpenOptions::new().append(true).create(true).open(path)?))
    }

    /// Adds a line. One write of a line is whole or absent, also when the process is killed.
    pub(crate) fn add(&self, note: &Note) -> Result<()> {
        (&self.0).write_all(format!("{}\n", serde_json::to_string(note)?).as_bytes())?;
        Ok(())
    }

    /// Adds a line that outlives the machine as well, as what takes effect outside does.
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
