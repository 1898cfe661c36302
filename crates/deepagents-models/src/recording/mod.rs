//! Records and replays model requests and responses.
//!
//! [`RecordingModel`] wraps a model and writes every exchange. [`ReplayModel`] responds from a recording, so that an
//! agent can be tested with a real model's responses but without the model. Recordings of whole runs use the same
//! format with additional lines; [`ModelRecorder`] and [`Recording`] write and read the common part.
//!
//! # Format
//!
//! Version 2. One JSON object per line, appended and flushed as events happen; `kind` is the type of the line. Version
//! 1 can be read too.
//!
//! | `kind` | |
//! |---|---|
//! | `recording` | the first line: `v`, `program`, `model` with its [`profile`](deepagents_core::model::ModelProfile), and in recordings of runs the main `agent` and the application's own `options` |
//! | `request` | a model request: `path` of the agent (empty for a recorded model), its number `n`, `turn`, `aside`, `digest`; the `messages` after the first `kept` of the previous request, and those of the other `fields` that differ from it: `system`, `tools`, `tool_choice`, `parallel_tool_calls`, `output_schema`, `settings`, `cache` |
//! | `answer` | the response to the request with this `path` and `n`: the `events` before the end, each with its `kind`; the complete response (`output`) or the error (`error`), if there is one |
//!
//! An `answer` with neither `output` nor `error` broke off: the stream ended early, or its reader dropped it. Requests
//! omit message IDs, tool artifacts, recorded usage and the timeout: no model sees them, and they change from run to
//! run. The digest is a hash of the whole request, independent of the order of its keys.
//!
//! A recording contains complete prompts, including file contents. Store it with the same care.

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

/// Reason a recording could not be written, read or replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum RecordingError {
    /// The file could not be opened or created; an existing recording is never overwritten.
    #[error("cannot open the recording {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// The recording could not be read.
    #[error("cannot read the recording: {0}")]
    Read(#[source] io::Error),
    /// The recording could not be written, or its writing thread could not be started.
    #[error("cannot write the recording: {0}")]
    Write(#[source] io::Error),
    /// The input is not a recording.
    #[error("this is not a recording: {0}")]
    Foreign(String),
    /// The recording has a version that this program does not know.
    #[error("the recording has version {found}, but this program reads versions up to 2; play it with a newer program")]
    Newer { found: u64 },
    /// A line, counted from 1, is invalid.
    #[error("the recording is damaged at line {line}: {what}; record it again")]
    Damaged { line: usize, what: String },
    /// The recording cannot be replayed.
    #[error("the recording cannot be played: {0}")]
    Unplayable(String),
}
