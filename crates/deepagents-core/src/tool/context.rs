//! What a tool knows of its call.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::ToolError;
use super::progress::ProgressTail;
use crate::context::Context;
use crate::event::EventKind;
use crate::ids::CallId;
use crate::interrupt::PendingInterrupt;
use crate::interrupt::{ActionRequest, ActionRequests, AnswerForm, Decision, DecisionKind};
use crate::journal::ChildLog;
use crate::message::ToolCall;

/// What a tool is given beside its arguments: the run's [`Context`] and its own call.
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
    /// The call as it is made, where a wrap has changed it.
    changed: Option<Arc<ToolCall>>,
    /// What words of progress pass through, as they go out.
    progress: Option<Arc<ProgressFilter>>,
}

/// Changes words of progress; nothing is told where it gives none.
type ProgressFilter = dyn Fn(String) -> Option<String> + Send + Sync;

pub(crate) struct CallInfo {
    pub(crate) id: CallId,
    pub(crate) provider_call_id: String,
    pub(crate) name: String,
    pub(crate) args: Value,
    /// Questions that this call has asked so far, answered ones counted again each time it is made.
    pub(crate) asked: AtomicU32,
    /// Sub-agents that it runs now.
    pub(crate) children: AtomicU32,
    /// Sub-agents that it ran in an earlier process and has not gone on with yet.
    left: Mutex<Vec<ChildLog>>,
    /// What it has told of its progress.
    output: Mutex<ProgressTail>,
}

impl CallInfo {
    /// A call that begins, with the sub-agents that it ran in an earlier process.
    pub(crate) fn new(id: CallId, call: ToolCall, left: Vec<ChildLog>) -> Self {
        Self {
            id,
            provider_call_id: call.id,
            name: call.name,
            args: call.args,
            asked: AtomicU32::new(0),
            children: AtomicU32::new(0),
            left: Mutex::new(left),
            output: Mutex::default(),
        }
    }

    /// The last of what it has told of its progress, if it has told something.
    pub(crate) fn take_output(&self) -> Option<String> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes what an earlier process left of the sub-agents that the call ran; of one of them, if it is named.
    pub(crate) fn take_left(&self, label: Option<&str>) -> Vec<ChildLog> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.extract_if(.., |child| label.is_none_or(|label| child.label == label)).collect()
    }
}

impl ToolContext {
    /// The context of a call that no model has made, for tests of tools and wraps. See
    /// [`ContextBuilder`](crate::run::ContextBuilder).
    pub fn new(context: Context, tool: impl Into<String>, args: Value) -> Self {
        let id = CallId { path: context.path().to_vec(), turn: context.turn, index: 0 };
        Self::for_call(context, id, "call_0".to_owned(), tool.into(), args)
    }

    /// The context of a call under an id.
    pub(crate) fn for_call(context: Context, id: CallId, provider_call_id: String, name: String, args: Value) -> Self {
        let call = ToolCall { id: provider_call_id, name, args, ..ToolCall::default() };
        Self::with_call(context, Arc::new(CallInfo::new(id, call, Vec::new())))
    }

    pub(crate) fn with_call(context: Context, call: Arc<CallInfo>) -> Self {
        Self { context, call, changed: None, progress: None }
    }

    /// The run's context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Our identity of the call.
    pub fn call_id(&self) -> &CallId {
        &self.call.id
    }

    /// The provider's id of the call.
    pub fn provider_call_id(&self) -> &str {
        &self.call.provider_call_id
    }

    /// The name the tool was called by.
    pub fn tool_name(&self) -> &str {
        &self.call.name
    }

    /// A key for services that accept one: the same if the call is made again, by this process or another one, different
    /// for every other call. It is made of the run's id and the call's, so it is as unique as an id that is given with
    /// [`RunInput::id`](crate::run::RunInput::id) is. A run that goes on in a [copy](crate::journal::Threads::copy) of its thread
    /// makes calls of its own there, under keys of their own.
    pub fn key(&self) -> String {
        format!("{}:{}", self.context.shared.run.keys(), self.call.id)
    }

    /// Asks a person. The first time the call ends here, with an error to be handed on with `?`, and the run waits;
    /// once there is an answer the call is made again from its beginning, and this gives the decision.
    ///
    /// # Errors
    /// [`ToolError::Interrupted`] while there is no answer.
    pub fn interrupt(
        &self,
        text: impl Into<String>,
        allowed: impl Into<Vec<DecisionKind>>,
    ) -> Result<Decision, ToolError> {
        self.interrupt_with(self.question().text(text).allowed(allowed))
    }

