//! The context of a tool call.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::ToolError;
use super::progress::ProgressTail;
use crate::context::Context;
use crate::event::EventKind;
use crate::ids::CallId;
use crate::interrupt::{ActionRequest, ActionRequests, AnswerForm, Decision, DecisionKind, PendingInterrupt};
use crate::journal::ChildLog;
use crate::message::ToolCall;
use crate::panics::lock;

/// The context that a tool receives with its arguments: the run's [`Context`] and data about the call.
///
/// ```
/// use deepagents_core::tool::{ToolContext, tool_fn};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Pay { euros: u32 }
/// let pay = tool_fn("pay", "Pays a bill.", |args: Pay, cx: ToolContext| async move {
///     cx.progress("asking the bank");
///     // The same key if the call is made again after a crash.
///     Ok(format!("Paid {} euros under {}.", args.euros, cx.key()))
/// });
/// ```
#[derive(Clone)]
pub struct ToolContext {
    context: Context,
    call: Arc<CallInfo>,
    /// The call as it is made, if a wrap hook has changed it.
    changed: Option<Arc<ToolCall>>,
    /// Filters progress text before it is emitted.
    progress: Option<Arc<ProgressFilter>>,
    /// Number of questions asked with this context so far. It starts again for each attempt of the call, so answered
    /// questions count again.
    asked: Arc<AtomicU32>,
}

/// Changes progress text; `None` suppresses it.
type ProgressFilter = dyn Fn(String) -> Option<String> + Send + Sync;

pub(crate) struct CallInfo {
    pub(crate) id: CallId,
    pub(crate) provider_call_id: String,
    pub(crate) name: String,
    pub(crate) args: Value,
    /// Number of its sub-agents running now.
    pub(crate) children: AtomicU32,
    /// Sub-agents that it ran in an earlier process and has not resumed yet.
    left: Mutex<Vec<ChildLog>>,
    /// The tail of its progress output.
    output: Mutex<ProgressTail>,
}

impl CallInfo {
    /// Creates the data of a call that starts, with the sub-agents that it ran in an earlier process.
    pub(crate) fn new(id: CallId, call: ToolCall, left: Vec<ChildLog>) -> Self {
        Self {
            id,
            provider_call_id: call.id,
            name: call.name,
            args: call.args,
            children: AtomicU32::new(0),
            left: Mutex::new(left),
            output: Mutex::default(),
        }
    }

    /// Takes the tail of the progress output, if there is any.
    pub(crate) fn take_output(&self) -> Option<String> {
        lock(&self.output).take()
    }

    /// Takes what an earlier process left of the call's sub-agents, or only of the one with this label.
    pub(crate) fn take_child_logs(&self, label: Option<&str>) -> Vec<ChildLog> {
        let mut left = lock(&self.left);
        left.extract_if(.., |child| label.is_none_or(|label| child.label == label)).collect()
    }
}

impl ToolContext {
    /// Creates the context of a call that no model made, for tests of tools and wrap hooks. See
    /// [`ContextBuilder`](crate::run::ContextBuilder).
    pub fn new(context: Context, tool: impl Into<String>, args: Value) -> Self {
        let id = CallId { path: context.path().to_vec(), turn: context.turn, index: 0 };
        Self::for_call(context, id, "call_0".to_owned(), tool.into(), args)
    }

    /// Creates the context of a call with an id.
    pub(crate) fn for_call(context: Context, id: CallId, provider_call_id: String, name: String, args: Value) -> Self {
        let call = ToolCall { id: provider_call_id, name, args, ..ToolCall::default() };
        Self::with_call(context, Arc::new(CallInfo::new(id, call, Vec::new())))
    }

    pub(crate) fn with_call(context: Context, call: Arc<CallInfo>) -> Self {
        Self { context, call, changed: None, progress: None, asked: Arc::default() }
    }

    /// Returns the run's context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the harness's own id of the call.
    pub fn call_id(&self) -> &CallId {
        &self.call.id
    }

    /// Returns the provider's id of the call.
    pub fn provider_call_id(&self) -> &str {
        &self.call.provider_call_id
    }

