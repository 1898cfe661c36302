//! The rest of the stack around a model call, as a wrap hook receives it.

use std::sync::Arc;

use futures_core::future::BoxFuture;

use super::Stack;
use super::wrapped::wrap;
use crate::context::Context;
use crate::error::Result;
use crate::model::{ChatModel, ModelOutput, ModelRequest};
use crate::panics::blamed;
use crate::state::Update;

/// The result of a model call.
///
/// ```
/// use deepagents_core::message::{AssistantMessage, Block};
/// use deepagents_core::middleware::{ModelResponse, wrap_model_call};
/// use deepagents_core::model::ModelOutput;
/// /// Answers in the model's place.
/// let canned = wrap_model_call(|_request, _next| async {
///     let message = AssistantMessage::new(vec![Block::text("Ask me tomorrow.")]);
///     Ok(ModelResponse::from(ModelOutput { message, ..ModelOutput::default() }))
/// });
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ModelResponse {
    /// The model's output.
    pub output: ModelOutput,
    /// State changes in addition to the answer. A wrap hook that discards the response discards its update too. For
    /// changes that must survive whatever happens to the call, use [`Context::queue_update`].
    pub update: Update,
    /// The attempt that produced the answer, or `None` if no model produced it.
    pub(crate) attempt: Option<u32>,
}

impl ModelResponse {
    /// Adds state changes.
    #[must_use]
    pub fn with_update(mut self, update: Update) -> Self {
        self.update = self.update.and(update);
        self
    }
}

impl From<ModelOutput> for ModelResponse {
    fn from(output: ModelOutput) -> Self {
        Self { output, ..Self::default() }
    }
}

/// The rest of the stack around a model call, down to the model. It is owned and `Clone`: it can be run zero, one or
/// many times, raced, or moved into a task.
///
/// ```
/// use deepagents_core::middleware::wrap_model_call;
/// /// Tells how long every model call takes.
/// let timed = wrap_model_call(|request, next| async move {
///     let started = next.cx().clock().now();
///     let answer = next.run(request).await;
///     next.cx().custom("model_seconds", (next.cx().clock().now() - started).get_seconds().into());
///     answer
/// });
/// ```
#[derive(Clone)]
pub struct ModelNext {
    stack: Stack,
    at: usize,
    model: Arc<dyn ChatModel>,
    /// Layers around the model that is finally called, outermost first.
    layers: Vec<Arc<ModelLayer>>,
    cx: Context,
}

/// Wraps a model in another.
type ModelLayer = dyn Fn(Arc<dyn ChatModel>) -> Arc<dyn ChatModel> + Send + Sync;

impl ModelNext {
    /// Creates a call of the model alone, without a stack, for tests of wrap hooks.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deepagents_core::error::Result;
    /// use deepagents_core::middleware::{Middleware, ModelNext, ModelResponse};
    /// use deepagents_core::model::{ModelRequest, NoModel};
    /// use deepagents_core::run::ContextBuilder;
    ///
    /// /// Names the model in the error of a call that fails.
    /// struct Named;
    ///
    /// impl Middleware for Named {
    ///     fn name(&self) -> &str { "Named" }
    ///     async fn wrap_model_call(&self, request: ModelRequest, next: ModelNext) -> Result<ModelResponse> {
    ///         let named = |error| deepagents_core::error::Error::other(format!("{}: {error}", next.model().name()));
    ///         next.run(request).await.map_err(named)
    ///     }
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let next = ModelNext::new(Arc::new(NoModel), ContextBuilder::new().build());
    /// let error = Named.wrap_model_call(ModelRequest::new("Hello"), next).await.unwrap_err();
    /// assert!(error.to_string().starts_with("none: "));
    /// # });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(model: Arc<dyn ChatModel>, cx: Context) -> Self {
        Self::around(Arc::from([]), model, cx)
    }

    /// Creates a call of the model with a stack around it.
    pub(crate) fn around(stack: Stack, model: Arc<dyn ChatModel>, cx: Context) -> Self {
        Self { stack, at: 0, model, layers: Vec::new(), cx }
    }

    /// Returns the run's context.
    pub fn cx(&self) -> &Context {
        &self.cx
    }

    /// Returns the model that will be called.
    pub fn model(&self) -> &Arc<dyn ChatModel> {
        &self.model
    }

    /// Returns a copy that calls another model.
    #[must_use]
    pub fn with_model(&self, model: Arc<dyn ChatModel>) -> Self {
        Self { model, ..self.clone() }
    }

    /// Returns a copy with a layer around whichever model is finally called. A layer sees and can change the pieces of
    /// an answer as they are streamed, before any subscriber receives them.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deepagents_core::forward_model;
    /// use deepagents_core::middleware::wrap_model_call;
    /// use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest};
    /// use futures_core::stream::BoxStream;
    /// use futures_util::StreamExt;
    ///
    /// /// Says everything loudly.
    /// struct Loud(Arc<dyn ChatModel>);
    ///
    /// impl ChatModel for Loud {
    ///     forward_model!([.0]; name, profile, server, count_tokens);
    ///     fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    ///         let louder = |event| match event {
    ///             Ok(ModelEvent::Text { block, delta }) => Ok(ModelEvent::Text { block, delta: delta.to_uppercase() }),
    ///             other => other,
    ///         };
    ///         self.0.stream(request).map(louder).boxed()
    ///     }
    /// }
    ///
    /// let loud = wrap_model_call(|request, next| async move {
    ///     next.layered(|model| Arc::new(Loud(model))).run(request).await
    /// });
    /// ```
    #[must_use]
    pub fn layered(&self, layer: impl Fn(Arc<dyn ChatModel>) -> Arc<dyn ChatModel> + Send + Sync + 'static) -> Self {
        let mut next = self.clone();
        next.layers.push(Arc::new(layer));
        next
    }

    /// Makes the call.
    pub fn run(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelResponse>> {
        // A future reserves space for everything that moves through it, and there is one per middleware. The arguments
        // are boxed so that waiting futures stay small.
        let mut next = self.clone();
        let outermost = self.at == 0;
        let Some(middleware) = self.stack.get(self.at).cloned() else {
            let mut request = Box::new(request);
            return Box::pin(async move {
                let model = next.layers.iter().rev().fold(next.model, |model, layer| layer(model));
                if let Some(format) = next.cx.format() {
                    format.fit(&mut request, &model.profile());
                }
                let call = crate::context::call_model(&next.cx, &model, request);
                let (output, attempt) = blamed(call, outermost, || Some(format!("the model {}", model.name()))).await?;
                Ok(ModelResponse { output, update: Update::none(), attempt: Some(attempt) })
            });
        };
        next.at += 1;
        let begin = Box::new((request, next));
        Box::pin(async move {
            let call = async {
                let call = {
                    let begin = begin;
                    let (request, next) = *begin;
                    middleware.wrap_model_call(request, next)
                };
                call.await
            };
            wrap(&*middleware, "wrap_model_call", outermost, call).await
        })
    }
}

impl std::fmt::Debug for ModelNext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelNext").field("model", &self.model.name()).field("at", &self.at).finish_non_exhaustive()
    }
}
