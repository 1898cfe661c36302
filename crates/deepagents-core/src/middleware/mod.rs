//! Middlewares: what an agent is composed of.
//!
//! A middleware adds state, tools and prompt text, and takes part in every phase of a run. `before_*` hooks run in list
//! order, `after_*` in reverse; [`modify_request`](Middleware::modify_request) of all runs first, then the wraps nest
//! with the first outermost. A closure is enough for one hook: see [`wrap_model_call`], [`before_model`] and the rest.

mod closures;
mod erased;
mod model_next;
mod output;
mod tool_next;
mod wrapped;

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use serde_json::Value;

use crate::context::{AgentDefinition, Context};
use crate::error::Result;
use crate::ids::CallId;
use crate::message::{Message, ToolCall};
use crate::model::ModelRequest;
use crate::state::{ChannelSpec, State};
use crate::tool::{DynTool, ToolSet};

pub use closures::{
    Closure, after_agent, after_model, before_agent, before_model, modify_request, offered_tools, wrap_model_call,
    wrap_tool_call,
};
pub use erased::DynMiddleware;
pub use model_next::{ModelNext, ModelResponse};
pub use output::HookOutput;
pub use tool_next::{ToolNext, ToolRequest, ToolResponse};

pub use crate::machine::{EndReason, JumpTo};

/// All middlewares of an agent, the outermost first.
pub(crate) type Stack = Arc<[Arc<dyn DynMiddleware>]>;

/// What a middleware answers that offers no tools. Nobody else can make one, so the type tells that the method is not theirs.
struct NothingOffered;

impl Future for NothingOffered {
    type Output = Result<Option<ToolSet>>;

    fn poll(self: Pin<&mut Self>, _cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(None))
    }
}

