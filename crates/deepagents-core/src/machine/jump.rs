//! Jumps that hooks request.

use crate::status::{BudgetKind, FinishReason};

/// Where a run goes after a hook. Anything but `Continue` skips the remaining hooks of the phase.
///
/// ```
/// use deepagents_core::middleware::{HookOutput, JumpTo, after_agent};
/// use deepagents_core::message::Message;
/// /// Asks once more where the answer is short.
/// let longer = after_agent(|cx| async move {
///     let short = cx.messages().len() < 4 && cx.messages().last().is_some_and(|answer| answer.text().len() < 80);
///     Ok(if short { HookOutput::message(Message::harness("Say more.")).and_go(JumpTo::Model) } else { HookOutput::next() })
/// });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JumpTo {
    /// The normal next step.
    #[default]
    Continue,
    /// The next model call, starting with its `before_model` hooks. From one of these, the remaining ones are skipped, and
    /// the model is called at once.
    Model,
    /// The calls of the last answer that have no result.
    Tools,
    /// The end, starting with the `after_agent` hooks; from `after_agent`, immediately. The run ends with
    /// [`FinishReason::Ended`].
    End,
    /// The end as with [`End`](Self::End), with a reason for callers. No later hook can make the run continue.
    EndBecause(EndReason),
    /// The last model call of the run: a note asks the model for its answer, and it cannot call tools. The run ends
    /// after it with this reason. If the last call has been made, or none is left, the run ends at once.
    LastAnswer(EndReason),
}

/// Why a hook ends a run before its task is done.
///
/// ```
/// use deepagents_core::middleware::{EndReason, HookOutput, JumpTo, before_model};
/// /// Ends the run once the conversation is long.
/// let bounded = before_model(|cx| async move {
///     let long = cx.messages().len() > 1_000;
///     Ok(if long { HookOutput::go(JumpTo::EndBecause(EndReason::StepLimit)) } else { HookOutput::next() })
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// The agent made no progress: [`FinishReason::NoProgress`].
    NoProgress,
    /// A limit of model calls was reached: [`FinishReason::StepLimit`].
    StepLimit,
    /// A limit of tool calls was reached: [`FinishReason::Budget`].
    ToolCallLimit,
}

impl From<EndReason> for FinishReason {
    fn from(reason: EndReason) -> Self {
        match reason {
            EndReason::NoProgress => Self::NoProgress,
            EndReason::StepLimit => Self::StepLimit,
            EndReason::ToolCallLimit => Self::Budget(BudgetKind::ToolCalls),
        }
    }
}

impl JumpTo {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::Model | Self::LastAnswer(_) => "model",
            Self::Tools => "tools",
            Self::End | Self::EndBecause(_) => "end",
        }
    }

    /// Returns whether the jump abandons calls of the last answer that have no result.
    pub(crate) fn leaves_calls(self) -> bool {
        matches!(self, Self::Model | Self::End | Self::EndBecause(_) | Self::LastAnswer(_))
    }
}

/// A hook requested a jump that is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{from} asked for `{jump_to}`, but {reason}")]
pub struct RouteError {
    /// The phase of the hook.
    pub from: &'static str,
    /// The requested target.
    pub jump_to: &'static str,
    /// Why it is not possible.
    pub reason: &'static str,
}
