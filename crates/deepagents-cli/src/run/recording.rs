//! Recording and replaying a run.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use deepagents::core::run::RunObserver;
use deepagents::recording::{Completeness, RecordingError, Replay, RunRecorder};
use deepagents::{Event, FinishReason, RunInput};

use super::exit_status::{self, RunContext};
use crate::exit::{Exit, WrongUsage};
use crate::render::{Ending, Renderer};

/// Whether a run is recorded or replayed.
#[derive(Clone, Debug, Default)]
pub(crate) enum Recording {
    /// Neither.
    #[default]
    None,
    /// It is recorded.
    Record(Arc<RunRecorder>),
    /// It is replayed.
    Replay(Arc<Replay>),
}

impl Recording {
    /// Starts a recording with the options needed to rebuild the agent.
    pub(super) async fn record(file: &Path, options: serde_json::Value) -> Result<Self> {
        let shown = file.display();
        let recorder = RunRecorder::create_with(file, options).await.map_err(|error| match error {
            RecordingError::Open { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                WrongUsage::new(format!("`{shown}` exists already and is not overwritten; give --record another file"))
                    .into()
            }
            RecordingError::Open { source, .. } => {
                WrongUsage::new(format!("the recording `{shown}` cannot be created: {source}")).into()
            }
            other => anyhow!("{other}"),
        })?;
        Ok(Self::Record(recorder))
    }

    /// Adds the recorder or the replay to the input of a run.
    pub(super) fn attach(&self, input: RunInput) -> RunInput {
        let observer: Arc<dyn RunObserver> = match self {
            Self::None => return input,
            Self::Record(recorder) => recorder.clone(),
            Self::Replay(replay) => replay.clone(),
        };
        input.observer(observer)
    }

    /// Waits until everything is written.
    pub(super) async fn finish(&self) -> Result<(), RecordingError> {
        match self {
            Self::Record(recorder) => recorder.finish().await,
            Self::None | Self::Replay(_) => Ok(()),
        }
    }

    /// Returns the exit code, and a message unless everything is done.
    pub(super) fn exit_status(&self, ending: &Ending, limits: &RunContext) -> (Exit, Option<String>) {
        let Self::Replay(replay) = self else { return exit_status::from_ending(ending, limits) };
        if let Err(divergence) = replay.finish() {
            return (Exit::Failed, Some(format!("the replay diverges from the recording: {divergence}")));
        }
        match replay.recording().completeness() {
            Completeness::Halted(FinishReason::Deadline) => {
                (Exit::TimeUp, Some("the recorded run reached its time limit here".to_owned()))
            }
            Completeness::Halted(_) => (Exit::Interrupted, Some("the recorded run was interrupted here".to_owned())),
            Completeness::Unfinished => {
                (Exit::Failed, Some("the recording ends here, before its run ended".to_owned()))
            }
            _ => exit_status::from_ending(ending, limits),
        }
    }
}

/// Shows a replay as the recorded run was shown: events caused only by the end of the recording are left out, and the
/// end is that of the recording.
pub(super) struct Played<'a> {
    pub(super) replay: &'a Replay,
    pub(super) renderer: &'a mut dyn Renderer,
}

impl Renderer for Played<'_> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        if self.replay.has(event) { self.renderer.event(event) } else { Ok(()) }
    }

    fn notice(&mut self, text: &str) -> io::Result<()> {
        self.renderer.notice(text)
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        if self.replay.divergence().is_none() {
            for event in self.replay.unplayed() {
                self.renderer.event(&event)?;
            }
        }
        self.renderer.end(ending)
    }
}