/// A part of an agent.
///
/// Every method has a default that does nothing, so that a middleware names only what it changes.
///
/// ```
/// use deepagents_core::error::Result;
/// use deepagents_core::middleware::{Middleware, ModelNext, ModelResponse};
/// use deepagents_core::model::ModelRequest;
///
/// /// Asks another model when the first one fails.
/// struct Fallback(std::sync::Arc<dyn deepagents_core::model::ChatModel>);
///
/// impl Middleware for Fallback {
///     fn name(&self) -> &str { "Fallback" }
///     async fn wrap_model_call(&self, request: ModelRequest, next: ModelNext) -> Result<ModelResponse> {
///         match next.run(request.clone()).await {
///             Err(_) => next.with_model(self.0.clone()).run(request).await,
///             answer => answer,
///         }
///     }
/// }
/// ```
pub trait Middleware: Send + Sync + 'static {
    /// The name, unique in a stack.
    fn name(&self) -> &str;

    /// Channels it adds to the state.
    fn channels(&self) -> Vec<ChannelSpec> {
        Vec::new()
    }

    /// Tools it adds.
    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        Vec::new()
    }

    /// Offers tools for the next model request beside those of the agent: tools that come and go, such as those of an MCP
    /// server or those that a search has found. Asked before every request, and when a run is resumed whose calls have
    /// no results yet. The same [`ToolSet`] given again costs nothing and leaves the beginning of the request as it was;
    /// a call of a tool that is not offered any more answers the model with an error. A name that another tool has ends
    /// the run.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use deepagents_core::error::Result;
    /// use deepagents_core::middleware::Middleware;
    /// use deepagents_core::run::Context;
    /// use deepagents_core::tool::ToolSet;
    ///
    /// /// Offers what a server has; whoever talks to it replaces the set when the server says that it changed.
    /// struct Server(Arc<Mutex<ToolSet>>);
    ///
    /// impl Middleware for Server {
    ///     fn name(&self) -> &str { "Server" }
    ///     async fn offered_tools(&self, _cx: &Context) -> Result<Option<ToolSet>> {
    ///         Ok(self.0.lock().ok().map(|tools| tools.clone()))
    ///     }
    /// }
    /// ```
    fn offered_tools(&self, _cx: &Context) -> impl Future<Output = Result<Option<ToolSet>>> + Send {
        NothingOffered
    }

    /// A fixed section of the system prompt.
    fn system_prompt(&self) -> Option<&str> {
        None
    }

    /// The agent that this middleware runs in the background under a name, for a conversation with this state: it goes
    /// on with its threads, whichever process began them.
    fn background_agent(&self, _name: &str, _state: &State) -> Option<Arc<AgentDefinition>> {
        None
    }

    /// Changes a message before it becomes part of the thread: those that a run is given, and those said to it with
    /// [`steer`](crate::run::RunHandle::steer) or [`enqueue`](crate::run::RunHandle::enqueue). Nothing of it has been stored.
    /// Of several middlewares each is given what the one before made of it.
    ///
    /// # Errors
    /// When the message must not become part of the thread: the run fails.
    fn receive_message(&self, message: Message) -> Result<Message> {
        Ok(message)
    }

    /// Changes what people say that is no message: the words of a decision, before they are stored, and what
    /// [`Context::receive_text`] is given. Of several middlewares each is given what the one before made of it.
    ///
    /// # Errors
    /// When the text must not become part of the thread: the run fails.
    fn receive_text(&self, text: String) -> Result<String> {
        Ok(text)
    }

    /// Runs once, when a run begins.
    fn before_agent(&self, _cx: &Context) -> impl Future<Output = Result<HookOutput>> + Send {
        ready(Ok(HookOutput::default()))
    }

    /// Runs before every model call.
    fn before_model(&self, _cx: &Context) -> impl Future<Output = Result<HookOutput>> + Send {
        ready(Ok(HookOutput::default()))
    }

    /// Changes a request before any wrap sees it. Nothing of it is remembered by the thread.
    fn modify_request(
        &self,
        request: ModelRequest,
        _cx: &Context,
    ) -> impl Future<Output = Result<ModelRequest>> + Send {
        ready(Ok(request))
    }

    /// Stands around a model call; `next` may be run any number of times.
    fn wrap_model_call(
        &self,
        request: ModelRequest,
        next: ModelNext,
    ) -> impl Future<Output = Result<ModelResponse>> + Send {
        next.run(request)
    }

    /// Runs after every model call; the answer is the last message of the state.
    fn after_model(&self, _cx: &Context) -> impl Future<Output = Result<HookOutput>> + Send {
        ready(Ok(HookOutput::default()))
    }

    /// Whether the agent is not to have this tool: this leaves it out of requests and answers its calls. Nobody is told of
    /// such a tool, by [`Context::tool_names`] or in errors.
    fn hides_tool(&self, _name: &str) -> bool {
        false
    }

    /// The arguments that its [`wrap_tool_call`](Self::wrap_tool_call) will put in the place of a call's, where they are
    /// known before the call begins: events and the log tell the call with them, and calls that write what another one
    /// writes wait for it. Of several middlewares each is given what the one before made of it; what a person has put in
    /// the place of a call comes before all of them.
    fn planned_args(&self, _id: &CallId, _call: &ToolCall, _cx: &Context) -> Option<Value> {
        None
    }

    /// Stands around a tool call; `next` may be run any number of times.
    fn wrap_tool_call(
        &self,
        request: ToolRequest,
        next: ToolNext,
    ) -> impl Future<Output = Result<ToolResponse>> + Send {
        next.run(request)
    }

    /// Runs when a run is about to end. [`JumpTo::Model`] makes it go on, and the hook runs again at its next end: one that
    /// always jumps never lets a run end, but for a [budget](crate::run::Budget) or the limit of model calls.
    fn after_agent(&self, _cx: &Context) -> impl Future<Output = Result<HookOutput>> + Send {
        ready(Ok(HookOutput::default()))
    }
}
