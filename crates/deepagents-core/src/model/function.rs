//! Closures as models.

use std::future::Future;

use futures_core::stream::BoxStream;
use futures_util::stream;

use super::{ChatModel, ModelError, ModelEvent, ModelOutput, ModelRequest};

struct ClosureModel<F> {
    name: String,
    answer: F,
}

/// Creates a model from a closure that returns each answer as a whole: a text, an
/// [`AssistantMessage`](crate::message::AssistantMessage), or a [`ModelOutput`] with the tokens used. A model that
/// streams its answers, or knows its [profile](ChatModel::profile), is a type that implements [`ChatModel`].
///
/// ```
/// use deepagents_core::agent::Agent;
/// use deepagents_core::model::{ModelRequest, model_fn};
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let parrot = model_fn("house:parrot", |request: ModelRequest| async move {
///     Ok(request.messages.last().map(|message| message.text()).unwrap_or_default())
/// });
/// let agent = Agent::builder(parrot).build()?;
/// assert_eq!(agent.invoke("Hello.").await?.text(), "Hello.");
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
pub fn model_fn<F, Fut, O>(name: impl Into<String>, answer: F) -> impl ChatModel
where
    F: Fn(ModelRequest) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ModelError>> + Send + 'static,
    O: Into<ModelOutput> + 'static,
{
    ClosureModel { name: name.into(), answer }
}

impl<F, Fut, O> ChatModel for ClosureModel<F>
where
    F: Fn(ModelRequest) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ModelError>> + Send + 'static,
    O: Into<ModelOutput> + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let answer = (self.answer)(request);
        Box::pin(stream::once(async move { Ok(ModelEvent::Finished(Box::new(answer.await?.into()))) }))
    }
}
