//! The rest of the stack, as seen from a wrap.

use std::future::Future;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;

use super::DynMiddleware;
use crate::context::{Context, RunObserver};
use crate::error::{Error, Result};
use crate::ids::CallId;
use crate::interrupt::{Decision, DecisionAuthor, DecisionRecord};
use crate::message::{Block, ToolCall};
use crate::model::{ChatModel, ModelOutput, ModelRequest};
use crate::panics::blamed;
use crate::state::Update;
use crate::tool::{ChildState, DynTool, ToolContext, ToolError};

pub(crate) type Stack = Arc<[Arc<dyn DynMiddleware>]>;

/// What a model call gave.
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
    /// The answer.
    pub output: ModelOutput,
    /// What changes in the state beside the answer. A response that a wrap throws away takes its update with it.
    pub update: Update,
    /// The attempt the answer came with; none for an answer that no model gave.
    pub(crate) attempt: Option<u32>,
}

impl From<ModelOutput> for ModelResponse {
    fn from(output: ModelOutput) -> Self {
        Self { output, ..Self::default() }
    }
}

/// The rest of the stack around a model call, down to the model. Owned and `Clone`: it can be run zero, one or many
/// times, raced, or moved into a task.
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
    /// What stands around whichever model is asked in the end, the outermost first.
    layers: Vec<Arc<ModelLayer>>,
    cx: Context,
}

/// Puts something around a model.
type ModelLayer = dyn Fn(Arc<dyn ChatModel>) -> Arc<dyn ChatModel> + Send + Sync;

impl ModelNext {
    /// A call of the model alone, for tests of a wrap: nothing else stands around it.
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
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let next = ModelNext::new(Arc::new(NoModel), ContextBuilder::new().build());
    /// let error = Named.wrap_model_call(ModelRequest::new("Hello"), next).await.unwrap_err();
    /// assert!(error.to_string().starts_with("none: "));
    /// # });
    /// ```
    pub fn new(model: Arc<dyn ChatModel>, cx: Context) -> Self {
        Self::around(Arc::from([]), model, cx)
    }

    /// A call of the model with a stack around it.
    pub(crate) fn around(stack: Stack, model: Arc<dyn ChatModel>, cx: Context) -> Self {
        Self { stack, at: 0, model, layers: Vec::new(), cx }
    }

    /// The run's context.
    pub fn cx(&self) -> &Context {
        &self.cx
    }

    /// The model that will be asked.
    pub fn model(&self) -> &Arc<dyn ChatModel> {
        &self.model
    }

    /// The same with another model.
    #[must_use]
    pub fn with_model(&self, model: Arc<dyn ChatModel>) -> Self {
        Self { model, ..self.clone() }
    }

    /// The same with something around the model that is asked in the end, whichever that is: what sees or changes the pieces of
    /// an answer as they come, before anybody reads them.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deepagents_core::middleware::wrap_model_call;
    /// use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest};
    /// use futures_core::stream::BoxStream;
    /// use futures_util::StreamExt;
    ///
    /// /// Says everything loudly.
    /// struct Loud(Arc<dyn ChatModel>);
    ///
    /// impl ChatModel for Loud {
    ///     fn name(&self) -> &str { self.0.name() }
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
        // A future keeps room for whatever moves through it for as long as it waits, and there is one for each middleware: what
        // it begins with is in a box of its own until then.
        let mut next = self.clone();
        let Some(middleware) = self.stack.get(self.at).cloned() else {
            let request = Box::new(request);
            return Box::pin(async move {
                let model = next.layers.iter().rev().fold(next.model, |model, layer| layer(model));
                let call = crate::context::call_model(&next.cx, &model, request);
                let (output, attempt) = blamed(call, || format!("the model {} panicked", model.name())).await?;
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
            wrap(&*middleware, "wrap_model_call", call).await
        })
    }
}

