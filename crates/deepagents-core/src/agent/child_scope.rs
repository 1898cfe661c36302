//! The scope of a sub-agent: its path and its share of the events, the budget and the log.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::child_events::{ChildEvent, Progress};
use crate::context::BudgetTracker;
use crate::error::Result;
use crate::event::EventKind;
use crate::ids::{CallId, LogPosition};
use crate::interrupt::{ActionRequest, Decision};
use crate::journal::{ChildLog, Record};
use crate::machine::{Budget, BudgetState, BudgetUsage};
use crate::message::{MAX_VALUE_DEPTH, Usage, is_deeper};
use crate::panics::lock;
use crate::state::{Inheritance, too_deep};
use crate::status::FinishReason;
use crate::tool::{ToolContext, ToolError};

/// The scope of a sub-agent that a tool call runs, made by [`ToolContext::child_scope`]. It is for agents that are not
/// an [`Agent`](super::Agent) of this process, such as one behind HTTP or in a subprocess. [`ToolContext::run_child`]
/// runs local agents in such a scope.
///
/// Values [recorded](Self::record) in it are durable in the run's thread. If the call is repeated, in another process
/// or after a decision, the new scope has the same path and the recorded values. Another process repeats a call only if
/// its tool is [idempotent](crate::tool::Tool::idempotent). Dropping a scope that was not [finished](Self::finish)
/// records the sub-agent as failed.
///
/// ```
/// use deepagents_core::agent::ChildEvent;
/// use deepagents_core::message::Usage;
/// use deepagents_core::run::FinishReason;
/// use deepagents_core::tool::{ToolContext, ToolError, ToolOutput};
/// # struct Remote;
/// # impl Remote {
/// #     async fn create(&self) -> Result<String, ToolError> { Ok(String::new()) }
/// #     async fn wait(&self, _id: &str) -> Result<String, ToolError> { Ok(String::new()) }
/// # }
/// async fn delegate(remote: &Remote, cx: ToolContext) -> Result<ToolOutput, ToolError> {
///     let scope = cx.child_scope("research", "remote-researcher").await?;
///     // The agent over there goes on where it was if this call is made again.
///     let id = match scope.recorded("thread") {
///         Some(id) => id.as_str().unwrap_or_default().to_owned(),
///         None => {
///             let id = remote.create().await?;
///             scope.record("thread", id.clone()).await?;
///             id
///         }
///     };
///     scope.begin_model_call()?;
///     let answer = tokio::select! {
///         answer = remote.wait(&id) => answer?,
///         () = scope.cancellation().cancelled() => return Err(ToolError::model("It was cancelled.")),
///     };
///     scope.emit(ChildEvent::Text(answer.clone()));
///     scope.charge(Usage { input: 900, output: 40, ..Usage::default() }, 0.002).await?;
///     scope.finish(FinishReason::Done).await?;
///     Ok(answer.into())
/// }
/// ```
pub struct ChildScope {
    cx: ToolContext,
    label: String,
    agent: String,
    pub(super) path: Arc<[String]>,
    pub(super) cancel: CancellationToken,
    pub(super) budget: Arc<BudgetTracker>,
    recorded: Mutex<BTreeMap<String, Value>>,
    progress: Mutex<Progress>,
    /// Agents nested below it that have started, by path.
    below: Mutex<BTreeMap<Arc<[String]>, Progress>>,
    /// Number of questions asked so far, counted as [`ToolContext::interrupt`] does.
    asked: AtomicU32,
    /// Whether its end has been written, or is written elsewhere.
    ended: AtomicBool,
    /// Delays aborting the call until the sub-agent has ended, and lets holders of the run cancel the sub-agent.
    _guards: Vec<Box<dyn Send + Sync>>,
}

