//! Writing a recording as a run goes on.

use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use deepagents_core::error::{Error, Result};
use deepagents_core::event::Event;
use deepagents_core::journal::RecordUpdate;
use deepagents_core::middleware::{ToolNext, ToolRequest, ToolResponse};
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest};
use deepagents_core::run::{Beginning, ModelCall, Tap};
use deepagents_models::record::{Failure, LineWriter, RecordingError, overhear};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde_json::Value;

use super::line::{Answered, Asked, CallOutcome, CallResult, Called, FailedCall, Header, Line, VERSION};
use super::request::{LastRequests, Request};

/// Writes down a run and whatever it goes on with; a [`Tap`] to be given to each input of it. All that was before is
/// written when a model is asked. See the
/// [module](super) for an example.
pub struct RunRecorder {
    writer: LineWriter,
    options: Value,
    progress: Mutex<Progress>,
    /// The last request of each agent, those beside the conversation apart; used on the writing thread.
    sent: Arc<Mutex<LastRequests>>,
}

#[derive(Default)]
struct Progress {
    /// The thread of the first run, once there was one.
    begun: Option<Option<String>>,
    /// Requests so far, by agent.
    asked: HashMap<Arc<[String]>, u64>,
}

/// Why a run cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordRefused {
    /// The thread has a past that the recording does not have.
    #[error("a recording begins with a new thread, and this one has a past: record a run from its beginning")]
    OldThread,
    /// The recorder has recorded a run that this one does not go on with.
    #[error("a recording holds one run and what it goes on with on its thread: make a new one for another run")]
    AnotherRun,
    /// The thread is taken back, and what is before that position is not where it was when it is played.
    #[error("a run that begins from an earlier position of its thread cannot be recorded: record another thread")]
    Rewound,
    /// What works in the background is no part of the run.
    #[error("what agents do in the background cannot be recorded: build the agent without `background_agents`")]
    Background,
}

impl RunRecorder {
    /// Records into a new file.
    ///
    /// # Errors
    /// When the file cannot be created, also because it exists already: recordings are not overwritten.
    pub async fn create(path: impl Into<PathBuf>) -> Result<Arc<Self>, RecordingError> {
        Ok(Arc::new(Self::on(LineWriter::create(path).await?, Value::Null)))
    }

    /// Records into a new file, with something in the header for whoever plays it.
    ///
    /// # Errors
    /// See [`create`](Self::create).
    pub async fn create_with(path: impl Into<PathBuf>, options: Value) -> Result<Arc<Self>, RecordingError> {
        Ok(Arc::new(Self::on(LineWriter::create(path).await?, options)))
    }

    /// Records into a writer, which is flushed after every line.
    ///
    /// # Errors
    /// When the writing thread cannot be started.
    pub fn new(sink: impl Write + Send + 'static, options: Value) -> Result<Arc<Self>, RecordingError> {
        Ok(Arc::new(Self::on(LineWriter::start(sink)?, options)))
    }

    fn on(writer: LineWriter, options: Value) -> Self {
        Self { writer, options, progress: Mutex::default(), sent: Arc::default() }
    }

    /// Waits until all is written that has happened so far.
    ///
    /// # Errors
    /// When any of it could not be; the recording ends there.
    pub async fn finish(&self) -> Result<(), RecordingError> {
        self.writer.flush().await
    }

    fn write(&self, line: Line) {
        self.writer.submit(move || line.to_json());
    }

    fn header(&self, beginning: &Beginning<'_>) -> Header {
        let model = beginning.agent.model();
        Header {
            v: VERSION,
            program: concat!("deepagents ", env!("CARGO_PKG_VERSION")).to_owned(),
            agent: beginning.agent.name().to_owned(),
            model: model.name().to_owned(),
            profile: model.profile(),
            options: self.options.clone(),
        }
    }
}

impl fmt::Debug for RunRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunRecorder").finish_non_exhaustive()
    }
}

impl Tap for RunRecorder {
    fn begin(&self, beginning: Beginning<'_>) -> Result<()> {
        if beginning.agent.middlewares().any(|middleware| middleware.name() == "BackgroundAgents") {
            return Err(Error::other(RecordRefused::Background));
        }
        if beginning.rewinds {
            return Err(Error::other(RecordRefused::Rewound));
        }
        let thread = beginning.input.thread.clone();
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match &progress.begun {
            None if !beginning.fresh => return Err(Error::other(RecordRefused::OldThread)),
            None => {
                self.write(Line::RunRecording(Box::new(self.header(&beginning))));
                progress.begun = Some(thread);
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
        let n = {
            let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            let asked = progress.asked.entry(call.path.clone()).or_default();
            *asked += 1;
            *asked - 1
        };
        let (model, asked) = (model.clone(), request.clone());
        let (path, sent) = (call.path.to_vec(), self.sent.clone());
        self.writer.submit(move || {
            let request = Request::of(&request);
            let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (path.clone(), call.aside);
            let delta = request.after(sent.get(&key));
            let asked = Asked { path, n, turn: call.turn, aside: call.aside, digest: request.digest(), delta };
            sent.insert(key, request);
            Line::Request(Box::new(asked)).to_json()
        });
        let written = self.writer.clone();
        let events = async move {
            // A process that is killed while the model works leaves all that was before. What cannot be written is told by
            // `finish`: it is no reason to end the run.
            let _ = written.flush().await;
            model.stream(asked)
        };
        let (path, writer) = (call.path.to_vec(), self.writer.clone());
        overhear(Box::pin(events.flatten_stream()), move |answer| {
            writer.submit(move || Line::Answer(Box::new(Answered { path, n, answer })).to_json());
        })
    }

    fn tool(self: Arc<Self>, request: ToolRequest, next: ToolNext) -> BoxFuture<'static, Result<ToolResponse>> {
        let (call, name) = (request.id().clone(), request.call.name.clone());
        Box::pin(async move {
            let ended = AssertUnwindSafe(next.run(request)).catch_unwind().await;
            let outcome = match &ended {
                Ok(Ok(response)) => CallOutcome::Result(CallResult {
                    content: response.content.clone(),
                    is_error: response.is_error,
                    update: RecordUpdate::Live(response.update.clone()),
                    artifact: response.artifact.clone(),
                }),
                Ok(Err(Error::Paused(pause))) => CallOutcome::Asked(pause.questions().to_vec()),
                Ok(Err(error)) => CallOutcome::Failed { error: failed(error) },
                Err(panic) => {
                    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                    CallOutcome::Crashed { text: text.unwrap_or_default() }
                }
            };
            self.write(Line::Tool(Box::new(Called { call, name, outcome })));
            ended.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    fn event(&self, event: &Event) {
        let event = event.clone();
        self.writer.submit(move || Line::Event { event: serde_json::to_value(event)? }.to_json());
    }
}

fn failed(error: &Error) -> FailedCall {
    match error {
        Error::Tool { name, source } => FailedCall::Tool { name: name.clone(), source: source.to_string() },
        Error::Model(failure) => {
            Failure::of(failure).map_or_else(|| FailedCall::Other(error.to_string()), FailedCall::Model)
        }
        _ => FailedCall::Other(error.to_string()),
    }
}
