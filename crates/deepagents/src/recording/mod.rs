//! Records a whole run and replays it without model, tools and network.
//!
//! [`RunRecorder`] writes the input of a run, its model requests and answers, the results of its tools, and its events
//! to one file as they happen. [`RunRecording`] reads the file. A [`Replay`] takes the place of the models and, unless
//! they are [live](Tools::Live), of the tools; the agent itself runs as usual. If a request or an event differs from
//! the recording, the replay ends with the first [`Divergence`].
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
//! agent.invoke(RunInput::new("Greet me.").observer(recorder.clone())).await?;
//! recorder.finish().await?;
//!
//! let recording = RunRecording::open(&file).await?;
//! let agent = DeepAgent::builder().model(recording.model()).build()?;
//! let outcome = recording.replay(Tools::Recorded).run(&agent).await?;
//! assert_eq!(outcome.text(), Some("Hello!".to_owned()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is compared
//!
//! Requests are compared as the model layer sees them, without message ids and the time limit. Agents and calls run
//! concurrently, so the events of each agent are compared in their order; the interleaving of different agents may
//! differ. Not compared are sequence numbers, the ids of run, thread and messages, retry delays, and `custom` events.
//! Other generated ids are equal if they occur in the same places, and all times are equal. The calls of a turn end in
//! the order in which they ended in the recording. Event types and fields that are newer than the recording are
//! ignored.
//!
//! # Format
//!
//! The format of [recordings of models](deepagents_models::recording), with three more kinds of lines. Lines are
//! appended and flushed as things happen, so the recording of a killed process is readable up to that point. A
//! truncated last line is skipped and reported.
//!
//! | `kind` | |
//! |---|---|
//! | `input` | the input of a run of the thread, such as the answers to questions |
//! | `tool` | the outcome of a call: `call`, `name`, `outcome` |
//! | `event` | an [event](crate::Event) |
//!
//! A recording holds complete prompts and results, including file contents, but no keys and headers, which belong to
//! the model client below the recorded layer. Protect it as you would its contents.
//!
//! # What cannot be recorded
//!
//! The following are rejected with an error: a run on a thread that existed before, a run from an earlier position of
//! its thread, agents that may work in the background, and, on replay, a run that was steered.
//!
//! Values for hooks and tools given with [`RunInput::with`](crate::RunInput::with) are not recorded. Nor are files that
//! middlewares read themselves, such as memory and skills: the replaying agent needs the same files at the same paths.
//! The `options` of the header can hold such data.

mod divergence;
mod events;
mod expected;
mod line;
mod playback;
mod reader;
mod recorder;
mod replay;

pub use divergence::Divergence;
pub use reader::{Completeness, PlaceholderModel, RunRecording};
pub use recorder::{RecordRefused, RunRecorder};
pub use replay::{Replay, Replayed, Tools};

pub use deepagents_models::recording::{Header, RecordingError};