impl ToolContext {
    /// Opens the scope of a sub-agent that this call runs by means other than [`run_child`](Self::run_child). Its path
    /// is this agent's path plus `LABEL:TURN.INDEX`, made of the label and the call. When this returns, the log of the
    /// thread contains the sub-agent's start. If one call runs several sub-agents, each needs its own label.
    ///
    /// # Errors
    /// Returns [`ToolError::Fatal`] if the log cannot be written.
    pub async fn child_scope(
        &self,
        label: impl Into<String>,
        agent: impl Into<String>,
    ) -> Result<ChildScope, ToolError> {
        let label = label.into();
        let left = self.take_child_log(&label);
        let mut scope = ChildScope::open(self, label, agent.into(), left.as_ref());
        if let Some(control) = self.context().shared.events.control() {
            scope._guards.push(Box::new(control.agents.register(scope.path.clone(), scope.cancel.clone())));
        }
        scope.start(left).await?;
        Ok(scope)
    }
}

impl ChildScope {
    /// Opens a scope whose records are written elsewhere: of a sub-agent that an earlier process `left`, or of a new
    /// one.
    pub(super) fn open(cx: &ToolContext, label: String, agent: String, left: Option<&ChildLog>) -> Self {
        let (shared, call) = (&cx.context().shared, cx.call_id());
        let path = match left {
            Some(left) => left.path.clone().into(),
            None => {
                let segment = format!("{label}:{}.{}", call.turn, call.index);
                shared.path.iter().cloned().chain([segment]).collect()
            }
        };
        Self {
            cx: cx.clone(),
            label,
            agent,
            path,
            cancel: shared.cancel.child_token(),
            budget: Arc::new(BudgetTracker::of_parts(Some(shared.budget.clone()), Budget::default())),
            recorded: Mutex::default(),
            progress: Mutex::default(),
            below: Mutex::default(),
            asked: AtomicU32::new(0),
            ended: AtomicBool::new(true),
            _guards: vec![Box::new(cx.with_child())],
        }
    }

    /// Writes that the sub-agent starts, or resumes from what an earlier process left.
    async fn start(&self, left: Option<ChildLog>) -> Result<(), ToolError> {
        let (run, at) = (self.cx.run_id().to_owned(), self.cx.clock().now().to_string());
        let records = match left {
            None => {
                let (path, call) = (self.path.to_vec(), Some(self.cx.call_id().clone()));
                let (label, agent, inheritance) = (self.label.clone(), self.agent.clone(), Inheritance::Nothing);
                let begun = Record::AgentStarted { path, call, label, agent, inheritance, values: Vec::new() };
                vec![begun, Record::RunStarted { run, at, thread: None }]
            }
            Some(left) => {
                let state = BudgetState { spent: left.spent(), ..BudgetState::default() };
                // The ancestors have counted this themselves.
                self.budget.resume_from(Some(&state), &BudgetUsage::default());
                *lock(&self.recorded) = left.recorded();
                vec![Record::RunResumed { run, at, thread: None, keys: None }]
            }
        };
        self.ended.store(false, Ordering::Relaxed);
        let position = self.append(records).await?;
        self.emit_kind(position, || EventKind::AgentStarted { name: self.agent.clone() });
        Ok(())
    }

    /// Returns the path of the sub-agent in the tree.
    pub fn path(&self) -> &[String] {
        &self.path
    }

    /// Returns the sub-agent's name.
    pub fn agent_name(&self) -> &str {
        &self.agent
    }

    /// Returns the token that is cancelled with the run, with an ancestor, or by
    /// [`RunHandle::cancel_agent`](crate::run::RunHandle::cancel_agent) with this path. The call then has three seconds
    /// to return what it has, after which it is aborted.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Emits an event of the sub-agent under its path, without waiting for subscribers. These events are not stored.
    pub fn emit(&self, event: ChildEvent) {
        let kind = lock(&self.progress).kind(event, &self.path, || self.cx.ids().next("msg"));
        self.emit_kind(None, || kind);
    }