    /// Returns the name by which the tool was called.
    pub fn tool_name(&self) -> &str {
        &self.call.name
    }

    /// Returns an idempotency key: the same if this or another process repeats the call, and different for every other
    /// call. It consists of the run's id and the call's id, so it is unique only if ids given with
    /// [`RunInput::id`](crate::run::RunInput::id) are. If the run is resumed in a [copy](crate::journal::Threads::copy)
    /// of its thread, its calls there have different keys.
    pub fn key(&self) -> String {
        format!("{}:{}", self.context.shared.run.keys(), self.call.id)
    }

    /// Returns `true` if the call was made with [`Agent::call_tool`](crate::agent::Agent::call_tool). Its caller gets the
    /// questions that it asks, so a person can be asked even without a thread.
    pub fn is_direct(&self) -> bool {
        self.call.id.path.as_slice() != self.path()
    }

    /// Asks a person. The first time, this returns an error to propagate with `?`, and the run waits. Once there is an
    /// answer, the call is repeated from its beginning, and this returns the decision.
    ///
    /// # Errors
    /// Returns [`ToolError::Interrupted`] while there is no answer.
    pub fn interrupt(
        &self,
        text: impl Into<String>,
        allowed: impl Into<Vec<DecisionKind>>,
    ) -> Result<Decision, ToolError> {
        self.interrupt_with(self.question().text(text).allowed(allowed))
    }

    /// Asks a person because of a rule, which the question names. Otherwise the same as [`interrupt`](Self::interrupt).
    ///
    /// # Errors
    /// Returns [`ToolError::Interrupted`] while there is no answer.
    pub fn interrupt_by(
        &self,
        rule: impl Into<String>,
        text: impl Into<String>,
        allowed: impl Into<Vec<DecisionKind>>,
    ) -> Result<Decision, ToolError> {
        self.interrupt_with(self.question().rule(rule).text(text).allowed(allowed))
    }

    /// Asks a person for an answer that fits a form, as [`interrupt`](Self::interrupt) does. The person may also
    /// decline.
    ///
    /// # Errors
    /// Returns [`ToolError::Interrupted`] while there is no answer.
    pub fn interrupt_for_answer(
        &self,
        text: impl Into<String>,
        form: Option<AnswerForm>,
    ) -> Result<Decision, ToolError> {
        let question = self.question().text(text).allowed([DecisionKind::Respond, DecisionKind::Reject]);
        self.interrupt_with(ActionRequest { form, ..question })
    }

    /// Creates a question about this call as it is made.
    fn question(&self) -> ActionRequest {
        let (name, args) = match &self.changed {
            Some(call) => (&call.name, &call.args),
            None => (&self.call.name, &self.call.args),
        };
        ActionRequest::about(&self.call.id, name, args.clone(), self.clock().now().to_string())
    }

    /// Returns the context for a call that wrap hooks may have changed: a person is asked about the call that is made.
    pub(crate) fn changed_to(mut self, call: &ToolCall) -> Self {
        let same = (&call.name, &call.args) == (&self.call.name, &self.call.args);
        self.changed = (!same).then(|| Arc::new(call.clone()));
        self
    }

    /// Returns the context for one attempt of the rest of the stack, with a question counter of its own. Each attempt
    /// numbers its questions from the same start, so an answer applies to every attempt.
    pub(crate) fn made_again(mut self) -> Self {
        self.asked = Arc::new(AtomicU32::new(self.asked.load(Ordering::Relaxed)));
        self
    }

    fn interrupt_with(&self, question: ActionRequest) -> Result<Decision, ToolError> {
        let mut decisions = self.interrupt_for(&[question])?;
        decisions.pop().ok_or_else(|| ToolError::model("there is no answer"))
    }

