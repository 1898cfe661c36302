//! Contexts without a run, for tests of middlewares and tools.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{AgentDefinition, BudgetTracker, Context, Emitter, Extensions, Shared};
use crate::env::{Clock, Ids};
use crate::event::{EventStream, Subscribe};
use crate::ids::{RunId, ThreadId};
use crate::machine::Budget;
use crate::state::{Channel, State};
use crate::status::FinishReason;
use crate::store::Store;
use crate::tool::ToolSet;

/// Builds a [`Context`] that belongs to no run, for testing hooks and tools in isolation.
///
/// A middleware, called in the same way as by a run:
///
/// ```
/// use deepagents_core::error::Result;
/// use deepagents_core::message::Message;
/// use deepagents_core::middleware::{HookOutput, JumpTo, Middleware};
/// use deepagents_core::run::{Context, ContextBuilder};
/// use deepagents_core::state::{State, Update};
///
/// /// Ends a run whose conversation has become too long.
/// struct Short(usize);
///
/// impl Middleware for Short {
///     fn name(&self) -> &str { "Short" }
///     async fn before_model(&self, cx: &Context) -> Result<HookOutput> {
///         let long = cx.messages().len() > self.0;
///         Ok(if long { HookOutput::go(JumpTo::End) } else { HookOutput::next() })
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut state = State::default();
/// state.apply(&Update::message(Message::user("Hello")))?;
/// let cx = ContextBuilder::new().state(state).thread("t1").build();
/// assert_eq!(Short(0).before_model(&cx).await?.go, JumpTo::End);
/// assert_eq!(Short(1).before_model(&cx).await?.go, JumpTo::Continue);
/// # Ok::<(), deepagents_core::error::Error>(()) }).unwrap();
/// ```
///
/// A tool, called with its own context:
///
/// ```
/// use deepagents_core::run::ContextBuilder;
/// use deepagents_core::tool::{Tool, ToolContext, tool_fn};
/// use serde_json::json;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Greet { name: String }
/// struct Language(&'static str);
///
/// let greet = tool_fn("greet", "Greets.", |args: Greet, cx: ToolContext| async move {
///     let hello = cx.extension::<Language>().map_or("Hello", |language| language.0);
///     Ok(format!("{hello}, {}!", args.name))
/// });
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let cx = ContextBuilder::new().extension(Language("Ciao")).build();
/// let cx = ToolContext::new(cx, "greet", json!({"name": "Ada"}));
/// let output = greet.call(Greet { name: "Ada".to_owned() }, cx).await.unwrap();
/// assert_eq!(output.content[0].as_text(), Some("Ciao, Ada!"));
/// # });
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct ContextBuilder {
    agent: AgentDefinition,
    state: Option<State>,
    run: Option<String>,
    thread: Option<ThreadId>,
    path: Vec<String>,
    turn: u32,
    stop: Option<FinishReason>,
    extensions: Extensions,
    budget: Budget,
    cancel: CancellationToken,
}

impl ContextBuilder {
    /// Creates a context of the main agent, without a thread and with an empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a context of an existing agent, with its model, tools and middlewares.
    pub fn for_agent(agent: &AgentDefinition) -> Self {
        let budget = agent.budget.clone();
        Self { agent: agent.clone(), budget, ..Self::default() }
    }

    /// Sets the agent's name; `agent` by default.
    pub fn agent_name(mut self, name: impl Into<String>) -> Self {
        self.agent.name = name.into();
        self
    }

    /// Sets the state, in place of any set before, also by [`channel`](Self::channel); by default empty, with only the
    /// conversation.
    pub fn state(mut self, state: State) -> Self {
        self.state = Some(state);
        self
    }

    /// Declares a channel of the state and sets its value.
    ///
    /// ```
    /// use deepagents_core::last_value;
    /// use deepagents_core::run::ContextBuilder;
    /// last_value!(Lines("lines"): u32);
    /// let cx = ContextBuilder::new().channel::<Lines>(3).build();
    /// assert_eq!(cx.get::<Lines>(), 3);
    /// ```
    pub fn channel<C: Channel>(mut self, value: C::Value) -> Self {
        let state = self.state.unwrap_or_else(|| State::new(self.agent.schema.clone()));
        self.state = Some(state.with_channel::<C>(value));
        self
    }

    /// Sets the id of the run.
    pub fn run_id(mut self, run: impl Into<String>) -> Self {
        self.run = Some(run.into());
        self
    }

    /// Sets the thread.
    pub fn thread(mut self, thread: impl Into<ThreadId>) -> Self {
        self.thread = Some(thread.into());
        self
    }

    /// Sets the path in the tree of agents, for a sub-agent.
    pub fn path(mut self, path: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.path = path.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the number of answers that the model has given in the agent's thread.
    pub fn turn(mut self, turn: u32) -> Self {
        self.turn = turn;
        self
    }

    /// Sets why the run is about to end, for `after_agent` hooks.
    pub fn stop(mut self, reason: FinishReason) -> Self {
        self.stop = Some(reason);
        self
    }

    /// Adds a value that the application would pass with a run's input.
    pub fn extension<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// Sets the long-term store.
    pub fn store(mut self, store: impl Store) -> Self {
        self.agent.store = Some(Arc::new(store));
        self
    }

    /// Sets the clock; the system clock by default.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.agent.clock = Arc::new(clock);
        self
    }

    /// Sets the id generator; random ids by default.
    pub fn ids(mut self, ids: impl Ids) -> Self {
        self.agent.ids = Arc::new(ids);
        self
    }

    /// Sets the agent's tools.
    pub fn tools(mut self, tools: ToolSet) -> Self {
        self.agent.tools = tools;
        self
    }

    /// Sets the budget.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the token that cancels the run.
    pub fn cancellation(mut self, token: CancellationToken) -> Self {
        self.cancel = token;
        self
    }

    /// Builds the context. Events emitted with it are discarded.
    pub fn build(self) -> Context {
        let run = self.run_or_new();
        self.with_emitter(run.clone(), Emitter::silent(run))
    }

    /// Builds the context, and returns it with a stream of its events. The stream does not end.
    ///
    /// ```
    /// use deepagents_core::event::EventKind;
    /// use deepagents_core::run::ContextBuilder;
    /// use futures_util::{FutureExt, StreamExt};
    /// let (cx, mut events) = ContextBuilder::new().build_with_events();
    /// cx.custom("ready", true.into());
    /// let event = events.next().now_or_never().flatten().unwrap();
    /// assert!(matches!(event.kind, EventKind::Custom { name, .. } if name == "ready"));
    /// ```
    pub fn build_with_events(self) -> (Context, EventStream) {
        let run = self.run_or_new();
        let (emitter, hub, _control) = Emitter::new(run.clone(), self.agent.clock.clone(), None, false);
        let events = hub.subscribe(Subscribe::Start);
        (self.with_emitter(run, emitter), events)
    }

    fn run_or_new(&self) -> RunId {
        RunId::new(self.run.clone().unwrap_or_else(|| self.agent.ids.next("run")))
    }

    fn with_emitter(self, run: RunId, events: Emitter) -> Context {
        let Self { agent, state, thread, path, turn, stop, extensions, budget, cancel, .. } = self;
        let state = state.unwrap_or_else(|| State::new(agent.schema.clone()));
        let budget = Arc::new(BudgetTracker::new(None, budget, &agent.budget));
        let shared = Shared::new(Arc::new(agent), run, events, cancel, budget);
        let shared = Shared { thread, path: path.into(), extensions, ..shared };
        Context { stop, ..Context::at(&Arc::new(shared), &state, turn) }
    }
}