    /// Emits an event of an agent below this sub-agent, under a path below its own, as [`emit`](Self::emit) does. The
    /// first event of a path also reports the start of the agent with that name; its end is reported when this
    /// sub-agent ends.
    pub fn emit_below(&self, below: &[String], name: &str, event: ChildEvent) {
        if below.is_empty() {
            return self.emit(event);
        }
        let path: Arc<[String]> = self.path.iter().chain(below).cloned().collect();
        let emit = |kind| self.cx.context().shared.events.emit(&path, None, || kind);
        let mut all = lock(&self.below);
        let progress = all.entry(path.clone()).or_insert_with(|| {
            emit(EventKind::AgentStarted { name: name.to_owned() });
            Progress::default()
        });
        emit(progress.kind(event, &path, || self.cx.ids().next("msg")));
    }

    /// Stores a value in the thread's log under the sub-agent's path, replacing an earlier value of the key. The value
    /// is durable when this returns. Without a thread, it lasts as long as the scope.
    ///
    /// # Errors
    /// Returns [`ToolError::Model`] if the value is nested more than 96 levels deep, and [`ToolError::Fatal`] if the
    /// log cannot be written.
    pub async fn record(&self, key: impl Into<String>, value: impl Into<Value>) -> Result<(), ToolError> {
        let (key, value) = (key.into(), value.into());
        if is_deeper(&value, MAX_VALUE_DEPTH) {
            return Err(ToolError::model(format!("`{key}` cannot be recorded: {}", too_deep())));
        }
        self.append(vec![Record::ValueRecorded { key: key.clone(), value: value.clone() }]).await?;
        lock(&self.recorded).insert(key, value);
        Ok(())
    }

    /// Returns the value last recorded under a key, by this or an earlier process.
    pub fn recorded(&self, key: &str) -> Option<Value> {
        lock(&self.recorded).get(key).cloned()
    }

    /// Counts a model request. Call this before the sub-agent makes the request.
    ///
    /// # Errors
    /// Returns [`Error::BudgetExhausted`](crate::error::Error::BudgetExhausted) if the budget of an ancestor is spent.
    /// Nothing is counted in that case, and the sub-agent must end.
    pub fn begin_model_call(&self) -> Result<()> {
        self.budget.begin_request(|| None)
    }

    /// Counts tokens that the sub-agent has used and their cost, in the currency of the model prices, for it and all
    /// its ancestors. If any limit is set, the amount spent is durable when this returns.
    ///
    /// # Errors
    /// Returns an error if the cost is negative or not finite, and [`ToolError::Fatal`] if the log cannot be written.
    pub async fn charge(&self, usage: Usage, cost: f64) -> Result<(), ToolError> {
        Budget::default().cost(cost).check()?;
        self.budget.charge(&self.agent, usage, cost);
        match self.budget.budget_state() {
            Some(BudgetState { spent, .. }) => self.append(vec![Record::BudgetCharged { spent }]).await.map(drop),
            None => Ok(()),
        }
    }

    /// Returns what this sub-agent may still spend: the minimum of what it and its ancestors have left. What is not
    /// limited is `None`.
    pub fn remaining(&self) -> Budget {
        self.budget.remaining()
    }

    /// Returns what the sub-agent has spent. If any limit is set, this includes the amounts of earlier processes.
    pub fn spent(&self) -> BudgetUsage {
        self.budget.spent()
    }

    /// Makes a question of the sub-agent about an action it is about to take, to pass to
    /// [`interrupt`](Self::interrupt).
    pub fn question(&self, tool: impl Into<String>, args: Value) -> ActionRequest {
        ActionRequest::about(&self.call_id(), tool, args, self.cx.clock().now().to_string())
    }

    /// Asks a person on behalf of the sub-agent, as [`ToolContext::interrupt`] does for a call. The question carries
    /// the sub-agent's path.
    ///
    /// # Errors
    /// Returns [`ToolError::Interrupted`] while there is no answer: propagate it with `?`. The call is repeated once
    /// there is one.
    #[doc(alias = "ask")]
    pub async fn interrupt(&self, question: ActionRequest) -> Result<Decision, ToolError> {
        let mut decisions = self.interrupt_all(vec![question]).await?;
        decisions.pop().ok_or_else(|| ToolError::model("there is no answer"))
    }

