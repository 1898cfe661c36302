//! A model whose text streams slowly enough to follow.

use std::time::Duration;

use deepagents::core::model::ModelEvent;
use deepagents::{ChatModel, ModelError, ModelRequest, forward_model};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;

/// Wraps a model, pausing after each piece of text.
#[derive(Debug)]
pub(super) struct Paced<M> {
    pub(super) model: M,
    pub(super) pause: Duration,
}

impl<M: ChatModel> ChatModel for Paced<M> {
    forward_model!([.model]; name, profile, server, count_tokens);

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let pause = self.pause;
        let paced = self.model.stream(request).then(move |event| async move {
            if !pause.is_zero() && matches!(event, Ok(ModelEvent::Text { .. })) {
                tokio::time::sleep(pause).await;
            }
            event
        });
        Box::pin(paced)
    }
}
