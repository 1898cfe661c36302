//! The context of hooks and tools.

mod budget_tracker;
mod builder;
mod control;
mod definition;
mod emitter;
mod extensions;
mod inbox;
mod live_threads;
mod model_call;
mod observer;
mod reporter;
mod shared;
mod shared_budget;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::env::{Clock, Ids};
use crate::error::Result;
use crate::event::{EventKind, MiddlewareEvent};
use crate::ids::CallId;
use crate::machine::BudgetUsage;
use crate::message::{self, Messages, PendingCall, ToolCall};
use crate::model::{ChatModel, ModelOutput, ModelRequest};
use crate::panics::lock;
use crate::state::{Channel, State, Update};
use crate::status::FinishReason;
use crate::store::Store;
use crate::structured::ResponseFormat;
use crate::tool::{DynTool, ToolSet, coerce_call};

pub(crate) use budget_tracker::BudgetTracker;
pub use builder::ContextBuilder;
pub use control::Suspender;
pub(crate) use control::{AbandonGuard, Registered, RunControl};
pub use definition::AgentDefinition;
pub(crate) use definition::MAX_MODEL_CALLS;
pub(crate) use emitter::Emitter;
pub(crate) use extensions::Extensions;
pub(crate) use inbox::Inbox;
pub(crate) use live_threads::{LiveRun, LiveThreads};
pub(crate) use model_call::call_model;
pub use observer::{INPUT_VERSION, InputRecord, ModelCall, Observers, RunObserver, RunStart};
pub(crate) use observer::{NoObserver, nested};
pub use reporter::Reporter;
pub(crate) use shared::Shared;
pub use shared_budget::SharedBudget;

/// The context of hooks and tools: a version of the state, and access to the rest of the run. It is owned and `Clone`.
///
/// The state is a snapshot from the start of the hook or call. To change it, return an update.
///
/// ```
/// use deepagents_core::middleware::{HookOutput, before_model};
/// let watched = before_model(|cx| async move {
///     cx.custom("turn", serde_json::json!({"agent": cx.agent_name(), "messages": cx.messages().len()}));
///     Ok(HookOutput::next())
/// });
/// ```
#[derive(Clone)]
pub struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: State,
    /// The turn of the streamed pieces of an answer.
    pub(crate) turn: u32,
    pub(crate) stop: Option<FinishReason>,
    /// The tools of the last request, or those of the agent before the first one.
    pub(crate) tools: ToolSet,
}

impl Context {
    /// Returns the state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the value of a channel; empty if the agent does not have the channel.
    pub fn get<C: Channel>(&self) -> C::Value {
        self.state.get::<C>().cloned().unwrap_or_default()
    }

    /// Returns the conversation.
    pub fn messages(&self) -> &Messages {
        self.state.messages()
    }

    /// Returns the agent's name.
    pub fn agent_name(&self) -> &str {
        &self.shared.agent.name
    }

    /// Returns the agent's name if it is a sub-agent.
    pub fn sub_agent_name(&self) -> Option<&str> {
        (!self.path().is_empty()).then(|| self.agent_name())
    }

    /// Returns the agent's model. A wrap hook may call another.
    pub fn model(&self) -> &Arc<dyn ChatModel> {
        &self.shared.agent.model
    }

    /// Returns the sorted names of the agent's current tools: its own and those that middlewares
    /// [offered](crate::middleware::Middleware::offered_tools) for the last request, except those that a middleware
    /// [hides](crate::middleware::Middleware::hides_tool).
    pub fn tool_names(&self) -> Vec<&str> {
        let stack = &self.shared.agent.stack;
        self.tools.names().filter(|name| !stack.iter().any(|middleware| middleware.hides_tool(name))).collect()
    }

