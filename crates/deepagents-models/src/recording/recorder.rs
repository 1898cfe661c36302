//! Writing down what models are asked and answer.

use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest, ModelServer};
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, stream};

use super::line::{AnswerLine, Line, RequestLine};
use super::{Answer, Header, LineWriter, RecordingError, Request};

/// A model that writes down every exchange with the model it wraps, and changes nothing.
///
/// An exchange is written before its last event is handed on, so what a reader has seen end is in the recording; if it
/// cannot be written, the call fails with [`ModelError::Invalid`]. An answer that is dropped half way is written as far as
/// it went. Writing happens on a thread of its own.
///
/// ```
/// use std::sync::Arc;
/// use deepagents_core::model::{ChatModel, ModelRequest};
/// use deepagents_models::recording::{RecordingModel, ReplayModel};
/// use deepagents_models::scripted::{ScriptedModel, Turn};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("hello.jsonl");
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let model = Arc::new(ScriptedModel::new([Turn::text("Hello!")]));
/// let recording = RecordingModel::create(model, &path).await?;
/// recording.invoke(ModelRequest::new("hi")).await?;
///
/// let replay = ReplayModel::open(&path).await?;
/// assert_eq!(replay.invoke(ModelRequest::new("hi")).await?.message.text(), "Hello!");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RecordingModel {
    model: Arc<dyn ChatModel>,
    recorder: ModelRecorder,
}

impl RecordingModel {
    /// Records into a writer, which is flushed after every line.
    ///
    /// # Errors
    /// [`RecordingError::Write`] when the writing thread cannot be started.
    pub fn new(model: impl ChatModel, sink: impl Write + Send + 'static) -> Result<Self, RecordingError> {
        Ok(Self::with_writer(Arc::new(model), LineWriter::new(sink)?))
    }

    /// Records into a new file.
    ///
    /// # Errors
    /// As [`LineWriter::create`].
    pub async fn create(model: impl ChatModel, path: impl Into<PathBuf>) -> Result<Self, RecordingError> {
        Ok(Self::with_writer(Arc::new(model), LineWriter::create(path).await?))
    }

    fn with_writer(model: Arc<dyn ChatModel>, writer: LineWriter) -> Self {
        let recorder = ModelRecorder::new(writer, true);
        recorder.header(Header::new(&*model));
        Self { model, recorder }
    }

    /// Waits until every exchange that has ended or was dropped is written.
    ///
    /// # Errors
    /// [`RecordingError::Write`] when any of them could not be.
    pub async fn flush(&self) -> Result<(), RecordingError> {
        self.recorder.writer.flush().await
    }
}

impl fmt::Debug for RecordingModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingModel").field("model", &self.model.name()).finish_non_exhaustive()
    }
}

impl ChatModel for RecordingModel {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn profile(&self) -> ModelProfile {
        self.model.profile()
    }

    fn server(&self) -> Option<ModelServer> {
        self.model.server()
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'static, Result<Option<u64>, ModelError>> {
        self.model.count_tokens(request)
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        self.recorder.stream(&Arc::default(), 0, false, self.model.clone(), request)
    }
}

/// The last request of each agent, those beside the conversation apart.
type LastRequests = HashMap<(Arc<[String]>, bool), Request>;

/// Writes the lines of model calls.
#[derive(Debug)]
pub struct ModelRecorder {
    writer: LineWriter,
    /// Whether a call fails that cannot be written.
    strict: bool,
    /// Requests so far, by agent.
    asked: Mutex<HashMap<Arc<[String]>, u64>>,
    /// Used on the writing thread.
    last: Arc<Mutex<LastRequests>>,
}

impl ModelRecorder {
    /// Writes with a writer. Where a call cannot be written it fails with [`ModelError::Invalid`] if `strict` is true;
    /// otherwise it goes on, and all that was before is written when a model is asked. [`LineWriter::flush`] tells what could
    /// not be written in any case.
    pub fn new(writer: LineWriter, strict: bool) -> Self {
        Self { writer, strict, asked: Mutex::default(), last: Arc::default() }
    }

    /// Writes the first line.
    pub fn header(&self, header: Header) {
        self.writer.submit(move || Line::Recording(header));
    }

    /// Asks a model and records what it is asked and answers. `path` is that of the agent, `turn` the count of its
    /// answers, `aside` is true for a request beside its conversation.
    pub fn stream(
        &self,
        path: &Arc<[String]>,
        turn: u32,
        aside: bool,
        model: Arc<dyn ChatModel>,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let (key, last, recorded) = ((path.clone(), aside), self.last.clone(), request.clone());
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let next = asked.entry(path.clone()).or_default();
        let n = *next;
        *next += 1;
        self.writer.submit(move || {
            let request = Request::from(&recorded);
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            let (kept, messages, fields) = request.after(last.get(&key));
            let (path, digest) = (key.0.to_vec(), request.digest().to_owned());
            last.insert(key, request);
            Line::Request(RequestLine { path, n, turn, aside, digest, kept, messages, fields })
        });
        // Until here, so that lines are in the order of their numbers.
        drop(asked);
        let (writer, strict) = (self.writer.clone(), self.strict);
        let events = async move {
            if !strict {
                // A process that is killed while the model works leaves all that was before. What cannot be written is no
                // reason to end a run.
                let _ = writer.flush().await;
            }
            model.stream(request)
        };
        let answer = Some(AnswerLine { path: path.to_vec(), n, answer: Answer::default() });
        let tee = Tee { events: events.flatten_stream().boxed(), answer, writer: self.writer.clone(), strict };
        stream::unfold(tee, |mut tee| async move { tee.next().await.map(|item| (item, tee)) }).boxed()
    }
}

fn not_recorded(error: &RecordingError) -> ModelError {
    ModelError::invalid(format!("the exchange could not be recorded: {error}"))
}

/// Hands on an answer and writes it down once it has ended or its reader has dropped it.
struct Tee {
    events: BoxStream<'static, Result<ModelEvent, ModelError>>,
    /// `None` once it is written.
    answer: Option<AnswerLine>,
    writer: LineWriter,
    strict: bool,
}

impl Tee {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        let item = self.events.next().await;
        if !self.answer.as_mut().is_some_and(|line| line.answer.add(item.as_ref())) {
            return item;
        }
        self.write();
        if self.strict
            && let Err(error) = self.writer.flush().await
        {
            return Some(Err(not_recorded(&error)));
        }
        item
    }

    fn write(&mut self) {
        if let Some(line) = self.answer.take() {
            self.writer.submit(move || Line::Answer(line));
        }
    }
}

impl Drop for Tee {
    fn drop(&mut self) {
        self.write();
    }
}
