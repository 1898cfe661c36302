//! What a model answered.

use deepagents_core::model::{ModelError, ModelEvent, ModelOutput};
use serde::{Deserialize, Serialize};

/// What a model answered: the events as they came, and the whole answer or the failure. With neither, it broke off.
///
/// ```
/// use deepagents_core::model::ModelEvent;
/// use deepagents_models::recording::Answer;
/// let answer: Answer = serde_json::from_value(serde_json::json!({
///     "events": [{"kind": "text", "block": 0, "delta": "Hel"}],
/// }))?;
/// assert!(answer.broke_off());
/// assert!(matches!(answer.play().next(), Some(Ok(ModelEvent::Text { .. }))));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    events: Vec<ModelEvent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<Box<ModelOutput>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ModelError>,
}

impl Answer {
    /// Whether it ended without an answer and without a failure: the process or the call ended first.
    pub fn broke_off(&self) -> bool {
        self.output.is_none() && self.error.is_none()
    }

    /// The items of the model's stream, again.
    pub fn play(self) -> impl Iterator<Item = Result<ModelEvent, ModelError>> {
        let output = self.output.map(|output| Ok(ModelEvent::Finished(output)));
        self.events.into_iter().map(Ok).chain(output).chain(self.error.map(Err))
    }

    /// Adds an item of the model's stream; says whether it was the last one.
    pub(super) fn add(&mut self, item: Option<&Result<ModelEvent, ModelError>>) -> bool {
        match item {
            Some(Ok(ModelEvent::Finished(output))) => self.output = Some(output.clone()),
            Some(Ok(event)) => {
                self.events.push(event.clone());
                return false;
            }
            Some(Err(error)) => self.error = Some(error.clone()),
            None => {}
        }
        true
    }
}
