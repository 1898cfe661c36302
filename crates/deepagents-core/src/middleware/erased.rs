//! The object-safe form of middlewares.

use std::sync::Arc;

use futures_core::future::BoxFuture;

use super::{Middleware, ModelNext, ModelResponse, Step, ToolNext, ToolRequest, ToolResponse};
use crate::error::Result;
use crate::model::ModelRequest;
use crate::run::Context;
use crate::state::ChannelSpec;
use crate::tool::DynTool;

/// A middleware behind a pointer. Every [`Middleware`] is one; nobody implements it directly.
pub trait DynMiddleware: Send + Sync + 'static {
    /// See [`Middleware::name`].
    fn name(&self) -> &str;
    /// See [`Middleware::channels`].
    fn channels(&self) -> Vec<ChannelSpec>;
    /// See [`Middleware::tools`].
    fn tools(&self) -> Vec<Arc<dyn DynTool>>;
    /// See [`Middleware::system_prompt`].
    fn system_prompt(&self) -> Option<&str>;
    /// See [`Middleware::before_agent`].
    fn before_agent<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<Step>>;
    /// See [`Middleware::before_model`].
    fn before_model<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<Step>>;
    /// See [`Middleware::modify_request`].
    fn modify_request<'a>(&'a self, request: ModelRequest, cx: &'a Context) -> BoxFuture<'a, Result<ModelRequest>>;
    /// See [`Middleware::wrap_model_call`].
    fn wrap_model_call(&self, request: ModelRequest, next: ModelNext) -> BoxFuture<'_, Result<ModelResponse>>;
    /// See [`Middleware::after_model`].
    fn after_model<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<Step>>;
    /// See [`Middleware::wrap_tool_call`].
    fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> BoxFuture<'_, Result<ToolResponse>>;
    /// See [`Middleware::after_agent`].
    fn after_agent<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<Step>>;
}

impl<M: Middleware> DynMiddleware for M {
    fn name(&self) -> &str {
        Middleware::name(self)
    }
    fn channels(&self) -> Vec<ChannelSpec> {
        Middleware::channels(self)
    }
    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        Middleware::tools(self)
    }
    fn system_prompt(&self) -> Option<&str> {
        Middleware::system_prompt(self)
    }
    fn before_agent<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<Step>> {
        Box::pin(Middleware::before_agent(self, cx))
    }
    fn before_model<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<Step>> {
        Box::pin(Middleware::before_model(self, cx))
    }
    fn modify_request<'a>(&'a self, request: ModelRequest, cx: &'a Context) -> BoxFuture<'a, Result<ModelRequest>> {
        Box::pin(Middleware::modify_request(self, request, cx))
    }
    fn wrap_model_call(&self, request: ModelRequest, next: ModelNext) -> BoxFuture<'_, Result<ModelResponse>> {
        Box::pin(Middleware::wrap_model_call(self, request, next))
    }
    fn after_model<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<Step>> {
        Box::pin(Middleware::after_model(self, cx))
    }
    fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> BoxFuture<'_, Result<ToolResponse>> {
        Box::pin(Middleware::wrap_tool_call(self, request, next))
    }
    fn after_agent<'a>(&'a self, cx: &'a Context) -> BoxFuture<'a, Result<Step>> {
        Box::pin(Middleware::after_agent(self, cx))
    }
}