    /// Returns the name of the tool through which the model gives a structured answer, if it is requested in that way.
    /// It is among the tools of a request, but not in [`tool_names`](Self::tool_names). Without it the model cannot
    /// answer, and calling it is the answer, so code that filters tools or limits calls must leave it alone.
    ///
    /// ```
    /// use deepagents_core::middleware::modify_request;
    /// let nothing_but_words = modify_request(|mut request, cx| async move {
    ///     request.tools.retain(|tool| cx.answer_tool() == Some(tool.name.as_str()));
    ///     Ok(request)
    /// });
    /// ```
    pub fn answer_tool(&self) -> Option<&str> {
        self.shared.agent.answer_tool()
    }

    /// Returns the format of the structured answer, if one is requested.
    pub(crate) fn format(&self) -> Option<&ResponseFormat> {
        self.shared.agent.format.as_ref()
    }

    /// Returns the run's id.
    pub fn run_id(&self) -> &str {
        self.shared.run.get()
    }

    /// Returns the thread, if there is one.
    pub fn thread(&self) -> Option<&str> {
        self.shared.thread.as_deref()
    }

    /// Returns the thread of the main agent, if there is one; also for sub-agents.
    pub fn root_thread(&self) -> Option<&str> {
        self.shared.root.as_ref().unwrap_or(&self.shared).thread.as_deref()
    }

    /// Returns the agent's path in the tree: empty for the main agent.
    pub fn path(&self) -> &[String] {
        &self.shared.path
    }

