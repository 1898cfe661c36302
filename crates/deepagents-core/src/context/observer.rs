//! Observers between a run and the outside, such as recorders and replayers.

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
use crate::forward_model;
use crate::interrupt::DecisionRecord;
use crate::machine::Budget;
use crate::message::Message;
use crate::middleware::{ToolNext, ToolRequest, ToolResponse};
use crate::model::{ChatModel, ModelError, ModelEvent, ModelRequest};

/// Observes a run and its sub-agents: every model call and every tool call passes through it, and it sees every event.
/// Set any number of observers with [`RunInput::observer`](crate::run::RunInput::observer). Runs that a tool starts
/// independently, such as background agents, have none.
///
/// Every method has a default, so an observer implements only what it needs:
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
    /// Called when a run starts or resumes. An error ends the run.
    ///
    /// # Errors
    /// Returns an error if the observer cannot take part in the run.
    fn begin(&self, _beginning: RunStart<'_>) -> Result<()> {
        Ok(())
    }

    /// Makes a model call, or answers in place of the model.
    fn model(
        self: Arc<Self>,
        _call: ModelCall,
        model: &Arc<dyn ChatModel>,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        model.stream(request)
    }

    /// Makes a tool call through the middlewares, or answers in its place.
    fn tool(self: Arc<Self>, request: ToolRequest, next: ToolNext) -> BoxFuture<'static, Result<ToolResponse>> {
        next.run(request)
    }

    /// Called for each event, in order and before subscribers can read it. Must not block. Receives an answer before
    /// the answer's calls start, and may suspend the run at that point.
    fn event(&self, _event: &Event) {}
}

/// Creates an observer for each run of an agent.
pub type Observers = Arc<dyn Fn() -> Arc<dyn RunObserver> + Send + Sync>;

/// The start or resumption of a run.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunStart<'a> {
    /// The main agent.
    pub agent: &'a AgentDefinition,
    /// The run's input.
    pub input: InputRecord,
    /// Whether its thread has no messages yet.
    pub fresh: bool,
    /// Whether it starts from an earlier position of its thread.
    pub rewinds: bool,
    /// Cancels the run.
    pub cancel: CancellationToken,
    /// Suspends the run, even before its first step.
    pub suspender: Suspender,
}

/// A model call about to be made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelCall {
    /// The path of the calling agent.
    pub path: Arc<[String]>,
    /// The turn: the number of earlier model answers in the agent's thread.
    pub turn: u32,
    /// Whether the call is outside the conversation, made with [`Context::invoke_model`].
    pub aside: bool,
    /// The agent's purpose, if set.
    pub description: Option<Arc<str>>,
}

/// Version of the JSON form of [`InputRecord`]. It is incremented when a field changes meaning or is removed, not when
/// one is added.
pub const INPUT_VERSION: u32 = 1;

fn input_version() -> u32 {
    INPUT_VERSION
}

/// The input of a run as data. Excludes values for hooks and tools, observers, the start position, the time limit and
/// the lease.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InputRecord {
    /// [`INPUT_VERSION`]. Missing in records of earlier versions.
    #[serde(default = "input_version")]
    pub v: u32,
    /// The run's id, if the caller set one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Messages to start with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// State changes by channel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub update: Vec<(String, Value)>,
    /// The thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The budget, except the time limit.
    #[serde(default, skip_serializing_if = "Budget::is_unlimited")]
    pub budget: Budget,
    /// Maximum number of model calls of each agent of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_calls: Option<u32>,
    /// Whether to resume an unfinished run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resume: bool,
    /// Answers to questions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<(String, DecisionRecord)>,
}

impl fmt::Debug for dyn RunObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunObserver")
    }
}

/// Nests an observer inside another one.
pub(crate) fn nested(outer: Arc<dyn RunObserver>, inner: Arc<dyn RunObserver>) -> Arc<dyn RunObserver> {
    Arc::new(Nested { outer, inner })
}

/// Replaces an observer that could not be created, so that the run does not start without it.
pub(crate) struct NoObserver(String);

impl NoObserver {
    pub(crate) fn because(panic: &str) -> Arc<dyn RunObserver> {
        Arc::new(Self(format!("the closure of `observe_runs` panicked: {panic}")))
    }
}

impl RunObserver for NoObserver {
    fn begin(&self, _beginning: RunStart<'_>) -> Result<()> {
        Err(Error::other(self.0.clone()))
    }
}

/// Two nested observers.
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

/// A model called through an observer.
struct ObservedModel {
    observer: Arc<dyn RunObserver>,
    call: ModelCall,
    model: Arc<dyn ChatModel>,
}

impl ChatModel for ObservedModel {
    forward_model!([.model]; name, profile, server, count_tokens);

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        self.observer.clone().model(self.call.clone(), &self.model, request)
    }
}

/// Wraps the model in the run's observer, if it has one.
pub(crate) fn through(cx: &Context, model: &Arc<dyn ChatModel>, aside: bool) -> Arc<dyn ChatModel> {
    let Some(observer) = &cx.shared.observer else { return model.clone() };
    let description = cx.shared.agent.description.clone();
    let call = ModelCall { path: cx.shared.path.clone(), turn: cx.turn, aside, description };
    Arc::new(ObservedModel { observer: observer.clone(), call, model: model.clone() })
}
