//! What hooks and tools know of the run.

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
mod shared_budget;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::env::{Clock, Ids};
use crate::error::Result;
use crate::event::{EventKind, MiddlewareEvent};
use crate::ids::{CallId, RunId};
use crate::journal::LogWriter;
use crate::machine::BudgetUsage;
use crate::message::{self, HistoryVersion, Messages, PendingCall, ToolCall};
use crate::model::{ChatModel, ModelOutput, ModelRequest};
use crate::state::{Channel, State, Update};
use crate::status::FinishReason;
use crate::store::Store;
use crate::tool::{DynTool, ToolSet, coerce_call};

pub(crate) use budget_tracker::BudgetTracker;
pub use builder::ContextBuilder;
pub use control::Suspender;
pub(crate) use control::{Leaving, RunControl};
pub use definition::AgentDefinition;
pub(crate) use emitter::Emitter;
pub(crate) use extensions::Extensions;
pub(crate) use inbox::Inbox;
pub(crate) use live_threads::{LiveRun, LiveThreads};
pub(crate) use model_call::call_model;
pub use observer::{INPUT_VERSION, InputRecord, ModelCall, Observers, RunObserver, RunStart};
pub(crate) use observer::{NoObserver, SharedObserver};
pub use reporter::Reporter;
pub use shared_budget::SharedBudget;

/// What hooks and tools know of the run: a version of the state, and how to reach the rest. Owned and `Clone`.
///
/// The state is that of the moment the hook or call began. It changes by what is returned, never in place.
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
    /// The turn that streamed pieces of an answer belong to.
    pub(crate) turn: u32,
    pub(crate) stop: Option<FinishReason>,
    /// The tools of the last request, before the first one those of the agent.
    pub(crate) tools: ToolSet,
}

/// What all contexts of one agent's run have in common.
pub(crate) struct Shared {
    pub(crate) agent: Arc<AgentDefinition>,
    pub(crate) run: RunId,
    pub(crate) thread: Option<String>,
    pub(crate) path: Arc<[String]>,
    pub(crate) events: Emitter,
    pub(crate) cancel: CancellationToken,
    pub(crate) budget: Arc<BudgetTracker>,
    pub(crate) extensions: Extensions,
    pub(crate) observer: Option<SharedObserver>,
    /// Counts the tries of the current turn, so that pieces of a failed one can be told apart.
    pub(crate) attempt: std::sync::atomic::AtomicU32,
    /// The tries of the current turn of whose answers pieces of text were told.
    pub(crate) streamed_attempts: std::sync::Mutex<std::collections::BTreeSet<u32>>,
    /// The ids of the answers of the current turn.
    pub(crate) answer_id: std::sync::Mutex<AnswerId>,
    /// Writes to the run's thread, once that is open.
    pub(crate) log: std::sync::OnceLock<LogWriter>,
    /// The main agent, where this is one below it.
    pub(crate) root: Option<Arc<Shared>>,
    /// The tools of the last request.
    pub(crate) tools: std::sync::Mutex<ToolSet>,
    /// The last history that was found fit for a provider.
    pub(crate) passed: std::sync::Mutex<Option<HistoryVersion>>,
    /// What wraps of the present model call have kept.
    pub(crate) kept: std::sync::Mutex<Update>,
}

impl Shared {
    /// The tries of the current turn of whose answers pieces of text were told.
    pub(crate) fn streamed_attempts(&self) -> std::sync::MutexGuard<'_, std::collections::BTreeSet<u32>> {
        self.streamed_attempts.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The id of the answer that is being given, or that the next one has.
    pub(crate) fn answer_id(&self) -> String {
        let ids = self.answer_ids();
        ids.of(ids.attempt)
    }

    /// The id of the answer of a try.
    pub(crate) fn answer_id_of(&self, attempt: u32) -> String {
        self.answer_ids().of(attempt)
    }

    /// The id of the next answer, at the beginning of a turn.
    pub(crate) fn set_answer_id(&self, first: String) {
        *self.answer_ids() = AnswerId { first, attempt: 0 };
    }

    /// An answer comes from this try from now on; gives its id.
    pub(crate) fn set_answering(&self, attempt: u32) -> String {
        let mut ids = self.answer_ids();
        ids.attempt = attempt;
        ids.of(attempt)
    }

