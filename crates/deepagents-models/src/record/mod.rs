//! Recording what a model was asked and answered, and playing it back.
//!
//! [`RecordingModel`] wraps a model and writes every exchange; [`ReplayModel`] answers from such a recording, so that
//! an agent can be tested against a real model's words without the model.
//!
//! # Format
//!
//! One JSON object a line. The first line is the header, every other line is one exchange; lines are in the order the
//! exchanges *ended*.
//!
//! | field of the header | |
//! |---|---|
//! | `v` | the version of the format, `1` |
//! | `kind` | `"recording"` |
//! | `model` | the model's name |
//! | `profile` | its [`ModelProfile`](deepagents_core::model::ModelProfile) |
//!
//! | field of an exchange | |
//! |---|---|
//! | `v` | the version of the format, `1` |
//! | `kind` | `"exchange"` |
//! | `seq` | place among the requests, from 0, in the order they *began* |
//! | `fingerprint` | hash of `request`, 16 hex digits; the order of keys does not matter |
//! | `request` | what the model was shown: `system`, `messages`, `tools`, `tool_choice`, `parallel_tool_calls`, `output_schema`, `settings`, `cache` |
//! | `events` | the events before the end, each with its `kind`: `text`, `reasoning`, `tool_call`, `tool_args`, `retry` |
//! | `output` | the whole answer, where there is one |
//! | `error` | the failure, where there is one: `kind`, `message`, `status`, `code`, `retry_after_ms`, `request_id` |
//!
//! An exchange with neither `output` nor `error` broke off: the stream ended early or its reader dropped it. Message
//! ids, tool artifacts, recorded usage and the time limit are left out of `request`: no model sees them, and they
//! change from run to run.
//!
//! A recording holds whole prompts, file contents among them. Keep it where you would keep those.

mod answer;
mod difference;
mod format;
mod recording;
mod replay;
mod writer;

use std::io;
use std::path::PathBuf;

pub use answer::{Answer, Failure, overhear};
pub use difference::{Difference, first_difference};
pub use format::{fingerprint, request_json};
pub use recording::RecordingModel;
pub use replay::{Matching, ReplayModel};
pub use writer::LineWriter;

/// Why a recording could not be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file could not be opened, or created: an existing recording is never overwritten.
    #[error("cannot open the recording {}: {source}", path.display())]
    Open {
        /// The file as it was given.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The recording could not be read.
    #[error("cannot read the recording: {0}")]
    Read(#[source] io::Error),
    /// The recording could not be written, or its writing thread not started.
    #[error("cannot write the recording: {0}")]
    Write(#[source] io::Error),
    /// A line is not what it should be.
    #[error("the recording is damaged at line {line}: {what}; record it again")]
    Damaged {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A line is of a version that this program does not know.
    #[error("line {line} of the recording is of version {found}, this program reads version 1; record it again")]
    Version {
        /// The line, from 1.
        line: usize,
        /// The version found.
        found: u64,
    },
}
