//! What a model answered.

use deepagents_core::model::{ModelError, ModelEvent, ModelOutput};
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use super::format::{ErrorRecord, EventRecord};

/// What a model answered: the pieces as they came, and the whole answer or the failure. With neither, it broke off.
///
/// As JSON an object of `events`, `output` and `error`, see the [module](super).
///
/// ```
/// use deepagents_core::model::ModelEvent;
/// use deepagents_models::record::Answer;
/// let answer: Answer = serde_json::from_value(serde_json::json!({
///     "events": [{"kind": "text", "block": 0, "delta": "Hel"}],
/// }))?;
/// assert!(answer.broke_off());
/// assert!(matches!(answer.play().next(), Some(Ok(ModelEvent::Text { .. }))));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    events: Vec<EventRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<Box<ModelOutput>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorRecord>,
}

/// A failure of a model as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Failure(ErrorRecord);

impl Failure {
    /// The failure as data; nothing for a kind that the recorder does not know.
    pub fn of(error: &ModelError) -> Option<Self> {
        ErrorRecord::of(error).ok().map(Self)
    }

    /// The failure again.
    pub fn into_error(self) -> ModelError {
        self.0.into_error()
    }
}

impl Answer {
    /// The beginning of an answer of which only these pieces are known.
    ///
    /// # Errors
    /// When one of them is no piece.
    pub fn begun(pieces: impl IntoIterator<Item = ModelEvent>) -> Result<Self, ModelError> {
        let events = pieces.into_iter().map(|piece| EventRecord::of(&piece)).collect::<Result<_, _>>()?;
        Ok(Self { events, ..Self::default() })
    }

    /// Whether it ended without an answer and without a failure: the process or the call ended first.
    pub fn broke_off(&self) -> bool {
        self.output.is_none() && self.error.is_none()
    }

    /// What the model says, again.
    pub fn play(self) -> impl Iterator<Item = Result<ModelEvent, ModelError>> {
        let events = self.events.into_iter().map(|event| Ok(event.into_event()));
        let output = self.output.map(|output| Ok(ModelEvent::Finished(output)));
        let error = self.error.map(|error| Err(error.into_error()));
        events.chain(output).chain(error)
    }

    /// Notes what was heard, and says whether it was the last of it.
    pub(super) fn note(&mut self, item: Option<&Result<ModelEvent, ModelError>>) -> Result<bool, ModelError> {
        match item {
            Some(Ok(ModelEvent::Finished(output))) => self.output = Some(output.clone()),
            Some(Ok(event)) => {
                self.events.push(EventRecord::of(event)?);
                return Ok(false);
            }
            Some(Err(error)) => self.error = Some(ErrorRecord::of(error)?),
            None => {}
        }
        Ok(true)
    }
}

/// Hands on what a model says and tells, once it has ended or its reader has dropped it, what was said.
pub fn overhear(
    events: BoxStream<'static, Result<ModelEvent, ModelError>>,
    tell: impl FnOnce(Answer) + Send + 'static,
) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    let ear = Ear { events, heard: Some((Answer::default(), tell)) };
    Box::pin(stream::unfold(ear, |mut ear| async move {
        let item = ear.events.next().await;
        if let Some((mut answer, tell)) = ear.heard.take() {
            match answer.note(item.as_ref()) {
                Ok(true) => tell(answer),
                Ok(false) => ear.heard = Some((answer, tell)),
                Err(error) => return Some((Err(error), ear)),
            }
        }
        item.map(|item| (item, ear))
    }))
}

struct Ear<F: FnOnce(Answer)> {
    events: BoxStream<'static, Result<ModelEvent, ModelError>>,
    /// `None` once it is told.
    heard: Option<(Answer, F)>,
}

impl<F: FnOnce(Answer)> Drop for Ear<F> {
    fn drop(&mut self) {
        if let Some((answer, tell)) = self.heard.take() {
            tell(answer);
        }
    }
}
