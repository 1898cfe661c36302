//! Middlewares, which agents are composed of.
//!
//! A middleware adds state, tools and prompt text, and hooks into every phase of a run. `before_*` hooks run in list
//! order, `after_*` hooks in reverse. All [`modify_request`](Middleware::modify_request) hooks run first, then the wrap
//! hooks nest, with the first middleware outermost. For a single hook a closure is enough: see [`wrap_model_call`],
//! [`before_model`] and the rest.

mod aside;
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

pub use aside::on_text;
pub use closures::{
    Closure, after_agent, after_model, before_agent, before_model, modify_request, offered_tools, wrap_model_call,
    wrap_tool_call,
};
pub use erased::DynMiddleware;
pub use model_next::{ModelNext, ModelResponse};
pub use output::HookOutput;
pub use tool_next::{ToolNext, ToolRequest, ToolResponse};

pub use crate::machine::{EndReason, JumpTo};

/// All middlewares of an agent, outermost first.
pub(crate) type Stack = Arc<[Arc<dyn DynMiddleware>]>;

/// The return type of the default `offered_tools`. It is private, so this type shows that a middleware does not
/// override the method.
struct NothingOffered;

impl Future for NothingOffered {
    type Output = Result<Option<ToolSet>>;

    fn poll(self: Pin<&mut Self>, _cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(None))
    }
}

/// A composable part of an agent.
///
/// Every method except `name` has a default that does nothing, so a middleware implements only what it changes.
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
    /// Returns the middleware's name, unique in a stack.
    fn name(&self) -> &str;

    /// Returns the channels it adds to the state.
    fn channels(&self) -> Vec<ChannelSpec> {
        Vec::new()
    }

    /// Returns the tools it adds.
    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        Vec::new()
    }

    /// Offers additional tools for the next model request: tools that come and go, such as those of an MCP server or of
    /// a tool search. Called before every request, and when a run is resumed whose calls have no results yet.
    ///
    /// Returning the same [`ToolSet`] again costs nothing and leaves the prefix of the request unchanged. A call of a
    /// tool that is no longer offered returns an error to the model. If the name of an offered tool clashes with
    /// another tool, the run fails.
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

    /// Returns a fixed section of the system prompt.
    fn system_prompt(&self) -> Option<&str> {
        None
    }

    /// Returns the agent that this middleware runs in the background under a name, for a conversation with this state.
    /// It is used to resume the agent's threads, whichever process started them.
    fn background_agent(&self, _name: &str, _state: &State) -> Option<Arc<AgentDefinition>> {
        None
    }

    /// Changes a message before it becomes part of the thread. Called for messages in a run's input, and for those sent
    /// with [`steer`](crate::run::RunHandle::steer) or [`enqueue`](crate::run::RunHandle::enqueue), before they are
    /// stored. Each middleware receives the result of the previous one.
    ///
    /// # Errors
    /// Returns an error if the message must not become part of the thread; the run then fails.
    fn receive_message(&self, message: Message) -> Result<Message> {
        Ok(message)
    }

    /// Changes text from people that is not a message: the text of a decision, before it is stored, and the argument of
    /// [`Context::receive_text`]. Each middleware receives the result of the previous one.
    ///
    /// # Errors
    /// Returns an error if the text must not become part of the thread; the run then fails.
    fn receive_text(&self, text: String) -> Result<String> {
        Ok(text)
    }

    /// Runs once, when a run starts.
    fn before_agent(&self, _cx: &Context) -> impl Future<Output = Result<HookOutput>> + Send {
        ready(Ok(HookOutput::default()))
    }

    /// Runs before every model call.
    fn before_model(&self, _cx: &Context) -> impl Future<Output = Result<HookOutput>> + Send {
        ready(Ok(HookOutput::default()))
    }

    /// Changes a request before any wrap hook sees it. The changes are not stored in the thread.
    fn modify_request(
        &self,
        request: ModelRequest,
        _cx: &Context,
    ) -> impl Future<Output = Result<ModelRequest>> + Send {
        ready(Ok(request))
    }

    /// Wraps a model call. It may run `next` any number of times.
    fn wrap_model_call(
        &self,
        request: ModelRequest,
        next: ModelNext,
    ) -> impl Future<Output = Result<ModelResponse>> + Send {
        next.run(request)
    }

    /// Runs after every model call. The answer is the last message of the state.
    fn after_model(&self, _cx: &Context) -> impl Future<Output = Result<HookOutput>> + Send {
        ready(Ok(HookOutput::default()))
    }

    /// Returns whether the agent must not have this tool: this middleware removes it from requests and answers its
    /// calls. [`Context::tool_names`] and error messages do not mention such a tool.
    fn hides_tool(&self, _name: &str) -> bool {
        false
    }

    /// Returns the arguments that this middleware's [`wrap_tool_call`](Self::wrap_tool_call) will substitute, if known
    /// before the call starts. Events and the log then show the call with these arguments, and they decide which writes
    /// must wait for each other.
    ///
    /// Each middleware receives the result of the previous one. An edit by a person takes precedence over all of them.
    fn planned_args(&self, _id: &CallId, _call: &ToolCall, _cx: &Context) -> Option<Value> {
        None
    }

    /// Wraps a tool call. It may run `next` any number of times.
    fn wrap_tool_call(
        &self,
        request: ToolRequest,
        next: ToolNext,
    ) -> impl Future<Output = Result<ToolResponse>> + Send {
        next.run(request)
    }

    /// Runs when a run is about to end. [`JumpTo::Model`] makes the run continue, and the hook runs again at its next
    /// end. If a hook always jumps, only a [budget](crate::run::Budget) or the limit of model calls ends the run.
    fn after_agent(&self, _cx: &Context) -> impl Future<Output = Result<HookOutput>> + Send {
        ready(Ok(HookOutput::default()))
    }
}