    /// Asks a person several questions at once, as [`interrupt`](Self::interrupt) does, and returns the decisions in
    /// order.
    ///
    /// # Errors
    /// Returns [`ToolError::Interrupted`] while an answer is missing: propagate it with `?`. The call is repeated once
    /// all are there.
    pub async fn interrupt_all(&self, questions: Vec<ActionRequest>) -> Result<Vec<Decision>, ToolError> {
        match self.cx.decisions(&self.call_id(), &self.asked, questions) {
            Ok(decisions) => Ok(decisions),
            Err(pause) => {
                self.end(Some(FinishReason::Interrupted), None).await?;
                Err(ToolError::Interrupted(pause))
            }
        }
    }

    /// Records and emits the end of the sub-agent. Anything after that belongs to none of its runs.
    ///
    /// # Errors
    /// Returns [`ToolError::Fatal`] if the log cannot be written.
    pub async fn finish(&self, reason: FinishReason) -> Result<(), ToolError> {
        self.end(Some(reason), None).await
    }

    /// Records the failure of the sub-agent, and emits it with the error.
    ///
    /// # Errors
    /// Returns [`ToolError::Fatal`] if the log cannot be written.
    pub async fn fail(&self, error: impl fmt::Display + Send) -> Result<(), ToolError> {
        let error = error.to_string();
        self.end(None, Some(error)).await
    }

    async fn end(&self, stop: Option<FinishReason>, error: Option<String>) -> Result<(), ToolError> {
        self.ended.store(true, Ordering::Relaxed);
        let position = self.append(vec![self.finished(stop.clone())]).await?;
        self.emit_end(position, stop, error);
        Ok(())
    }

    fn finished(&self, stop: Option<FinishReason>) -> Record {
        Record::RunFinished { run: self.cx.run_id().to_owned(), stop }
    }

    fn emit_end(&self, position: Option<LogPosition>, stop: Option<FinishReason>, error: Option<String>) {
        for path in std::mem::take(&mut *lock(&self.below)).into_keys().rev() {
            let stop = stop.clone().unwrap_or(FinishReason::Ended);
            let ended = EventKind::AgentFinished { stop, usage: Usage::default() };
            self.cx.context().shared.events.emit(&path, None, || ended);
        }
        let usage = self.budget.total();
        self.emit_kind(position, || match stop {
            Some(stop) => EventKind::AgentFinished { stop, usage },
            None => EventKind::AgentFailed { kind: "sub_agent".to_owned(), error: error.unwrap_or_default() },
        });
    }

    /// The call that the sub-agent's questions refer to.
    fn call_id(&self) -> CallId {
        CallId { path: self.path.to_vec(), turn: 0, index: 0 }
    }

    /// Emits an event. `position` is the position after the record that the event stems from, if any.
    fn emit_kind(&self, position: Option<LogPosition>, kind: impl FnOnce() -> EventKind) {
        self.cx.context().shared.events.emit(&self.path, position, kind);
    }

    /// Appends records of the sub-agent and returns the position after them, or `None` without a thread.
    async fn append(&self, records: Vec<Record>) -> Result<Option<LogPosition>, ToolError> {
        let Some(log) = self.cx.context().shared.log.get() else { return Ok(None) };
        let below = |record| Record::Child { path: self.path.to_vec(), entry: Box::new(record) };
        log.append(records.into_iter().map(below).collect()).await.map(Some).map_err(ToolError::fatal)
    }
}

/// Dropping the scope before an end was written records a failure.
impl Drop for ChildScope {
    fn drop(&mut self) {
        if self.ended.load(Ordering::Relaxed) {
            return;
        }
        // One poll hands the records to the writer, which places them before the result of the call.
        let _ = self.append(vec![self.finished(None)]).now_or_never();
        self.emit_end(None, None, Some("its call ended before it".to_owned()));
    }
}

impl fmt::Debug for ChildScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildScope").field("path", &self.path).field("agent", &self.agent).finish_non_exhaustive()
    }
}
