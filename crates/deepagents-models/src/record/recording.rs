//! The model that writes down what passes through it.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest};
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};

use super::RecordingError;
use super::answer::Answer;
use super::format::{Exchange, Line, fingerprint, request_json};
use super::writer::{self, LineWriter};

/// A model that writes down every exchange with the model it wraps, and changes nothing.
///
/// An exchange is written before its last event is handed on, so what a reader has seen end is in the recording; if it
/// cannot be written, the call fails with [`ModelError::Invalid`]. An exchange that is dropped half way is written as
/// far as it went. Writing happens on a thread of its own.
///
/// ```
/// use std::sync::Arc;
/// use deepagents_core::model::{ChatModel, ModelRequest};
/// use deepagents_models::record::{RecordingModel, ReplayModel};
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
    writer: LineWriter,
    next: AtomicU64,
}

impl RecordingModel {
    /// Records into a writer, which is flushed after every line.
    ///
    /// # Errors
    /// [`RecordingError::Write`] when the writing thread cannot be started.
    pub fn new(model: Arc<dyn ChatModel>, sink: impl Write + Send + 'static) -> Result<Self, RecordingError> {
        let header = Line::Recording { model: model.name().to_owned(), profile: model.profile() };
        let writer = LineWriter::start(sink)?;
        writer.submit(move || header.to_json());
        Ok(Self { writer, model, next: AtomicU64::new(0) })
    }

    /// Records into a new file.
    ///
    /// # Errors
    /// [`RecordingError::Open`] when the file cannot be created, also because it exists already: recordings are not
    /// overwritten.
    pub async fn create(model: Arc<dyn ChatModel>, path: impl Into<PathBuf>) -> Result<Self, RecordingError> {
        let file = writer::create(path.into()).await?;
        Self::new(model, file)
    }

    /// Waits until every exchange that has ended or was dropped is written.
    ///
    /// # Errors
    /// [`RecordingError::Write`] when any of them could not be.
    pub async fn flush(&self) -> Result<(), RecordingError> {
        self.writer.flush().await
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

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let seq = self.next.fetch_add(1, Ordering::Relaxed);
        let events = self.model.stream(request.clone());
        let heard = Heard { seq, request, answer: Answer::default() };
        let tape = Tape { events, heard: Some(Box::new(heard)), writer: self.writer.clone() };
        Box::pin(stream::unfold(tape, |mut tape| async move {
            let item = tape.events.next().await;
            match tape.hear(item).await {
                Ok(item) => item.map(|item| (item, tape)),
                Err(error) => Some((Err(error), tape)),
            }
        }))
    }
}

/// One call as it is heard.
struct Tape {
    events: BoxStream<'static, Result<ModelEvent, ModelError>>,
    /// `None` once it is written.
    heard: Option<Box<Heard>>,
    writer: LineWriter,
}

/// An exchange on its way to the file; the request becomes JSON on the writing thread.
struct Heard {
    seq: u64,
    request: ModelRequest,
    answer: Answer,
}

impl Heard {
    fn line(self: Box<Self>) -> Result<String, serde_json::Error> {
        let Self { seq, request, answer } = *self;
        let request = request_json(&request);
        Line::Exchange(Exchange { seq, fingerprint: fingerprint(&request), request, answer }).to_json()
    }
}

type Item = Option<Result<ModelEvent, ModelError>>;

impl Tape {
    async fn hear(&mut self, item: Item) -> Result<Item, ModelError> {
        let Some(mut heard) = self.heard.take() else { return Ok(item) };
        if heard.answer.note(item.as_ref())? {
            self.writer
                .write(move || heard.line())
                .await
                .map_err(|error| ModelError::invalid(format!("the exchange could not be recorded: {error}")))?;
        } else {
            self.heard = Some(heard);
        }
        Ok(item)
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        if let Some(heard) = self.heard.take() {
            self.writer.submit(move || heard.line());
        }
    }
}