    /// Asks a person because of a rule, which the question names, as [`interrupt`](Self::interrupt) does.
    ///
    /// # Errors
    /// [`ToolError::Interrupted`] while there is no answer.
    pub fn interrupt_by(
        &self,
        rule: impl Into<String>,
        text: impl Into<String>,
        allowed: impl Into<Vec<DecisionKind>>,
    ) -> Result<Decision, ToolError> {
        self.interrupt_with(self.question().rule(rule).text(text).allowed(allowed))
    }

    /// Asks a person for words that fit a form, as [`interrupt`](Self::interrupt) does; the person may also decline.
    ///
    /// # Errors
    /// [`ToolError::Interrupted`] while there is no answer.
    pub fn interrupt_for_answer(
        &self,
        text: impl Into<String>,
        form: Option<AnswerForm>,
    ) -> Result<Decision, ToolError> {
        let question = self.question().text(text).allowed([DecisionKind::Respond, DecisionKind::Reject]);
        self.interrupt_with(ActionRequest { form, ..question })
    }

    /// A question about this call, as it is made.
    fn question(&self) -> ActionRequest {
        let (name, args) = match &self.changed {
            Some(call) => (&call.name, &call.args),
            None => (&self.call.name, &self.call.args),
        };
        ActionRequest::about(&self.call.id, name, args.clone(), self.clock().now().to_string())
    }

    /// The same for a call that wraps may have changed: what a person is asked about is what is made.
    pub(crate) fn changed_to(mut self, call: &ToolCall) -> Self {
        let same = (&call.name, &call.args) == (&self.call.name, &self.call.args);
        self.changed = (!same).then(|| Arc::new(call.clone()));
        self
    }

    fn interrupt_with(&self, question: ActionRequest) -> Result<Decision, ToolError> {
        let (question, answer) = self.asked(question);
        let waits = || PendingInterrupt { questions: vec![question], child: None };
        answer.ok_or_else(|| ToolError::Interrupted(Box::new(waits())))
    }

    /// A question of this call under its id, with its answer. An answer goes with what was asked, not with its place:
    /// a call that is made again may ask something else first.
    fn asked(&self, question: ActionRequest) -> (ActionRequest, Option<Decision>) {
        self.asked_as(&self.call.id, &self.call.asked, question)
    }

    /// The same for a question about another call, of which so many have been asked.
    pub(crate) fn asked_as(
        &self,
        call: &CallId,
        count: &AtomicU32,
        question: ActionRequest,
    ) -> (ActionRequest, Option<Decision>) {
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

    /// Asks what others want to know, all of it at once, as [`interrupt`](Self::interrupt) does. A person sees their calls and not this
    /// one; what may be decided is what those questions allow. Gives the decisions in order.
    ///
    /// # Errors
    /// [`ToolError::Interrupted`] while an answer is missing.
    pub fn interrupt_for(&self, others: &[ActionRequest]) -> Result<Vec<Decision>, ToolError> {
        let mut decisions = Vec::new();
        let mut open = Vec::new();
        for other in others {
            match self.asked(other.clone()) {
                (_, Some(answer)) => decisions.push(answer),
                (question, None) => open.push(question),
            }
        }
        if open.is_empty() {
            Ok(decisions)
        } else {
            Err(ToolError::Interrupted(Box::new(PendingInterrupt { questions: open, child: None })))
        }
    }

    /// The same call in another context.
    pub(crate) fn in_context(&self, context: Context) -> Self {
        Self { context, ..self.clone() }
    }

    /// What an earlier process left of a sub-agent of the call.
    pub(crate) fn take_left(&self, label: &str) -> Option<ChildLog> {
        self.call.take_left(Some(label)).into_iter().next()
    }

    /// A sub-agent of the call runs until this is dropped.
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

    /// Tells how far the call is, without waiting for anybody who reads it. What is told is one text in pieces, so a
    /// line of its own ends with a newline. Where the call does not come to its end, since the
    /// run is cancelled, fails or is out of time, the model is told the last 4 kB of it.
    pub fn progress(&self, text: impl Into<String>) {
        let text = match &self.progress {
            Some(filter) => filter(text.into()),
            None => Some(text.into()),
        };
        let Some(text) = text else { return };
        self.call.output.lock().unwrap_or_else(PoisonError::into_inner).push(&text);
        let call = self.call.id.clone();
        self.context.emit(|| EventKind::ToolProgress { call, text });
    }

    /// The same call, with what it tells of its progress changed before it goes out. Where the function gives nothing, nothing
    /// is told.
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
