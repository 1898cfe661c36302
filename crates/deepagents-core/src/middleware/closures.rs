//! Middlewares made from a single closure.

use std::future::Future;
use std::panic::Location;

use super::{HookOutput, Middleware, ModelNext, ModelResponse, ToolNext, ToolRequest, ToolResponse};
use crate::context::Context;
use crate::error::Result;
use crate::model::ModelRequest;
use crate::tool::ToolSet;

/// A middleware made from a single closure. Its default name consists of the hook and the place where it was created;
/// set another with [`named`](Self::named).
pub struct Closure<H, F> {
    name: String,
    call: F,
    hook: std::marker::PhantomData<fn(H)>,
}

impl<H, F> Closure<H, F> {
    #[track_caller]
    fn new(hook: &str, call: F) -> Self {
        let at = Location::caller();
        let name = format!("{hook}@{}:{}:{}", at.file(), at.line(), at.column());
        Self { name, call, hook: std::marker::PhantomData }
    }

    /// Sets the middleware's name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
}

impl<H, F> std::fmt::Debug for Closure<H, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Closure").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Marker types for the hook that a [`Closure`] implements.
mod hook {
    macro_rules! hooks {
        ($($hook:ident)*) => { $(#[derive(Debug)] pub struct $hook;)* };
    }
    hooks! { BeforeAgent BeforeModel OfferedTools ModifyRequest WrapModelCall AfterModel WrapToolCall AfterAgent }
}

macro_rules! step_hook {
    ($(#[$doc:meta])* $function:ident, $hook:ident) => {
        $(#[$doc])*
        #[track_caller]
        pub fn $function<F, Fut>(call: F) -> Closure<hook::$hook, F>
        where
            F: Fn(Context) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<HookOutput>> + Send + 'static,
        {
            Closure::new(stringify!($function), call)
        }

        impl<F, Fut> Middleware for Closure<hook::$hook, F>
        where
            F: Fn(Context) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<HookOutput>> + Send + 'static,
        {
            fn name(&self) -> &str {
                &self.name
            }
            fn $function(&self, cx: &Context) -> impl Future<Output = Result<HookOutput>> + Send {
                (self.call)(cx.clone())
            }
        }
    };
}

step_hook!(
    /// Runs a closure when a run starts.
    ///
    /// ```
    /// use deepagents_core::middleware::{HookOutput, before_agent};
    /// let greet = before_agent(|cx| async move {
    ///     cx.custom("hello", cx.run_id().into());
    ///     Ok(HookOutput::next())
    /// });
    /// ```
    before_agent, BeforeAgent
);
step_hook!(
    /// Runs a closure before every model call.
    ///
    /// ```
    /// use deepagents_core::middleware::{JumpTo, HookOutput, before_model};
    /// let stop_early = before_model(|cx| async move {
    ///     Ok(if cx.messages().len() > 100 { HookOutput::go(JumpTo::End) } else { HookOutput::next() })
    /// });
    /// ```
    before_model, BeforeModel
);
step_hook!(
    /// Runs a closure after every model call.
    ///
    /// ```
    /// use deepagents_core::error::Error;
    /// use deepagents_core::middleware::{HookOutput, after_model};
    /// let polite = after_model(|cx| async move {
    ///     let rude = cx.messages().last().is_some_and(|answer| answer.text().contains("nonsense"));
    ///     if rude { Err(Error::other("the model was rude")) } else { Ok(HookOutput::next()) }
    /// });
    /// ```
    after_model, AfterModel
);
step_hook!(
    /// Runs a closure when a run is about to end.
    ///
    /// ```
    /// use deepagents_core::middleware::{HookOutput, after_agent};
    /// let told = after_agent(|cx| async move {
    ///     cx.custom("tokens", cx.spent().usage.total().into());
    ///     Ok(HookOutput::next())
    /// });
    /// ```
    after_agent, AfterAgent
);

/// Uses a closure to offer tools for every request.
///
/// ```
/// use std::sync::Arc;
/// use deepagents_core::middleware::offered_tools;
/// use deepagents_core::tool::{DynTool, ToolSet, json_tool};
/// use serde_json::json;
/// let bell = json_tool("ring", "Rings the bell.", json!({"type": "object"}), |_args, _cx| async { Ok("ding") });
/// let bell = ToolSet::new([Arc::new(bell) as Arc<dyn DynTool>])?;
/// /// There is a bell once somebody has asked for it.
/// let on_request = offered_tools(move |cx| {
///     let asked = cx.messages().iter().any(|message| message.text().contains("bell"));
///     let offer = asked.then(|| bell.clone());
///     async move { Ok(offer) }
/// });
/// # let _ = on_request;
/// # Ok::<(), deepagents_core::tool::ToolSetError>(())
/// ```
#[track_caller]
pub fn offered_tools<F, Fut>(call: F) -> Closure<hook::OfferedTools, F>
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Option<ToolSet>>> + Send + 'static,
{
    Closure::new("offered_tools", call)
}

impl<F, Fut> Middleware for Closure<hook::OfferedTools, F>
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Option<ToolSet>>> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn offered_tools(&self, cx: &Context) -> impl Future<Output = Result<Option<ToolSet>>> + Send {
        (self.call)(cx.clone())
    }
}

/// Uses a closure to modify every request.
///
/// ```
/// use deepagents_core::middleware::modify_request;
/// let calm = modify_request(|mut request, _cx| async move {
///     request.settings.temperature = Some(0.0);
///     Ok(request)
/// });
/// ```
#[track_caller]
pub fn modify_request<F, Fut>(call: F) -> Closure<hook::ModifyRequest, F>
where
    F: Fn(ModelRequest, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ModelRequest>> + Send + 'static,
{
    Closure::new("modify_request", call)
}

impl<F, Fut> Middleware for Closure<hook::ModifyRequest, F>
where
    F: Fn(ModelRequest, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ModelRequest>> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn modify_request(&self, request: ModelRequest, cx: &Context) -> impl Future<Output = Result<ModelRequest>> + Send {
        (self.call)(request, cx.clone())
    }
}

/// Wraps every model call in a closure.
///
/// ```
/// use deepagents_core::middleware::wrap_model_call;
/// let twice = wrap_model_call(|request, next| async move {
///     let first = next.run(request.clone()).await;
///     if first.is_err() { next.run(request).await } else { first }
/// });
/// ```
#[track_caller]
pub fn wrap_model_call<F, Fut>(call: F) -> Closure<hook::WrapModelCall, F>
where
    F: Fn(ModelRequest, ModelNext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ModelResponse>> + Send + 'static,
{
    Closure::new("wrap_model_call", call)
}

impl<F, Fut> Middleware for Closure<hook::WrapModelCall, F>
where
    F: Fn(ModelRequest, ModelNext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ModelResponse>> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn wrap_model_call(
        &self,
        request: ModelRequest,
        next: ModelNext,
    ) -> impl Future<Output = Result<ModelResponse>> + Send {
        (self.call)(request, next)
    }
}

/// Wraps every tool call in a closure.
///
/// ```
/// use deepagents_core::middleware::wrap_tool_call;
/// let counted = wrap_tool_call(|request, next| async move {
///     let name = request.call.name.clone();
///     let response = next.run(request.clone()).await?;
///     request.cx.custom("made", name.into());
///     Ok(response)
/// });
/// ```
#[track_caller]
pub fn wrap_tool_call<F, Fut>(call: F) -> Closure<hook::WrapToolCall, F>
where
    F: Fn(ToolRequest, ToolNext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolResponse>> + Send + 'static,
{
    Closure::new("wrap_tool_call", call)
}

impl<F, Fut> Middleware for Closure<hook::WrapToolCall, F>
where
    F: Fn(ToolRequest, ToolNext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolResponse>> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }
    fn wrap_tool_call(
        &self,
        request: ToolRequest,
        next: ToolNext,
    ) -> impl Future<Output = Result<ToolResponse>> + Send {
        (self.call)(request, next)
    }
}
