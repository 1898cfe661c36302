//! The model that an agent is built with to be replayed.

use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest};
use futures_util::stream::{self, BoxStream};

/// Has the name and profile of the recorded model, so that an agent is built for it as it was. It answers only through a
/// [`Replay`](super::Replay).
#[derive(Clone, Debug)]
pub struct StandIn {
    pub(super) name: String,
    pub(super) profile: ModelProfile,
}

impl ChatModel for StandIn {
    fn name(&self) -> &str {
        &self.name
    }

    fn profile(&self) -> ModelProfile {
        self.profile.clone()
    }

    fn stream(&self, _request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let what = "the stand-in for a recorded model answers in a replay only; give the run its tap";
        Box::pin(stream::iter([Err(ModelError::invalid(what))]))
    }
}
