//! Recording what a model was asked and answered, and playing it back.
//!
//! [`RecordingModel`] wraps a model and writes every exchange; [`ReplayModel`] answers from a recording, so that an agent
//! can be tested against a real model's words without the model. Recordings of whole runs are of the same format, with
//! lines of their own beside those of the models; [`ModelRecorder`] and [`Recording`] write and read what is the same.
//!
//! # Format
//!
//! Version 2. One JSON object a line, appended and flushed as things happen; `kind` says what a line is. Recordings of
//! version 1 are read too.
//!
//! | `kind` | |
//! |---|---|
//! | `recording` | the first line: `v`, `program`, `model` with its [`profile`](deepagents_core::model::ModelProfile), in recordings of runs the main `agent` and the application's own `options` |
//! | `request` | what a model is asked: `path` of the agent (empty for a recorded model), `n` among its requests, `turn`, `aside`, `digest`; `messages` after the first `kept` of the request before, and those of the other `fields` that are not as in that one: `system`, `tools`, `tool_choice`, `parallel_tool_calls`, `output_schema`, `settings`, `cache` |
//! | `answer` | of the request with this `path` and `n`: the `events` before the end, each with its `kind`; the whole answer (`output`) or the failure (`error`), where there is one |
//!
//! An answer with neither `output` nor `error` broke off: the stream ended early or its reader dropped it. Message ids, tool
//! artifacts, recorded usage and the time limit are left out of requests: no model sees them, and they change from run to
//! run. The digest is a hash of the whole request, whatever the order of its keys.
//!
//! A recording holds whole prompts, file contents among them. Keep it where you would keep those.

mod answer;
mod difference;
mod line;
mod reader;
mod recorder;
mod replay;
mod request;
mod writer;

use std::io;
use std::path::PathBuf;

pub use answer::Answer;
pub use difference::{Difference, first_difference};
pub use line::Header;
pub use reader::{Exchange, Recording, open, take_exchange};
pub use recorder::{ModelRecorder, RecordingModel};
pub use replay::{Matching, ReplayModel};
pub use request::Request;
pub use writer::LineWriter;

/// Why a recording could not be made, read or played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum RecordingError {
    /// The file could not be opened, or created: an existing recording is never overwritten.
    #[error("cannot open the recording {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// The recording could not be read.
    #[error("cannot read the recording: {0}")]
    Read(#[source] io::Error),
    /// The recording could not be written, or its writing thread not started.
    #[error("cannot write the recording: {0}")]
    Write(#[source] io::Error),
    /// It is something else.
    #[error("this is not a recording: {0}")]
    Foreign(String),
    /// It is of a version that this program does not know.
    #[error("the recording has version {found}, but this program reads versions up to 2; play it with a newer program")]
    Newer { found: u64 },
    /// A line, counted from 1, is not what it should be.
    #[error("the recording is damaged at line {line}: {what}; record it again")]
    Damaged { line: usize, what: String },
    /// What was recorded cannot be repeated.
    #[error("the recording cannot be played: {0}")]
    Unplayable(String),
}
