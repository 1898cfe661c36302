//! The object-safe form of middlewares.

use std::any::type_name;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;

use super::{HookOutput, Middleware, ModelNext, ModelResponse, NothingOffered, ToolNext, ToolRequest, ToolResponse};
use crate::context::{AgentDefinition, Context};
use crate::error::Result;
use crate::forward::forward;
use crate::ids::CallId;
use crate::message::{Message, ToolCall};
use crate::model::ModelRequest;
use crate::state::{ChannelSpec, State};
use crate::tool::{DynTool, ToolSet};

/// The object-safe form of [`Middleware`]. It is implemented for every middleware; do not implement it directly.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a middleware",
    note = "a middleware is a type that implements `Middleware`, or a closure given to the function of a hook, such as `before_model`"
)]
pub trait DynMiddleware: Send + Sync + 'static {
    /// See [`Middleware::name`].
    fn name(&self) -> &str;
    /// See [`Middleware::channels`].
    fn channels(&self) -> Vec<ChannelSpec>;
    /// See [`Middleware::tools`].
    fn tools(&self) -> Vec<Arc<dyn DynTool>>;
    /// See [`Middleware::offered_tools`].
    fn offered_tools<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<Option<ToolSet>>>;
    /// Returns whether the middleware may ever offer tools, because it overrides
    /// [`offered_tools`](Middleware::offered_tools).
    fn offers_tools(&self) -> bool;
    /// See [`Middleware::system_prompt`].
    fn system_prompt(&self) -> Option<&str>;
    /// See [`Middleware::background_agent`].
    fn background_agent(&self, name: &str, state: &State) -> Option<Arc<AgentDefinition>>;
    /// See [`Middleware::receive_message`].
    ///
    /// # Errors
    /// Returns an error if the message must not become part of the thread.
    fn receive_message(&self, message: Message) -> Result<Message>;
    /// See [`Middleware::receive_text`].
    ///
    /// # Errors
    /// Returns an error if the text must not become part of the thread.
    fn receive_text(&self, text: String) -> Result<String>;
    /// See [`Middleware::hides_tool`].
    fn hides_tool(&self, name: &str) -> bool;
    /// See [`Middleware::planned_args`].
    fn planned_args(&self, id: &CallId, call: &ToolCall, cx: &Context) -> Option<Value>;
    /// See [`Middleware::before_agent`].
    fn before_agent<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<HookOutput>>;
    /// See [`Middleware::before_model`].
    fn before_model<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<HookOutput>>;
    /// See [`Middleware::modify_request`].
    fn modify_request<'a>(&'a self, request: ModelRequest, cx: &'a Context) -> BoxFuture<'a, Result<ModelRequest>>;
    /// See [`Middleware::wrap_model_call`].
    fn wrap_model_call(&self, request: ModelRequest, next: ModelNext) -> BoxFuture<'_, Result<ModelResponse>>;
    /// See [`Middleware::after_model`].
    fn after_model<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<HookOutput>>;
    /// See [`Middleware::wrap_tool_call`].
    fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> BoxFuture<'_, Result<ToolResponse>>;
    /// See [`Middleware::after_agent`].
    fn after_agent<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<HookOutput>>;
}

impl<M: Middleware> DynMiddleware for M {
    forward! { as Middleware;
        fn name(&self) -> &str;
        fn channels(&self) -> Vec<ChannelSpec>;
        fn tools(&self) -> Vec<Arc<dyn DynTool>>;
        fn system_prompt(&self) -> Option<&str>;
        fn background_agent(&self, name: &str, state: &State) -> Option<Arc<AgentDefinition>>;
        fn receive_message(&self, message: Message) -> Result<Message>;
        fn receive_text(&self, text: String) -> Result<String>;
        fn hides_tool(&self, name: &str) -> bool;
        fn planned_args(&self, id: &CallId, call: &ToolCall, cx: &Context) -> Option<Value>;
    }

    fn offered_tools<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<Option<ToolSet>>> {
        Box::pin(Middleware::offered_tools(self, cx))
    }

    fn offers_tools(&self) -> bool {
        answers(M::offered_tools) != type_name::<NothingOffered>()
    }

    fn before_agent<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<HookOutput>> {
        Box::pin(Middleware::before_agent(self, cx))
    }

    fn before_model<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<HookOutput>> {
        Box::pin(Middleware::before_model(self, cx))
    }

    fn modify_request<'a>(&'a self, request: ModelRequest, cx: &'a Context) -> BoxFuture<'a, Result<ModelRequest>> {
        Box::pin(Middleware::modify_request(self, request, cx))
    }

    fn wrap_model_call(&self, request: ModelRequest, next: ModelNext) -> BoxFuture<'_, Result<ModelResponse>> {
        Box::pin(Middleware::wrap_model_call(self, request, next))
    }

    fn after_model<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<HookOutput>> {
        Box::pin(Middleware::after_model(self, cx))
    }

    fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> BoxFuture<'_, Result<ToolResponse>> {
        Box::pin(Middleware::wrap_tool_call(self, request, next))
    }

    fn after_agent<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<HookOutput>> {
        Box::pin(Middleware::after_agent(self, cx))
    }
}

/// Returns the name of a method's return type. Types with lifetimes can only be told apart by name.
fn answers<'a, M: 'a, F>(_: fn(&'a M, &'a Context) -> F) -> &'static str {
    type_name::<F>()
}

/// Lets a builder accept both a middleware and a shared one.
impl<M: DynMiddleware + ?Sized> DynMiddleware for Arc<M> {
    forward! { (**self);
        fn name(&self) -> &str;
        fn channels(&self) -> Vec<ChannelSpec>;
        fn tools(&self) -> Vec<Arc<dyn DynTool>>;
        fn offered_tools<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<Option<ToolSet>>>;
        fn offers_tools(&self) -> bool;
        fn system_prompt(&self) -> Option<&str>;
        fn background_agent(&self, name: &str, state: &State) -> Option<Arc<AgentDefinition>>;
        fn receive_message(&self, message: Message) -> Result<Message>;
        fn receive_text(&self, text: String) -> Result<String>;
        fn hides_tool(&self, name: &str) -> bool;
        fn planned_args(&self, id: &CallId, call: &ToolCall, cx: &Context) -> Option<Value>;
        fn before_agent<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<HookOutput>>;
        fn before_model<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<HookOutput>>;
        fn modify_request<'a>(&'a self, request: ModelRequest, cx: &'a Context) -> BoxFuture<'a, Result<ModelRequest>>;
        fn wrap_model_call(&self, request: ModelRequest, next: ModelNext) -> BoxFuture<'_, Result<ModelResponse>>;
        fn after_model<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<HookOutput>>;
        fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> BoxFuture<'_, Result<ToolResponse>>;
        fn after_agent<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<HookOutput>>;
    }
}
