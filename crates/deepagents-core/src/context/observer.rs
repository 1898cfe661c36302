//! What may stand between a run and the world: recorders, and what plays recordings.

use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{AgentDefinition, Context, Suspender};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::interrupt::DecisionRecord;
use crate::machine::Budget;
use crate::message::Message;
use crate::middleware::{ToolNext, ToolRequest, ToolResponse};
use crate::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest, ModelServer};
use crate::panics::panic_text;

/// Stands between a run, its sub-agents included, and what is outside of it: every model call and every tool call passes
/// through it, and it sees every event. Given with [`RunInput::observer`](crate::run::RunInput::observer), any number of
/// them; runs that a tool starts on its own, such as those
/// in the background, have none.
///
/// Every method has a default, so that an observer names only what it looks at:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use deepagents_core::event::{Event, EventKind};
/// use deepagents_core::run::{RunInput, RunObserver};
///
/// /// Counts the calls that begin.
/// #[derive(Default)]
/// struct Calls(AtomicUsize);
///
/// impl RunObserver for Calls {
///     fn event(&self, event: &Event) {
///         if matches!(event.kind, EventKind::ToolStarted { .. }) {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let input = RunInput::new("Go.").observer(Arc::new(Calls::default()));
/// ```
pub trait RunObserver: Send + Sync + 'static {
    /// A run begins or goes on; an error ends it.
    ///
    /// # Errors
    /// When the run is none that the observer can be part of.
    fn begin(&self, _beginning: RunStart<'_>) -> Result<()> {
        Ok(())
    }

    /// Makes a model call, or answers in the model's place.
    fn model(
        self: Arc<Self>,
        _call: ModelCall,
        model: &Arc<dyn ChatModel>,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        model.stream(request)
    }

    /// Makes a tool call with everything around it, or answers in its place.
    fn tool(self: Arc<Self>, request: ToolRequest, next: ToolNext) -> BoxFuture<'static, Result<ToolResponse>> {
        next.run(request)
    }

    /// Something happened. Called in the order of the events, before anybody can read them; it must not block. It is told of
    /// an answer before the answer's calls begin, and may suspend the run between them.
    fn event(&self, _event: &Event) {}
}

/// Gives an observer for each run of an agent.
pub type Observers = Arc<dyn Fn() -> Arc<dyn RunObserver> + Send + Sync>;

/// A run that begins or goes on.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunStart<'a> {
    /// The main agent.
    pub agent: &'a AgentDefinition,
    /// What the run is given.
    pub input: InputRecord,
    /// Whether nothing was said in its thread before.
    pub fresh: bool,
    /// Whether it begins from an earlier position of its thread.
    pub rewinds: bool,
    /// Ends the run.
    pub cancel: CancellationToken,
    /// Suspends the run, from before its first step on.
    pub suspender: Suspender,
}

/// A model call about to be made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelCall {
    /// The agent that asks.
    pub path: Arc<[String]>,
    /// Count of model answers in the agent's thread.
    pub turn: u32,
    /// Whether it is asked beside the conversation, with [`Context::invoke_model`].
    pub aside: bool,
    /// What the agent is for, where that was said.
    pub description: Option<Arc<str>>,
}

/// Version of the JSON form of [`InputRecord`]. It grows when a field changes its meaning or goes away, not when one is
/// added.
pub const INPUT_VERSION: u32 = 1;

fn input_version() -> u32 {
    INPUT_VERSION
}

/// What a run is given, as data. Values for hooks and tools, observers, the position it begins from, the time limit and
/// the lease are not part of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InputRecord {
    /// [`INPUT_VERSION`]. Records of earlier versions have none.
    #[serde(default = "input_version")]
    pub v: u32,
    /// The run's id, where the caller gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Messages to begin with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// Changes to the state, channel by channel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub update: Vec<(String, Value)>,
    /// The thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// What it may spend beside time.
    #[serde(default, skip_serializing_if = "Budget::is_unlimited")]
    pub budget: Budget,
    /// Whether an unfinished run is gone on with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resume: bool,
    /// Answers to questions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<(String, DecisionRecord)>,
}

#[derive(Clone)]
pub(crate) struct SharedObserver(pub(crate) Arc<dyn RunObserver>);

impl fmt::Debug for SharedObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunObserver")
    }
}

impl SharedObserver {
    /// Both, this one around the other.
    pub(crate) fn around(self, inner: Self) -> Self {
        Self(Arc::new(Nested { outer: self.0, inner: inner.0 }))
    }
}

/// In the place of an observer that could not be made: the run does not begin without it.
pub(crate) struct NoObserver(String);

impl NoObserver {
    pub(crate) fn because(panic: &(dyn std::any::Any + Send)) -> Arc<Self> {
        Arc::new(Self(format!("the closure of `observe_runs` panicked: {}", panic_text(panic))))
    }
}

impl RunObserver for NoObserver {
    fn begin(&self, _beginning: RunStart<'_>) -> Result<()> {
        Err(Error::other(self.0.clone()))
    }
}

/// Two observers, one around the other.
struct Nested {
    outer: Arc<dyn RunObserver>,
    inner: Arc<dyn RunObserver>,
}

impl RunObserver for Nested {
    fn begin(&self, start: RunStart<'_>) -> Result<()> {
        let (input, cancel, suspender) = (start.input.clone(), start.cancel.clone(), start.suspender.clone());
        self.outer.begin(RunStart { input, cancel, suspender, ..start })?;
        self.inner.begin(start)
    }

    fn model(
        self: Arc<Self>,
        call: ModelCall,
        model: &Arc<dyn ChatModel>,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let observer = self.inner.clone();
        let inner: Arc<dyn ChatModel> = Arc::new(ObservedModel { observer, call: call.clone(), model: model.clone() });
        self.outer.clone().model(call, &inner, request)
    }

    fn tool(self: Arc<Self>, request: ToolRequest, next: ToolNext) -> BoxFuture<'static, Result<ToolResponse>> {
        self.outer.clone().tool(request, next.through(self.inner.clone()))
    }

    fn event(&self, event: &Event) {
        self.outer.event(event);
        self.inner.event(event);
    }
}

/// A model as it is asked through an observer.
struct ObservedModel {
    observer: Arc<dyn RunObserver>,
    call: ModelCall,
    model: Arc<dyn ChatModel>,
}

impl ChatModel for ObservedModel {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn profile(&self) -> ModelProfile {
        self.model.profile()
    }

    fn server(&self) -> Option<ModelServer> {
        self.model.server()
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'static, Result<Option<u64>, ModelError>> {
        self.model.count_tokens(request)
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        self.observer.clone().model(self.call.clone(), &self.model, request)
    }
}

/// The model as the run asks it.
pub(crate) fn through(cx: &Context, model: &Arc<dyn ChatModel>, aside: bool) -> Arc<dyn ChatModel> {
    let Some(SharedObserver(observer)) = &cx.shared.observer else { return model.clone() };
    let description = cx.shared.agent.description.clone();
    let call = ModelCall { path: cx.shared.path.clone(), turn: cx.turn, aside, description };
    Arc::new(ObservedModel { observer: observer.clone(), call, model: model.clone() })
}
