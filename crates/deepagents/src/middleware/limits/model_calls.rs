//! A limit of model calls.

use deepagents_core::error::{Error, Result};
use deepagents_core::event::{MiddlewareEvent, ReachedLimit};
use deepagents_core::message::Message;
use deepagents_core::middleware::{EndReason, HookOutput, JumpTo, Middleware};
use deepagents_core::run::Context;
use deepagents_core::state::{ChannelSpec, Update};

use super::counts::{CallCounts, Count};
use super::{LimitError, Limits, listed};

/// The key of the model's calls.
const MODEL: &str = "";

/// Limits the calls of models on a thread, in a run, or both.
///
/// Every request counts that is sent: those of retries and stand-ins, summaries, and agents below this one, which a run's
/// budget counts too. With a limit of N, N requests are sent, and the run ends where the next would be due. A limit holds
/// for an agent that this middleware is given to; what its sub-agents spend is counted when they have ended, so for a
/// strict limit over a tree take a [`Budget`](deepagents_core::run::Budget).
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

/// What happens at a limit of model calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelCallLimitExit {
    /// The run ends with [`FinishReason::StepLimit`](deepagents_core::run::FinishReason::StepLimit), and a last message
    /// that says so.
    #[default]
    End,
    /// The run fails with [`ModelCallLimitExceeded`].
    Error,
}

/// A limit of model calls was reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("model calls are at their limit: {}", listed(.limits))]
#[non_exhaustive]
pub struct ModelCallLimitExceeded {
    /// Each limit that was reached.
    pub limits: Vec<ReachedLimit>,
}

impl ModelCallLimit {
    /// At most so many calls of the thread and of a run.
    ///
    /// # Errors
    /// When nothing is limited, or the run may make more calls than the thread.
    pub fn new(thread: Option<u64>, run: Option<u64>) -> std::result::Result<Self, LimitError> {
        Ok(Self { limits: Limits::new(thread, run)?, exit: ModelCallLimitExit::End })
    }

    /// What happens at the limit; the run ends unless told otherwise.
    #[must_use]
    pub fn exit(mut self, exit: ModelCallLimitExit) -> Self {
        self.exit = exit;
        self
    }

    /// The change that lets a thread begin to count anew, for [`Agent::update_state`](deepagents_core::agent::Agent::update_state).
    pub fn reset() -> Update {
        Update::new::<CallCounts>([(MODEL.to_owned(), Count::default())].into())
    }

    /// The calls as of now.
    fn count(cx: &Context) -> Count {
        let known = cx.get::<CallCounts>().remove(MODEL).unwrap_or_default().of_run(cx.run_id());
        let spent = cx.spent().model_calls;
        Count { thread: known.thread.saturating_add(spent.saturating_sub(known.in_run)), in_run: spent, ..known }
    }

    fn counted(count: Count) -> HookOutput {
        HookOutput::set::<CallCounts>([(MODEL.to_owned(), count)].into())
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
        cx.keep_spent();
        Ok(HookOutput::next())
    }

    async fn before_model(&self, cx: &Context) -> Result<HookOutput> {
        let count = Self::count(cx);
        let next = |calls: u64| calls.saturating_add(1);
        let mut limits = self.limits.exceeded(next(count.thread), next(count.in_run));
        if limits.is_empty() {
            return Ok(HookOutput::next());
        }
        // The call that would be too many has not been made.
        limits.iter_mut().for_each(|reached| reached.count -= 1);
        cx.report(MiddlewareEvent::CallLimitReached { tool: None, limits: limits.clone() });
        let exceeded = ModelCallLimitExceeded { limits };
        if self.exit == ModelCallLimitExit::Error {
            return Err(Error::other(exceeded));
        }
        let mut output = Self::counted(count);
        let last = format!("Stopped without an answer: {exceeded}. The task may be unfinished.");
        output.update = output.update.and(Update::message(Message::assistant(last)));
        Ok(output.and_go(JumpTo::EndBecause(EndReason::StepLimit)))
    }

    async fn after_model(&self, cx: &Context) -> Result<HookOutput> {
        Ok(Self::counted(Self::count(cx)))
    }

    async fn after_agent(&self, cx: &Context) -> Result<HookOutput> {
        // What agents below have spent since the last answer.
        Ok(Self::counted(Self::count(cx)))
    }
}
