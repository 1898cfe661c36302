//! Tests based on recorded runs.

use std::path::PathBuf;

use deepagents::recording::{Divergence, PlaceholderModel, RecordingError, Replayed, RunRecording, Tools};
use deepagents::{BuildError, DeepAgent};

/// Why a recorded run was not replayed to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotReplayed {
    /// The recording could not be read.
    #[error(transparent)]
    Recording(RecordingError),
    /// The agent could not be built.
    #[error(transparent)]
    Build(BuildError),
    /// The agent diverged from the recording; this is the first difference.
    #[error("the replay diverges from the recording: {0}")]
    Divergence(#[source] Divergence),
}

/// Replays a recorded run with an agent built on the placeholder of its model, and fails if a model request or another
/// event differs from the recording.
///
/// With [`Tools::Recorded`] no tool runs. With [`Tools::Live`] the tools run and must produce what they produced then.
/// If the run had a thread, the agent needs a journal of its own, such as a new `MemoryJournal`.
///
/// ```
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// use deepagents::recording::{RunRecorder, Tools};
/// use deepagents::{DeepAgent, RunInput};
/// use deepagents_testing::replays::replays;
///
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("greeting.jsonl");
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let agent = DeepAgent::builder().model(ScriptedModel::new([Turn::text("Hello!")])).build()?;
/// # let recorder = RunRecorder::create(&file).await?;
/// # agent.invoke(RunInput::new("Greet me.").observer(recorder.clone())).await?;
/// # recorder.finish().await?;
/// let replayed = replays(&file, Tools::Recorded, |model| DeepAgent::builder().model(model).build()).await?;
/// assert_eq!(replayed.text(), Some("Hello!".to_owned()));
///
/// let build = |model| DeepAgent::builder().model(model).system_prompt("Be brief.").build();
/// let diverged = replays(&file, Tools::Recorded, build).await.unwrap_err();
/// assert!(diverged.to_string().contains("turn 0 of main: the request differs at system[0].text"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns an error if the recording cannot be read, the agent cannot be built, or the replay diverges.
pub async fn replays(
    file: impl Into<PathBuf>,
    tools: Tools,
    build: impl FnOnce(PlaceholderModel) -> Result<DeepAgent, BuildError>,
) -> Result<Replayed, NotReplayed> {
    let recording = RunRecording::open(file).await.map_err(NotReplayed::Recording)?;
    let agent = build(recording.model()).map_err(NotReplayed::Build)?;
    recording.replay(tools).run(&agent).await.map_err(NotReplayed::Divergence)
}