    /// Returns the decisions on questions about a call, in order. `count` is the number of the call's next question.
    ///
    /// # Errors
    /// Returns the interrupt that asks what has no answer.
    pub(crate) fn decisions(
        &self,
        call: &CallId,
        count: &AtomicU32,
        questions: impl IntoIterator<Item = ActionRequest>,
    ) -> Result<Vec<Decision>, Box<PendingInterrupt>> {
        let (mut decisions, mut open) = (Vec::new(), Vec::new());
        for question in questions {
            match self.asked(call, count, question) {
                (_, Some(answer)) => decisions.push(answer),
                (question, None) => open.push(question),
            }
        }
        if open.is_empty() { Ok(decisions) } else { Err(Box::new(PendingInterrupt { questions: open, child: None })) }
    }

    /// Returns a question with its id, and its answer if there is one. Answers are matched by content, not by position,
    /// because a repeated call may ask something else first.
    fn asked(&self, call: &CallId, count: &AtomicU32, question: ActionRequest) -> (ActionRequest, Option<Decision>) {
        let agent = question.agent.clone().or_else(|| self.sub_agent_name().map(str::to_owned));
        let question = ActionRequest { call: call.clone(), agent, ..question };
        let state = self.state().get::<ActionRequests>();
        loop {
            let id = format!("{call}?{}", count.fetch_add(1, Ordering::Relaxed));
            let known = state.and_then(|asked| asked.get(&id));
            let same = |known: &ActionRequest| {
                (&known.tool, &known.args, &known.text, &known.allowed)
                    == (&question.tool, &question.args, &question.text, &question.allowed)
            };
            if known.is_none_or(|known| same(&known.request)) {
                let answer = known.and_then(|known| known.decision.as_ref()).map(|answer| answer.decision.clone());
                return (ActionRequest { id, ..question }, answer);
            }
        }
    }

    /// Asks a person several questions on behalf of other calls at once, as [`interrupt`](Self::interrupt) does. The
    /// person sees those calls, not this one, and may decide what each question allows. Returns the decisions in order.
    ///
    /// # Errors
    /// Returns [`ToolError::Interrupted`] while an answer is missing.
    pub fn interrupt_for(&self, others: &[ActionRequest]) -> Result<Vec<Decision>, ToolError> {
        self.decisions(&self.call.id, &self.asked, others.iter().cloned()).map_err(ToolError::Interrupted)
    }

    /// Returns the same call in another context.
    pub(crate) fn in_context(&self, context: Context) -> Self {
        Self { context, ..self.clone() }
    }

    /// Takes what an earlier process left of a sub-agent of the call.
    pub(crate) fn take_child_log(&self, label: &str) -> Option<ChildLog> {
        self.call.take_child_logs(Some(label)).into_iter().next()
    }

    /// Counts a running sub-agent of the call until the guard is dropped.
    pub(crate) fn with_child(&self) -> impl Drop + use<> {
        struct Child(Arc<CallInfo>);
        impl Drop for Child {
            fn drop(&mut self) {
                self.0.children.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.call.children.fetch_add(1, Ordering::Relaxed);
        Child(self.call.clone())
    }

    /// Reports progress without waiting for subscribers. The reported texts are pieces of one text, so end a line with
    /// a newline. If the call does not finish because the run is cancelled, fails or exceeds its time, the model is
    /// shown the last 4 kB.
    pub fn progress(&self, text: impl Into<String>) {
        let text = match &self.progress {
            Some(filter) => filter(text.into()),
            None => Some(text.into()),
        };
        let Some(text) = text else { return };
        lock(&self.call.output).push(&text);
        let call = self.call.id.clone();
        self.context.emit(|| EventKind::ToolProgress { call, text });
    }

    /// Returns the same call with a filter on its progress text. If the filter returns `None`, nothing is reported.
    #[must_use]
    pub fn with_progress(&self, filter: impl Fn(String) -> Option<String> + Send + Sync + 'static) -> Self {
        let outer = self.progress.clone();
        let both = move |text: String| {
            let text = filter(text)?;
            match &outer {
                Some(outer) => outer(text),
                None => Some(text),
            }
        };
        Self { progress: Some(Arc::new(both)), ..self.clone() }
    }
}

impl Deref for ToolContext {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("call", &self.call.id)
            .field("tool", &self.call.name)
            .finish_non_exhaustive()
    }
}