    /// Returns the long-term store, if the agent has one.
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.shared.agent.store.as_ref()
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.agent.clock
    }

    /// Returns the id generator.
    pub fn ids(&self) -> &Arc<dyn Ids> {
        &self.shared.agent.ids
    }

    /// Passes a text through the middlewares'
    /// [`Middleware::receive_text`](crate::middleware::Middleware::receive_text). For a middleware that reports
    /// something a person has written.
    ///
    /// # Errors
    /// Returns an error if a middleware rejects the text.
    pub fn receive_text(&self, text: String) -> Result<String> {
        self.shared.agent.received_text(text)
    }

    /// Returns a current tool of the agent; see [`tool_names`](Self::tool_names).
    pub fn tool(&self, name: &str) -> Option<&Arc<dyn DynTool>> {
        self.tools.get(name)
    }

    /// Returns the well-formed calls of the last answer that have no result, with the arguments that their tools will
    /// see. For `after_model` hooks.
    pub fn open_calls(&self) -> Vec<(CallId, ToolCall)> {
        // The answer with these calls has been counted already.
        let turn = self.turn.saturating_sub(1);
        let open = message::pending(self.messages()).into_iter().filter_map(|open| {
            let PendingCall::Valid(mut call) = open.call else { return None };
            if let Some(tool) = self.tool(&call.name) {
                coerce_call(&mut call, &**tool);
            }
            Some((open.index, call))
        });
        open.map(|(index, call)| (CallId { path: self.path().to_vec(), turn, index }, call)).collect()
    }

    /// Returns a value that the application passed with [`RunInput::with`](crate::run::RunInput::with).
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.shared.extensions.get()
    }

    /// Returns how many blocks at the start of the system prompt are the same for every request of this agent.
    pub fn static_system_blocks(&self) -> usize {
        self.shared.agent.system.len()
    }

    /// Returns what the agent and its sub-agents have spent in this run.
    pub fn spent(&self) -> BudgetUsage {
        self.shared.budget.spent()
    }

    /// Records what the run spends even if nothing limits it, so that [`spent`](Self::spent) of a resumed run includes
    /// it.
    pub fn record_spending(&self) {
        self.shared.budget.record();
    }

    /// Returns why the run is about to end, in `after_agent` hooks; `None` elsewhere.
    pub fn stop(&self) -> Option<&FinishReason> {
        self.stop.as_ref()
    }

    /// Returns the token that is cancelled with the run. Long-running work should watch it.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.shared.cancel
    }

    /// Waits until a message sent with [`steer`](crate::run::RunHandle::steer) is pending that the model has not
    /// received. Long-running work of the run's own agent can then end early, so that the model receives it.
    pub async fn steered(&self) {
        match self.shared.events.control() {
            Some(control) => control.inbox.steered().await,
            None => std::future::pending().await,
        }
    }

    /// Emits an event to the application, without waiting for subscribers. Data nested more than 96 levels deep is
    /// emitted as its JSON text, because JSON parsers would reject the event.
    pub fn custom(&self, name: impl Into<String>, data: serde_json::Value) {
        self.emit(|| EventKind::custom(name.into(), data));
    }

    /// Emits an event of one of the library's middlewares.
    pub fn report(&self, event: MiddlewareEvent) {
        self.emit(|| EventKind::Middleware(event));
    }

    /// Calls a model outside the conversation, for example for a summary. Its tokens count, but its answer is neither
    /// emitted as the agent's nor stored.
    ///
    /// # Errors
    /// Returns an error if the model fails, or the request contains a history that providers reject.
    pub async fn invoke_model(&self, model: &Arc<dyn ChatModel>, request: ModelRequest) -> Result<ModelOutput> {
        model_call::invoke_aside(self, model, request).await
    }

    /// Queues an update made by a wrap hook of a model call, to be applied however the call ends: even if it fails, the
    /// run is cancelled meanwhile, or another wrap hook discards the response and retries. Use it for work that has
    /// been paid for or done, and must not be repeated with every attempt.
    ///
    /// The update becomes part of the state when the call has ended, before the [response's
    /// update](crate::middleware::ModelResponse::update).
    ///
    /// ```
    /// use deepagents_core::middleware::wrap_model_call;
    /// use deepagents_core::state::Update;
    /// deepagents_core::last_value!(
    ///     /// What is known of the world.
    ///     pub Briefing("briefing"): String => private
    /// );
    /// /// Has the world looked at once, however many tries the answer takes.
    /// let briefed = wrap_model_call(|request, next| async move {
    ///     let cx = next.cx().with_queued_updates()?;
    ///     if cx.get::<Briefing>().is_empty() {
    ///         cx.queue_update(Update::new::<Briefing>("It is round.".to_owned()));
    ///     }
    ///     next.run(request).await
    /// });
    /// ```
    ///
    /// Use it only in `wrap_model_call`; elsewhere return an update. Updates queued before a turn's call ends become
    /// part of the state with that call; later ones with the next call. If there is none, they are lost with the run.
    pub fn queue_update(&self, update: Update) {
        // Assigns message ids now, so that readers of the queued update and of the state see the same messages.
        let update = update.with_ids(&*self.shared.agent.ids);
        let mut queued = lock(&self.shared.queued_updates);
        *queued = std::mem::take(&mut *queued).and(update);
    }

    /// Returns the context with the updates that wrap hooks of the current model call have
    /// [queued](Self::queue_update) so far, in earlier attempts.
    ///
    /// # Errors
    /// Returns an error if the state refuses them.
    pub fn with_queued_updates(&self) -> Result<Self> {
        let (mut cx, queued) = (self.clone(), lock(&self.shared.queued_updates).clone());
        cx.state.apply(&queued)?;
        Ok(cx)
    }

    /// Returns a reporter for work that outlives a call. It keeps neither the run nor its agent alive.
    pub fn reporter(&self) -> Reporter {
        Reporter { events: self.shared.events.clone(), path: self.shared.path.clone() }
    }

    pub(crate) fn emit(&self, kind: impl FnOnce() -> EventKind) {
        self.shared.events.emit(&self.shared.path, None, kind);
    }

    pub(crate) fn at(shared: &Arc<Shared>, state: &State, turn: u32) -> Self {
        let tools = lock(&shared.tools).clone();
        Self { shared: shared.clone(), state: state.clone(), turn, stop: None, tools }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("agent", &self.agent_name())
            .field("run", &self.run_id())
            .field("thread", &self.thread())
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}
