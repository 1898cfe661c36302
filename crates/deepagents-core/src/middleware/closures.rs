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

/// Defines the function that makes a [`Closure`] for a hook, and implements the hook: the arguments it receives, and
/// those it calls the closure with.
macro_rules! closure_hook {
    ($(#[$doc:meta])* $function:ident, $hook:ident, Fn($($owned:ty),*) -> $output:ty,
        |$($arg:ident: $type:ty),*| ($($given:expr),*)
    ) => {
        $(#[$doc])*
        #[track_caller]
        pub fn $function<F, Fut>(call: F) -> Closure<hook::$hook, F>
        where
            F: Fn($($owned),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<$output>> + Send + 'static,
        {
            Closure::new(stringify!($function), call)
        }

        impl<F, Fut> Middleware for Closure<hook::$hook, F>
        where
            F: Fn($($owned),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<$output>> + Send + 'static,
        {
            fn name(&self) -> &str {
                &self.name
            }

            fn $function(&self, $($arg: $type),*) -> impl Future<Output = Result<$output>> + Send {
                (self.call)($($given),*)
            }
        }
    };
}

closure_hook!(
    /// Runs a closure when a run starts.
    ///
    /// ```
    /// use deepagents_core::middleware::{HookOutput, before_agent};
    /// let greet = before_agent(|cx| async move {
    ///     cx.custom("hello", cx.run_id().into());
    ///     Ok(HookOutput::next())
    /// });
    /// ```
    before_agent, BeforeAgent, Fn(Context) -> HookOutput,
    |cx: &Context| (cx.clone())
);

closure_hook!(
    /// Runs a closure before every model call.
    ///
    /// ```
    /// use deepagents_core::middleware::{JumpTo, HookOutput, before_model};
    /// let stop_early = before_model(|cx| async move {
    ///     Ok(if cx.messages().len() > 100 { HookOutput::go(JumpTo::End) } else { HookOutput::next() })
    /// });
    /// ```
    before_model, BeforeModel, Fn(Context) -> HookOutput,
    |cx: &Context| (cx.clone())
);

closure_hook!(
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
    after_model, AfterModel, Fn(Context) -> HookOutput,
    |cx: &Context| (cx.clone())
);

closure_hook!(
    /// Runs a closure when a run is about to end.
    ///
    /// ```
    /// use deepagents_core::middleware::{HookOutput, after_agent};
    /// let told = after_agent(|cx| async move {
    ///     cx.custom("tokens", cx.spent().usage.total().into());
    ///     Ok(HookOutput::next())
    /// });
    /// ```
    after_agent, AfterAgent, Fn(Context) -> HookOutput,
    |cx: &Context| (cx.clone())
);

closure_hook!(
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
    offered_tools, OfferedTools, Fn(Context) -> Option<ToolSet>,
    |cx: &Context| (cx.clone())
);

closure_hook!(
    /// Uses a closure to modify every request.
    ///
    /// ```
    /// use deepagents_core::middleware::modify_request;
    /// let calm = modify_request(|mut request, _cx| async move {
    ///     request.settings.temperature = Some(0.0);
    ///     Ok(request)
    /// });
    /// ```
    modify_request, ModifyRequest, Fn(ModelRequest, Context) -> ModelRequest,
    |request: ModelRequest, cx: &Context| (request, cx.clone())
);

closure_hook!(
    /// Wraps every model call in a closure.
    ///
    /// ```
    /// use deepagents_core::middleware::wrap_model_call;
    /// let twice = wrap_model_call(|request, next| async move {
    ///     let first = next.run(request.clone()).await;
    ///     if first.is_err() { next.run(request).await } else { first }
    /// });
    /// ```
    wrap_model_call, WrapModelCall, Fn(ModelRequest, ModelNext) -> ModelResponse,
    |request: ModelRequest, next: ModelNext| (request, next)
);

closure_hook!(
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
    wrap_tool_call, WrapToolCall, Fn(ToolRequest, ToolNext) -> ToolResponse,
    |request: ToolRequest, next: ToolNext| (request, next)
);
