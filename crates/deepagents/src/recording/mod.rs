//! Recording a whole run, and playing it back without model, tools and network.
//!
//! [`RunRecorder`] writes what a run is given, what its models are asked and answer, what its tools answer, and its
//! events, to one file as it goes. [`RunRecording`] reads it, and a [`Replay`] stands in the place of models and, unless
//! they are to be [live](Tools::Live), of tools: the agent itself works as ever. Where it asks something else than was
//! recorded, or something else happens, the replay ends with the first [`Divergence`].
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
//! That of [recordings of models](deepagents_models::recording), with three more kinds of lines. Lines are appended and
//! flushed as things happen, so that a process that is killed leaves a recording that is readable up to there; a last line
//! that was cut off is passed over and told.
//!
//! | `kind` | |
//! |---|---|
//! | `input` | what a run of the thread was given; answers to questions are such an input |
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