    /// What wraps of the model call that has ended have kept.
    pub(crate) fn take_kept(&self) -> Update {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn answer_ids(&self) -> std::sync::MutexGuard<'_, AnswerId> {
        self.answer_id.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The ids of the answers of a turn. Each try has one of its own: whoever puts pieces together by the id of their message
/// must not add those of a try to what was told of one before it.
#[derive(Debug, Default)]
pub(crate) struct AnswerId {
    first: String,
    attempt: u32,
}

impl AnswerId {
    fn of(&self, attempt: u32) -> String {
        match attempt {
            0 => self.first.clone(),
            more => format!("{}-{}", self.first, more.saturating_add(1)),
        }
    }
}

impl Context {
    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The value of a channel; empty if no middleware declares it.
    pub fn get<C: Channel>(&self) -> C::Value {
        self.state.get::<C>().cloned().unwrap_or_default()
    }

    /// The conversation.
    pub fn messages(&self) -> &Messages {
        self.state.messages()
    }

    /// The agent's name.
    pub fn agent_name(&self) -> &str {
        &self.shared.agent.name
    }

    /// The agent's name where it is a sub-agent.
    pub fn sub_agent_name(&self) -> Option<&str> {
        (!self.path().is_empty()).then(|| self.agent_name())
    }

    /// The agent's model; a wrap around model calls may ask another.
    pub fn model(&self) -> &Arc<dyn ChatModel> {
        &self.shared.agent.model
    }

    /// Names of the tools that the agent has now, sorted: its own, and those that middlewares
    /// [offered](crate::middleware::Middleware::offered_tools) for the last request, but for those that one
    /// [hides](crate::middleware::Middleware::hides_tool).
    pub fn tool_names(&self) -> Vec<&str> {
        let stack = &self.shared.agent.stack;
        self.tools.names().filter(|name| !stack.iter().any(|middleware| middleware.hides_tool(name))).collect()
    }

    /// The tool by which the model gives an answer in a shape, where it is asked for one so: it is among the tools of a
    /// request and none of [`tool_names`](Self::tool_names). A model that is not offered it cannot answer, and its call is
    /// the answer, so what leaves tools out or limits calls passes over it.
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

    /// The run.
    pub fn run_id(&self) -> &str {
        self.shared.run.get()
    }

    /// The thread, when there is one.
    pub fn thread(&self) -> Option<&str> {
        self.shared.thread.as_deref()
    }

    /// The thread of the main agent, also for an agent below it, when there is one.
    pub fn root_thread(&self) -> Option<&str> {
        self.shared.root.as_ref().unwrap_or(&self.shared).thread.as_deref()
    }

    /// Where the agent is in the tree: empty for the main one.
    pub fn path(&self) -> &[String] {
        &self.shared.path
    }

    /// The long-term store, when the agent has one.
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.shared.agent.store.as_ref()
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.agent.clock
    }

    /// The maker of ids.
    pub fn ids(&self) -> &Arc<dyn Ids> {
        &self.shared.agent.ids
    }

    /// A text as the middlewares let it in, by [`Middleware::receive_text`](crate::middleware::Middleware::receive_text): for
    /// what a middleware tells of something that a person has said.
    ///
    /// # Errors
    /// When a middleware refuses it.
    pub fn receive_text(&self, text: String) -> Result<String> {
        self.shared.agent.received_text(text)
    }

    /// A tool that the agent has now, as [`tool_names`](Self::tool_names) says.
    pub fn tool(&self, name: &str) -> Option<&Arc<dyn DynTool>> {
        self.tools.get(name)
    }

    /// The well-formed calls of the last answer that have no result, in `after_model` hooks, with the arguments that
    /// their tools will see.
    pub fn open_calls(&self) -> Vec<(CallId, ToolCall)> {
        // The answer that made them has been counted already.
        let turn = self.turn.saturating_sub(1);
        let open = message::pending(self.messages()).into_iter().filter_map(|open| {
            let tool = self.tool(open.call.name());
            match coerce_call(open.call, tool) {
                PendingCall::Valid(call) => Some((open.index, call)),
                PendingCall::Invalid(_) => None,
            }
        });
        open.map(|(index, call)| (CallId { path: self.path().to_vec(), turn, index }, call)).collect()
    }

    /// A value that the application gave with [`RunInput::with`](crate::run::RunInput::with).
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.shared.extensions.get()
    }

