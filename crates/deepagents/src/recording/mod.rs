//! Recording a whole run, and playing it back without model, tools and network.
//!
//! [`RunRecorder`] writes what a run is given, what its models are asked and answer, what its tools answer, and its
//! events, to one file as it goes. [`RunRecording`] reads it, and a [`Replay`] stands in the place of models and, unless
//! they are to be [live](Tools::Live), of tools: the agent itself works as ever. Where it asks something else than was
//! recorded, or something else happens, the replay ends with the first [`Departure`].
//!
//! ```
//! use deepagents::recording::{RunRecorder, RunRecording, Tools};
//! use deepagents::{DeepAgent, RunInput};
//! use deepagents::models::scripted::{ScriptedModel, Turn};
//!
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("run.jsonl");
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let agent = DeepAgent::builder().model(ScriptedModel::new([Turn::text("Hello!")])).build()?;
//! let recorder = RunRecorder::create(&file).await?;
//! agent.invoke(RunInput::new("Greet me.").tap(recorder.clone())).await?;
//! recorder.finish().await?;
//!
//! let recording = RunRecording::open(&file).await?;
//! let agent = DeepAgent::builder().model(recording.model()).build()?;
//! let outcome = recording.replay(Tools::Recorded).run(agent.agent()).await?;
//! assert_eq!(outcome.text(), Some("Hello!".to_owned()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is the same
//!
//! Requests are compared as the model layer sees them, without ids of messages and the time limit. Agents and calls work
//! at the same time, so events are compared agent by agent, each agent's in their order; how those of different agents
//! mingle may differ. Left out are sequence numbers, the ids of run, thread and messages, pauses before retries, and
//! `custom` events; other generated ids count as the same where they stand in the same places, and times are all the
//! same. Calls of a turn end in the order in which they ended when they were recorded.
//! Kinds of events, and fields of events, that are newer than the recording are passed over.
//!
//! # Format
//!
//! One JSON object a line, appended and flushed as things happen, so that a process that is killed leaves a recording
//! that is readable up to there; a last line that was cut off is passed over and told. Version 1:
//!
//! | `kind` | |
//! |---|---|
//! | `run_recording` | the first line: `v`, `program`, `agent`, `model`, `profile`, and `options`, which are the application's own |
//! | `input` | what a run of the thread was given; answers to questions are such an input |
//! | `request` | what a model is asked: `path` of the agent, `n` among its requests, `turn`, `aside`, `digest`; of the fields those that are not as in the request before, and `messages` after the first `kept` of that one |
//! | `answer` | of the request with this `path` and `n`: `events`, `output`, `error`, as in [recordings of models](deepagents_models::record) |
//! | `tool` | how a call ended: `call`, `name`, `outcome` |
//! | `event` | an [event](crate::Event) |
//!
//! A recording holds whole prompts and results, file contents among them, and no keys and headers: those are the model
//! client's, below what is recorded. Keep it where you would keep its contents.
//!
//! # What cannot be recorded
//!
//! A run that goes on with a thread that was there before, or from an earlier position of its own, agents that may work
//! in the background, and, when it is played, a run that was steered: each is refused with an error of its own. Values
//! for hooks and tools given with
//! [`RunInput::with`](crate::RunInput::with) are not recorded. Nor are the files that middlewares read by themselves, such
//! as those of memory and skills: the agent that plays needs the same at the same paths. The `options` of the header are a
//! place for them.

mod departure;
mod events;
mod line;
mod load;
mod progress;
mod recorder;
mod replay;
mod request;
mod stand_in;

use std::path::PathBuf;

use deepagents_models::record::RecordingError;

pub use departure::Departure;
pub use line::Header;
pub use load::{RunRecording, Standing};
pub use recorder::{RecordRefused, RunRecorder};
pub use replay::{Replay, Replayed, Tools};
pub use stand_in::StandIn;

/// Why a recording could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunRecordingError {
    /// The file could not be opened, or the recording not read or written.
    #[error(transparent)]
    File(#[from] RecordingError),
    /// It is something else.
    #[error("this is no recording of a run: {0}")]
    Foreign(String),
    /// It is of a version that this program does not know.
    #[error("the recording is of version {found}, this program reads version 1; play it with a newer program")]
    Newer {
        /// The version found.
        found: u64,
    },
    /// A line is not what it should be.
    #[error("the recording is damaged at line {line}: {what}; record it again")]
    Damaged {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// Somebody spoke to the run while it went on, which cannot be repeated.
    #[error("the run was steered while it was recorded, so it cannot be played: record it without")]
    Steered,
}

impl RunRecordingError {
    fn open(path: PathBuf, source: std::io::Error) -> Self {
        Self::File(RecordingError::Open { path, source })
    }
}