impl std::fmt::Debug for ModelNext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelNext").field("model", &self.model.name()).field("at", &self.at).finish_non_exhaustive()
    }
}

/// A tool call about to be made.
///
/// ```
/// use deepagents_core::middleware::wrap_tool_call;
/// /// Searches no further than ten results.
/// let bounded = wrap_tool_call(|mut request, next| async move {
///     if request.call.name == "search" {
///         request.call.args["limit"] = 10.into();
///     }
///     next.run(request).await
/// });
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolRequest {
    /// The call as the model made it; a wrap may change its arguments.
    pub call: ToolCall,
    /// The tool; `None` when no tool has the name. A wrap may supply one or answer itself.
    pub tool: Option<Arc<dyn DynTool>>,
    /// The context of the call.
    pub cx: ToolContext,
}

impl ToolRequest {
    /// A call of a tool, or of none that is known.
    pub fn new(call: ToolCall, tool: Option<Arc<dyn DynTool>>, cx: ToolContext) -> Self {
        Self { call, tool, cx }
    }

    /// Our identity of the call.
    pub fn id(&self) -> &CallId {
        self.cx.call_id()
    }
}

impl std::fmt::Debug for ToolRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolRequest")
            .field("call", &self.call)
            .field("known", &self.tool.is_some())
            .finish_non_exhaustive()
    }
}

/// The result of a tool call.
///
/// ```
/// use deepagents_core::middleware::{ToolResponse, wrap_tool_call};
/// /// Keeps one tool from being called.
/// let barred = wrap_tool_call(|request, next| async move {
///     match request.call.name.as_str() {
///         "launch" => Ok(ToolResponse::error("This is a rehearsal.")),
///         _ => next.run(request).await,
///     }
/// });
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ToolResponse {
    /// What the model is shown.
    pub content: Vec<Block>,
    /// Whether the call failed.
    pub is_error: bool,
    /// Whether it stands in for a result that the tool did not give; see [`ToolMessage::is_synthetic`].
    ///
    /// [`ToolMessage::is_synthetic`]: crate::message::ToolMessage::is_synthetic
    pub is_synthetic: bool,
    /// What changes in the state.
    pub update: Update,
    /// The error that a failed call ended with, for wraps that look for its type; it is not stored.
    pub source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    /// Data for the application.
    pub artifact: Option<Value>,
    /// The state a sub-agent leaves, to be joined into this agent's.
    pub child_state: Option<ChildState>,
    /// What was decided about the call without a question, and who did; it is put into the log and told.
    pub decision: Option<DecisionRecord>,
}

impl ToolResponse {
    /// A successful text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::text(text)], ..Self::default() }
    }

    /// A failure.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Says that it stands in for a result that the tool did not give.
    #[must_use]
    pub fn synthetic(mut self) -> Self {
        self.is_synthetic = true;
        self
    }

    /// Says that a rule allowed the call, unless something else was decided about it.
    #[must_use]
    pub fn allowed_by(mut self, rule: impl Into<String>) -> Self {
        let author = DecisionAuthor::Rule { text: rule.into() };
        self.decision.get_or_insert_with(|| DecisionRecord::new(Decision::Approve, author));
        self
    }

    /// Says that a rule refused the call, and in which words.
    #[must_use]
    pub fn denied_by(mut self, rule: impl Into<String>, message: impl Into<String>) -> Self {
        let decision = Decision::Reject { message: Some(message.into()) };
        self.decision = Some(DecisionRecord::new(decision, DecisionAuthor::Rule { text: rule.into() }));
        self
    }
}

/// The rest of the stack around a tool call, down to the tool. Owned and `Clone`, like [`ModelNext`].
///
/// ```
/// use deepagents_core::middleware::wrap_tool_call;
/// /// Makes a failed call once more.
/// let again = wrap_tool_call(|request, next| async move {
///     let first = next.run(request.clone()).await?;
///     if first.is_error { next.run(request).await } else { Ok(first) }
/// });
/// ```
#[derive(Clone, Default)]
pub struct ToolNext {
    stack: Stack,
    at: usize,
    /// What the call passes through before the stack, the last one first.
    observers: Vec<Arc<dyn RunObserver>>,
}

