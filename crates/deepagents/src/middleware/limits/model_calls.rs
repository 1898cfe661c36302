//! A limit on model calls.

use deepagents_core::error::{Error, Result};
use deepagents_core::event::{MiddlewareEvent, ReachedLimit};
use deepagents_core::message::Message;
use deepagents_core::middleware::{EndReason, HookOutput, JumpTo, Middleware};
use deepagents_core::run::Context;
use deepagents_core::state::{ChannelSpec, Update};

use super::counts::{CallCounts, Count};
use super::{LimitError, Limits, listed};

/// The key of the model's count.
const MODEL: &str = "";

/// Limits the number of model calls on a thread, in a run, or both.
///
/// What counts against a run's budget counts here too: model calls, those that [`ModelRetry`] repeats, and those for
/// summaries and of sub-agents. Requests that a client repeats itself, and the models that a `Fallback` asks in turn,
/// are one call. With a limit of N, N calls are made, and the run ends when the next would be due. The limit applies to
/// the agent that has this middleware. Calls of its sub-agents are counted when they have ended; for a strict limit on
/// a tree of agents, use a [`Budget`](deepagents_core::run::Budget).
///
/// [`ModelRetry`]: crate::middleware::retry::ModelRetry
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::middleware::limits::ModelCallLimit;
/// use deepagents::models::scripted::ScriptedModel;
/// let limit = ModelCallLimit::new(Some(200), Some(40))?;
/// let agent = DeepAgent::builder().model(ScriptedModel::new([])).middleware(limit).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ModelCallLimit {
    limits: Limits,
    exit: ModelCallLimitExit,
}

/// What happens at a limit on model calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelCallLimitExit {
    /// The run ends with [`FinishReason::StepLimit`](deepagents_core::run::FinishReason::StepLimit) and a final message
    /// that says so.
    #[default]
    End,
    /// The run fails with [`ModelCallLimitExceeded`].
    Error,
    /// The last call that the limit allows is made without tools, with a note that asks the model to answer with what it
    /// has, and the run ends after it with [`FinishReason::StepLimit`](deepagents_core::run::FinishReason::StepLimit).
    /// If no call is left, because those of sub-agents count too, the run ends as with [`End`](Self::End).
    Answer,
}

/// An error: a limit on model calls was reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("model calls are at their limit: {}", listed(.limits))]
#[non_exhaustive]
pub struct ModelCallLimitExceeded {
    /// The limits that were reached.
    pub limits: Vec<ReachedLimit>,
}

impl ModelCallLimit {
    /// Limits the number of calls per thread and per run. A limit of a run above that of the thread is never reached.
    ///
    /// # Errors
    /// Returns an error if neither limit is set.
    pub fn new(thread: Option<u64>, run: Option<u64>) -> std::result::Result<Self, LimitError> {
        Ok(Self { limits: Limits::new(thread, run)?, exit: ModelCallLimitExit::End })
    }

    /// Sets what happens at the limit; by default the run ends.
    #[must_use]
    pub fn exit(mut self, exit: ModelCallLimitExit) -> Self {
        self.exit = exit;
        self
    }

    /// Returns the update that resets the count of a thread, for
    /// [`Agent::update_state`](deepagents_core::agent::Agent::update_state). A run that waits there keeps its own count.
    pub fn reset() -> Update {
        Self::counted(Count::default())
    }

    /// Returns the current count.
    fn count(cx: &Context) -> Count {
        let known = cx.get::<CallCounts>().remove(MODEL).unwrap_or_default().of_run(cx.run_id());
        let spent = cx.spent().model_calls;
        Count { thread: known.thread.saturating_add(spent.saturating_sub(known.in_run)), in_run: spent, ..known }
    }

    fn counted(count: Count) -> Update {
        Update::new::<CallCounts>([(MODEL.to_owned(), count)].into())
    }
}

impl Middleware for ModelCallLimit {
    fn name(&self) -> &str {
        "ModelCallLimit"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<CallCounts>()]
    }

    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        cx.record_spending();
        Ok(HookOutput::next())
    }

    async fn before_model(&self, cx: &Context) -> Result<HookOutput> {
        let count = Self::count(cx);
        let next = |calls: u64| calls.saturating_add(1);
        let mut limits = self.limits.exceeded(next(count.thread), next(count.in_run));
        if limits.is_empty() {
            let last = match self.exit {
                ModelCallLimitExit::Answer => self.limits.reached(next(count.thread), next(count.in_run)),
                _ => Vec::new(),
            };
            if last.is_empty() {
                return Ok(HookOutput::next());
            }
            cx.report(MiddlewareEvent::CallLimitReached { tool: None, limits: last });
            return Ok(HookOutput::go(JumpTo::LastAnswer(EndReason::StepLimit)));
        }
        // The call that would exceed the limit was not made.
        limits.iter_mut().for_each(|reached| reached.count -= 1);
        cx.report(MiddlewareEvent::CallLimitReached { tool: None, limits: limits.clone() });
        let exceeded = ModelCallLimitExceeded { limits };
        if self.exit == ModelCallLimitExit::Error {
            return Err(Error::other(exceeded));
        }
        let last = format!("Stopped without an answer: {exceeded}. The task may be unfinished.");
        let update = Self::counted(count).and(Update::message(Message::assistant(last)));
        Ok(HookOutput::update(update).and_go(JumpTo::EndBecause(EndReason::StepLimit)))
    }

    async fn after_model(&self, cx: &Context) -> Result<HookOutput> {
        Ok(HookOutput::update(Self::counted(Self::count(cx))))
    }

    async fn after_agent(&self, cx: &Context) -> Result<HookOutput> {
        // Includes what sub-agents have spent since the last answer.
        Ok(HookOutput::update(Self::counted(Self::count(cx))))
    }
}
