//! Records model requests and responses.

use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use deepagents_core::forward_model;
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest};
use futures_core::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, stream};

use super::line::{AnswerLine, Line, RequestLine};
use super::{Answer, Header, LineWriter, RecordingError, Request};

/// Wraps a model and records every exchange without changing it.
///
/// An exchange is written before its last event is returned, so every response that a reader has seen end is in the
/// recording. If it cannot be written, the call fails with [`ModelError::Invalid`]. A response that is dropped early is
/// written up to that point. Writing happens on a separate thread.
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
    /// Records to a writer, flushing it after every line.
    ///
    /// # Errors
    /// Returns [`RecordingError::Write`] if the writing thread cannot be started.
    pub fn new(model: impl ChatModel, sink: impl Write + Send + 'static) -> Result<Self, RecordingError> {
        Ok(Self::with_writer(Arc::new(model), LineWriter::new(sink)?))
    }

    /// Records to a new file.
    ///
    /// # Errors
    /// Same as [`LineWriter::create`].
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
    /// Returns [`RecordingError::Write`] if any of them could not be written.
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
    forward_model!([.model]; name, profile, server, count_tokens);

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        self.recorder.stream(&Arc::default(), 0, false, self.model.clone(), request)
    }
}

/// Last request of each agent, separately for requests outside the conversation.
type LastRequests = HashMap<(Arc<[String]>, bool), Request>;

/// Writes the recording's lines for model calls.
#[derive(Debug)]
pub struct ModelRecorder {
    writer: LineWriter,
    /// Whether a call that cannot be recorded fails.
    strict: bool,
    /// Number of requests so far, by agent.
    asked: Mutex<HashMap<Arc<[String]>, u64>>,
    /// Used on the writing thread.
    last: Arc<Mutex<LastRequests>>,
}

impl ModelRecorder {
    /// Creates a recorder. If a call cannot be recorded and `strict` is set, it fails with [`ModelError::Invalid`].
    /// Otherwise it continues, and the recorder flushes all earlier lines before each model call. [`LineWriter::flush`]
    /// always reports write errors.
    pub fn new(writer: LineWriter, strict: bool) -> Self {
        Self { writer, strict, asked: Mutex::default(), last: Arc::default() }
    }

    /// Writes the first line.
    pub fn header(&self, header: Header) {
        self.writer.submit(move || Line::Recording(header));
    }

    /// Calls a model and records its request and response. `path` identifies the agent, `turn` is the number of its
    /// responses so far, and `aside` marks a request outside its conversation.
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
        // Held until here so that lines are in the order of their numbers.
        drop(asked);
        let (writer, strict) = (self.writer.clone(), self.strict);
        let events = async move {
            if !strict {
                // If the process is killed while the model works, all earlier lines are on disk. A write error does not
                // end the run.
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

/// Passes on a response, and records it when it ends or is dropped.
struct Tee {
    events: BoxStream<'static, Result<ModelEvent, ModelError>>,
    /// `None` once written.
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