    /// How many blocks of the system prompt are the same for every request of this agent; they come first.
    pub fn static_system_blocks(&self) -> usize {
        self.shared.agent.system.len()
    }

    /// What the agent and those below it have spent in this run.
    pub fn spent(&self) -> BudgetUsage {
        self.shared.budget.spent()
    }

    /// Keeps what is spent with the run, even where nothing limits it: [`spent`](Self::spent) of a run that is resumed goes
    /// on from there.
    pub fn keep_spent(&self) {
        self.shared.budget.record();
    }

    /// Why the run is about to end, in `after_agent` hooks; nothing elsewhere.
    pub fn stop(&self) -> Option<&FinishReason> {
        self.stop.as_ref()
    }

    /// Is cancelled when the run is; long work watches it.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.shared.cancel
    }

    /// Waits until something was said to the run with [`steer`](crate::run::RunHandle::steer) that its model has not been
    /// told: long work that the run's own agent does may end early then, for the model to be told.
    pub async fn steered(&self) {
        match self.shared.events.control() {
            Some(control) => control.said().await,
            None => std::future::pending().await,
        }
    }

    /// Tells the application something, without waiting for anybody who reads it. Data nested more than 96 levels deep is
    /// told as its JSON text: readers of JSON would not take the event.
    pub fn custom(&self, name: impl Into<String>, data: serde_json::Value) {
        self.emit(|| EventKind::custom(name.into(), data));
    }

    /// Tells the application what a middleware of the library has done.
    pub fn report(&self, event: MiddlewareEvent) {
        self.emit(|| EventKind::Middleware(event));
    }

    /// Asks a model something beside the conversation, such as for a summary. Its tokens count; its words are neither told
    /// as the agent's nor stored.
    ///
    /// # Errors
    /// When the model fails, or the request holds a history that providers refuse.
    pub async fn invoke_model(&self, model: &Arc<dyn ChatModel>, request: ModelRequest) -> Result<ModelOutput> {
        model_call::invoke_aside(self, model, request).await
    }

    /// Keeps a change that a wrap around a model call has made, however the call ends: also where it fails, where the run is
    /// cancelled meanwhile, or where another wrap throws the response away and asks again. It is part of the state once the
    /// call has ended, before what the [response](crate::middleware::ModelResponse::update) changes. For what has been paid
    /// for or done, and must not be done again for every try.
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
    ///     let cx = next.cx().with_kept()?;
    ///     if cx.get::<Briefing>().is_empty() {
    ///         cx.keep(Update::new::<Briefing>("It is round.".to_owned()));
    ///     }
    ///     next.run(request).await
    /// });
    /// ```
    ///
    /// Only within `wrap_model_call`: elsewhere return an update. What is kept before the call of a turn is part of the state
    /// with that call, and what is kept behind it with the next one; where none comes it is lost with the run.
    pub fn keep(&self, update: Update) {
        // As an update is given them, so that who reads what was kept and who reads the state see the same messages.
        let update = update.with_ids(&*self.shared.agent.ids);
        let mut kept = self.shared.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *kept = std::mem::take(&mut *kept).and(update);
    }

    /// The same with the state as wraps of the present model call have [kept](Self::keep) it so far, in an earlier try.
    ///
    /// # Errors
    /// When the state does not take what was kept.
    pub fn with_kept(&self) -> Result<Self> {
        let kept = self.shared.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let mut cx = self.clone();
        if !kept.is_empty() {
            cx.state.apply(&kept)?;
        }
        Ok(cx)
    }

    /// What tells the application of what outlives a call, and keeps neither the run nor its agent.
    pub fn reporter(&self) -> Reporter {
        Reporter { events: self.shared.events.clone(), path: self.shared.path.clone() }
    }

    pub(crate) fn emit(&self, kind: impl FnOnce() -> EventKind) {
        self.shared.events.emit(&self.shared.path, None, kind);
    }

    pub(crate) fn at(shared: &Arc<Shared>, state: &State, turn: u32) -> Self {
        let tools = shared.tools.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
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
