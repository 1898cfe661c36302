//! A recorded response.

use deepagents_core::model::{ModelError, ModelEvent, ModelOutput};
use serde::{Deserialize, Serialize};

/// A model's response: its events, and the complete output or the error. With neither, it broke off.
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
    /// Returns whether it ended without output or error, because the process or the call ended first.
    pub fn broke_off(&self) -> bool {
        self.output.is_none() && self.error.is_none()
    }

    /// Replays the items of the model's stream.
    pub fn play(self) -> impl Iterator<Item = Result<ModelEvent, ModelError>> {
        let output = self.output.map(|output| Ok(ModelEvent::Finished(output)));
        self.events.into_iter().map(Ok).chain(output).chain(self.error.map(Err))
    }

    /// Adds an item of the model's stream. Returns whether it was the last.
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
