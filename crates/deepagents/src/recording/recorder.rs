//! Writes recordings of runs in progress.

use std::io::Write;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use deepagents_core::error::{Error, Result};
use deepagents_core::event::Event;
use deepagents_core::journal::RecordUpdate;
use deepagents_core::middleware::{ToolNext, ToolRequest, ToolResponse};
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest};
use deepagents_core::run::{ModelCall, RunObserver, RunStart};
use deepagents_models::recording::{Header, LineWriter, ModelRecorder, RecordingError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde_json::Value;

use super::line::{CallError, CallOutcome, CallResult, Line, ToolLine};
use crate::shared::lock;

/// Records a run and its continuations. Pass it as a [`RunObserver`] to each input. Before each model call, everything
/// so far has been written. A failed write does not end the run; [`finish`](Self::finish) reports it. See the
/// [module](super) for an example.
///
/// ```
/// use deepagents::recording::RunRecorder;
/// use deepagents::{DeepAgent, RunInput};
/// # async fn example(agent: DeepAgent) -> Result<(), Box<dyn std::error::Error>> {
/// let recorder = RunRecorder::create("run.jsonl").await?;
/// agent.invoke(RunInput::new("Go.").observer(recorder.clone())).await?;
/// recorder.finish().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RunRecorder {
    writer: LineWriter,
    models: ModelRecorder,
    options: Value,
    /// The thread of the first run, once it has started.
    begun: Mutex<Option<Option<String>>>,
}

/// An error that prevents the recording of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordRefused {
    /// The thread has a history that the recording lacks.
    #[error(
        "a recording must begin with a new thread, but this one already has a history: record a run from its beginning"
    )]
    OldThread,
    /// The recorder has recorded another run, which this one does not continue.
    #[error("a recording holds one run and its continuations on the thread: make a new one for another run")]
    AnotherRun,
    /// The run starts from an earlier position of its thread; that position would differ in a replay.
    #[error("a run that begins from an earlier position of its thread cannot be recorded: record another thread")]
    RewoundThread,
    /// Background work is not part of the run.
    #[error("what agents do in the background cannot be recorded: build the agent without `background_agents`")]
    Background,
}

impl RunRecorder {
    /// Records into a new file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created, or already exists: recordings are never overwritten.
    pub async fn create(path: impl Into<PathBuf>) -> Result<Arc<Self>, RecordingError> {
        Self::create_with(path, Value::Null).await
    }

    /// Records into a new file, with extra data in the header for the program that replays it.
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub async fn create_with(path: impl Into<PathBuf>, options: Value) -> Result<Arc<Self>, RecordingError> {
        Ok(Self::on(LineWriter::create(path).await?, options))
    }

    /// Records into a writer, which is flushed after every line.
    ///
    /// # Errors
    /// Returns an error if the writer thread cannot be started.
    pub fn new(sink: impl Write + Send + 'static, options: Value) -> Result<Arc<Self>, RecordingError> {
        Ok(Self::on(LineWriter::new(sink)?, options))
    }

    fn on(writer: LineWriter, options: Value) -> Arc<Self> {
        let models = ModelRecorder::new(writer.clone(), false);
        Arc::new(Self { models, writer, options, begun: Mutex::default() })
    }

    /// Waits until everything so far is written.
    ///
    /// # Errors
    /// Returns an error if a write failed; the recording ends there.
    pub async fn finish(&self) -> Result<(), RecordingError> {
        self.writer.flush().await
    }

    fn write(&self, line: Line<Event>) {
        self.writer.submit(move || line);
    }
}

impl RunObserver for RunRecorder {
    fn begin(&self, beginning: RunStart<'_>) -> Result<()> {
        if beginning.agent.middlewares().any(|middleware| middleware.name() == "BackgroundAgents") {
            return Err(Error::other(RecordRefused::Background));
        }
        if beginning.rewinds {
            return Err(Error::other(RecordRefused::RewoundThread));
        }
        let thread = beginning.input.thread.clone();
        let mut begun = lock(&self.begun);
        match &*begun {
            None if !beginning.fresh => return Err(Error::other(RecordRefused::OldThread)),
            None => {
                let mut header = Header::new(&**beginning.agent.model());
                header.agent = Some(beginning.agent.name().to_owned());
                header.options = self.options.clone();
                self.models.header(header);
                *begun = Some(thread);
            }
            Some(first) if thread.is_none() || *first != thread => return Err(Error::other(RecordRefused::AnotherRun)),
            Some(_) => {}
        }
        self.write(Line::Input { input: Box::new(beginning.input) });
        Ok(())
    }

    fn model(
        self: Arc<Self>,
        call: ModelCall,
        model: &Arc<dyn ChatModel>,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        self.models.stream(&call.path, call.turn, call.aside, model.clone(), request)
    }

    fn tool(self: Arc<Self>, request: ToolRequest, next: ToolNext) -> BoxFuture<'static, Result<ToolResponse>> {
        let (call, name) = (request.id().clone(), request.call.name.clone());
        Box::pin(async move {
            let ended = AssertUnwindSafe(next.run(request)).catch_unwind().await;
            let outcome = match &ended {
                Ok(Ok(response)) => CallOutcome::Result(CallResult {
                    content: response.content.clone(),
                    is_error: response.is_error,
                    is_synthetic: response.is_synthetic,
                    update: RecordUpdate::Live(response.update.clone()),
                    artifact: response.artifact.clone(),
                    decision: response.decision.clone(),
                }),
                Ok(Err(Error::Interrupted(pause))) => CallOutcome::Interrupted(pause.action_requests().to_vec()),
                Ok(Err(error)) => CallOutcome::Failed { error: failed(error) },
                Err(panic) => {
                    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                    CallOutcome::Crashed { text: text.unwrap_or_default() }
                }
            };
            self.write(Line::Tool(Box::new(ToolLine { call, name, outcome })));
            ended.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    fn event(&self, event: &Event) {
        self.write(Line::Event { event: event.clone() });
    }
}

fn failed(error: &Error) -> CallError {
    match error {
        Error::Tool { name, source } => CallError::Tool { name: name.clone(), source: source.to_string() },
        Error::Model(error) => CallError::Model(error.clone()),
        _ => CallError::Other(error.to_string()),
    }
}
