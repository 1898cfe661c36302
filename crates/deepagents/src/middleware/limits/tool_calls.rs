//! A limit on tool calls.

use deepagents_core::error::{Error, Result};
use deepagents_core::event::{MiddlewareEvent, ReachedLimit};
use deepagents_core::message::{Message, MessageOp, ToolCall, ToolMessage};
use deepagents_core::middleware::{EndReason, HookOutput, JumpTo, Middleware};
use deepagents_core::run::Context;
use deepagents_core::state::{ChannelSpec, MessagesChannel, Update};

use super::counts::{CallCounts, Count};
use super::{LimitError, Limits, listed};

/// Limits the number of calls of one tool, or of all tools together, on a thread, in a run, or both.
///
/// Calls count when the model makes them, before they are executed: a call that a person rejects later counts, and one
/// that [`ToolRetry`](crate::middleware::retry::ToolRetry) repeats counts once. Invalid calls, calls that were already
/// answered, and the call that gives a structured answer do not count. The calls of a turn are admitted in order up to
/// the limit; those beyond it count as attempts of the run but not for the thread.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::middleware::limits::{ToolCallLimit, ToolCallLimitExit};
/// use deepagents::models::scripted::ScriptedModel;
/// let searches = ToolCallLimit::for_tool("search", None, Some(5))?;
/// let all = ToolCallLimit::new(Some(500), Some(100))?.exit(ToolCallLimitExit::End);
/// let agent = DeepAgent::builder().model(ScriptedModel::new([])).middleware(searches).middleware(all).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ToolCallLimit {
    name: String,
    tool: Option<String>,
    limits: Limits,
    exit: ToolCallLimitExit,
}

/// What happens to calls beyond a limit on tool calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolCallLimitExit {
    /// They are answered with an error, the other calls of the turn are made, and the run continues.
    #[default]
    Continue,
    /// No call of the turn is made, and the run ends with
    /// [`BudgetKind::ToolCalls`](deepagents_core::run::BudgetKind::ToolCalls) and a final message that says so.
    End,
    /// The run fails with [`ToolCallLimitExceeded`].
    Error,
}

/// An error: a limit on tool calls was exceeded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("calls of {} are beyond their limit: {}", .tool.as_deref().unwrap_or("tools"), listed(.limits))]
#[non_exhaustive]
pub struct ToolCallLimitExceeded {
    /// The tool; `None` if all calls are limited together.
    pub tool: Option<String>,
    /// The limits that were exceeded, with the number of attempted calls.
    pub limits: Vec<ReachedLimit>,
}

impl ToolCallLimit {
    /// Limits the calls of all tools together.
    ///
    /// # Errors
    /// Returns an error if neither limit is set, or if the limit of a run exceeds that of the thread.
    pub fn new(thread: Option<u64>, run: Option<u64>) -> std::result::Result<Self, LimitError> {
        let (name, limits) = ("ToolCallLimit".to_owned(), Limits::new(thread, run)?.check_reachable()?);
        Ok(Self { name, tool: None, limits, exit: ToolCallLimitExit::Continue })
    }

    /// Limits the calls of one tool. The middleware's name contains that of the tool, so there can be one for each
    /// tool.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn for_tool(
        tool: impl Into<String>,
        thread: Option<u64>,
        run: Option<u64>,
    ) -> std::result::Result<Self, LimitError> {
        let tool = tool.into();
        Ok(Self { name: format!("ToolCallLimit[{tool}]"), tool: Some(tool), ..Self::new(thread, run)? })
    }

    /// Sets what happens beyond the limit; by default the run continues.
    #[must_use]
    pub fn exit(mut self, exit: ToolCallLimitExit) -> Self {
        self.exit = exit;
        self
    }

    /// Returns the update that resets the count of a thread, for
    /// [`Agent::update_state`](deepagents_core::agent::Agent::update_state). A run that waits there keeps its own count.
    pub fn reset(&self) -> Update {
        self.counted(Count::default())
    }

    fn key(&self) -> String {
        format!("tool:{}", self.tool.as_deref().unwrap_or("*"))
    }

    fn counted(&self, count: Count) -> Update {
        Update::new::<CallCounts>([(self.key(), count)].into())
    }

    fn is_limited(&self, call: &ToolCall) -> bool {
        self.tool.as_ref().is_none_or(|tool| *tool == call.name)
    }

    /// Returns the answer to a call beyond the limit.
    fn refusal(&self, call: &ToolCall) -> MessageOp {
        let what = self.tool.as_deref().unwrap_or("any tool");
        answer(call, format!("Error: the limit of these calls is reached. Do not call {what} again."))
    }
}

fn answer(call: &ToolCall, text: String) -> MessageOp {
    MessageOp::put(Message::Tool(ToolMessage::error(call.id.clone(), call.name.clone(), text)))
}

impl Middleware for ToolCallLimit {
    fn name(&self) -> &str {
        &self.name
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<CallCounts>()]
    }

    async fn after_model(&self, cx: &Context) -> Result<HookOutput> {
        let open: Vec<ToolCall> = cx.open_calls().into_iter().map(|(_, call)| call).collect();
        let is_limited = |call: &&ToolCall| self.is_limited(call) && cx.answer_tool() != Some(call.name.as_str());
        let (limited, others): (Vec<_>, Vec<_>) = open.iter().partition(is_limited);
        if limited.is_empty() {
            return Ok(HookOutput::next());
        }
        let before = cx.get::<CallCounts>().remove(&self.key()).unwrap_or_default().of_run(cx.run_id());
        let wanted = limited.len() as u64;
        let thread = |calls: u64| before.thread.saturating_add(calls);
        let exceeded = |calls: u64| self.limits.exceeded(thread(calls), before.in_run.saturating_add(calls));
        // Admits as many as fit, in order; none if the thread is already beyond its limit.
        let admitted = (1..=wanted).take_while(|calls| exceeded(*calls).is_empty()).count() as u64;
        let tries = Count { in_run: before.in_run.saturating_add(wanted), ..before.clone() };
        let limits = exceeded(wanted);
        if limits.is_empty() {
            return Ok(HookOutput::update(self.counted(Count { thread: thread(wanted), ..tries })));
        }
        cx.report(MiddlewareEvent::CallLimitReached { tool: self.tool.clone(), limits: limits.clone() });
        let exceeded = ToolCallLimitExceeded { tool: self.tool.clone(), limits };
        let (admitted_calls, blocked) = limited.split_at(usize::try_from(admitted).unwrap_or(limited.len()));
        let refusals = blocked.iter().map(|call| self.refusal(call));
        match self.exit {
            ToolCallLimitExit::Error => Err(Error::other(exceeded)),
            ToolCallLimitExit::Continue => {
                let counted = self.counted(Count { thread: thread(admitted), ..tries });
                Ok(HookOutput::update(Update::new::<MessagesChannel>(refusals.collect()).and(counted)))
            }
            ToolCallLimitExit::End => {
                let skipped = admitted_calls.iter().chain(&others).map(|call| {
                    let text = format!(
                        "The call of {} was not made: another call of this turn is beyond its limit.",
                        call.name
                    );
                    answer(call, text)
                });
                let last = format!("Stopped without an answer: {exceeded}. The task may be unfinished.");
                let ops = refusals.chain(skipped).chain([MessageOp::put(Message::assistant(last))]).collect();
                let update = Update::new::<MessagesChannel>(ops).and(self.counted(tries));
                Ok(HookOutput::update(update).and_go(JumpTo::EndBecause(EndReason::ToolCallLimit)))
            }
        }
    }
}