impl ToolNext {
    /// A call of the tool alone, for tests of a wrap: nothing else stands around it.
    pub fn new() -> Self {
        Self::default()
    }

    /// A call of the tool with a stack around it.
    pub(crate) fn around(stack: Stack) -> Self {
        Self { stack, ..Self::default() }
    }

    /// The same, through an observer first.
    pub(crate) fn through(mut self, observer: Arc<dyn RunObserver>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Makes the call.
    ///
    /// The future fails only where the run is to end; whatever else goes wrong is a response with `is_error`.
    pub fn run(&self, request: ToolRequest) -> BoxFuture<'static, Result<ToolResponse>> {
        let mut next = self.clone();
        if let Some(observer) = next.observers.pop() {
            return observer.tool(request, next);
        }
        let middleware = next.stack.get(next.at).cloned();
        next.at += 1;
        let begin = Box::new((request, next));
        Box::pin(async move {
            let begin = move || *begin;
            match &middleware {
                Some(middleware) => {
                    let call = async {
                        let call = {
                            let (request, next) = begin();
                            middleware.wrap_tool_call(request, next)
                        };
                        call.await
                    };
                    wrap(&**middleware, "wrap_tool_call", call).await
                }
                None => blamed(call_tool(begin().0), || "the tool crashed".to_owned()).await,
            }
        })
    }
}

impl std::fmt::Debug for ToolNext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolNext").field("at", &self.at).finish_non_exhaustive()
    }
}

/// Names the middleware in what its wrap fails with. Errors of what it stands around come through as they are.
async fn wrap<T>(
    middleware: &dyn DynMiddleware,
    hook: &'static str,
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
    let result = blamed(call, || format!("{hook} of middleware `{}` panicked", middleware.name())).await;
    result.map_err(|error| match error {
        Error::Other(_) | Error::Store(_) => {
            Error::Hook { middleware: middleware.name().to_owned(), hook, source: Box::new(error) }
        }
        error => error,
    })
}

/// Characters of the name of a tool that does not exist which the model is shown.
const LONGEST_NAME: usize = 128;

async fn call_tool(request: ToolRequest) -> Result<ToolResponse> {
    let ToolRequest { call, tool, cx } = request;
    let Some(tool) = tool else {
        let known = cx.tool_names().join(", ");
        let why = if cx.context().tools.is_gone(&call.name) {
            "is no longer a tool you have"
        } else {
            "is not a tool you have"
        };
        // No tool has a name that long: what a model makes up is not repeated without end.
        let name = match call.name.char_indices().nth(LONGEST_NAME) {
            Some((at, _)) => format!("{}…", call.name.get(..at).unwrap_or_default()),
            None => call.name,
        };
        return Ok(ToolResponse::error(format!("Error: {name} {why}. Your tools are: {known}.")));
    };
    match tool.call(call.args, cx).await {
        Ok(output) => Ok(ToolResponse {
            content: output.content,
            is_error: output.is_error,
            is_synthetic: false,
            update: output.update,
            artifact: output.artifact,
            child_state: output.child_state,
            source: None,
            decision: None,
        }),
        Err(ToolError::Model { text, source }) => {
            Ok(ToolResponse { source: source.map(Arc::from), ..ToolResponse::error(text) })
        }
        Err(ToolError::Denied { text, rule }) => {
            let response = ToolResponse::error(&text);
            Ok(rule.into_iter().fold(response, |response, rule| response.denied_by(rule, &text)))
        }
        Err(ToolError::Interrupted(pause)) => Err(Error::Interrupted(pause)),
        Err(ToolError::Fatal(source)) => Err(Error::Tool { name: call.name, source }),
    }
}
