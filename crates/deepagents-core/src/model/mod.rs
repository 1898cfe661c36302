//! Chat models: requests, streamed events and errors.

mod error;
mod event;
mod forward;
mod function;
mod none;
mod profile;
mod provider_tool;
mod request;
mod server;
mod system;
mod tool_spec;

use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::StreamExt;

pub use error::{ErrorInfo, ModelError};
pub use event::{ModelEvent, ModelOutput, StopReason};
pub use function::model_fn;
pub use none::NoModel;
pub use profile::{ModelProfile, Price, PriceTier};
pub use provider_tool::ProviderTool;
pub use request::{CacheMarks, CacheTtl, ModelRequest, ModelSettings, OutputSchema, ToolChoice};
pub use server::ModelServer;
pub use system::SystemBlock;
pub use tool_spec::ToolSpec;

use crate::forward_model;

/// A language model.
///
/// [`stream`](Self::stream) is the only method to implement besides the name. [`invoke`](Self::invoke) drains the
/// stream, so the two cannot disagree. The model handles retries, time limits and rate limits itself: an error from the
/// stream is final. A model that wraps another one forwards the methods that it does not change with
/// [`forward_model!`](crate::forward_model).
///
/// ```
/// use deepagents_core::message::{AssistantMessage, Block};
/// use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelOutput, ModelRequest};
/// use futures_core::stream::BoxStream;
///
/// /// Repeats what it is told.
/// struct Parrot;
///
/// impl ChatModel for Parrot {
///     fn name(&self) -> &str { "test:parrot" }
///     fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
///         let said = request.messages.last().map(|message| message.text()).unwrap_or_default();
///         let message = AssistantMessage::new(vec![Block::text(said)]);
///         let output = ModelOutput { message, ..ModelOutput::default() };
///         Box::pin(futures_util::stream::iter([Ok(ModelEvent::Finished(Box::new(output)))]))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a model",
    note = "a model is made by its name with `Registry::model(\"provider:model\")`, from a closure with `model_fn`, or is \
            a type that implements `ChatModel`"
)]
pub trait ChatModel: Send + Sync + 'static {
    /// Returns the name as `provider:model`, for example `anthropic:claude-sonnet-4-5`.
    fn name(&self) -> &str;

    /// Returns the model's capabilities and limits.
    fn profile(&self) -> ModelProfile {
        ModelProfile::default()
    }

    /// Answers a request. The stream ends after [`ModelEvent::Finished`] or an error. Dropping it cancels the call.
    ///
    /// A stream that ends without either is an error to its reader ([`ModelError::Truncated`]).
    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>>;

    /// Returns the server that requests are sent to, for traces, or `None` (the default) if there is none or it is not
    /// known.
    fn server(&self) -> Option<ModelServer> {
        None
    }

    /// Asks the provider to count the input tokens of a request. Returns `None` (the default) if the provider has no
    /// endpoint for this. This makes a request of its own, which is not retried.
    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'static, Result<Option<u64>, ModelError>> {
        let _ = request;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Answers a request without streaming.
    fn invoke(&self, request: ModelRequest) -> BoxFuture<'static, Result<ModelOutput, ModelError>> {
        let mut events = self.stream(request);
        Box::pin(async move {
            while let Some(event) = events.next().await {
                if let ModelEvent::Finished(output) = event? {
                    return Ok(*output);
                }
            }
            Err(ModelError::truncated("the stream ended before the answer was complete"))
        })
    }
}

impl<M: ChatModel + ?Sized> ChatModel for Arc<M> {
    forward_model!([.as_ref()]; name, profile, server, stream, invoke, count_tokens);
}
