//! Steps of a run, their inputs, and the nodes that outside changes stand for.

use crate::model::StopReason;
use crate::status::FinishReason;

/// The next step for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextStep {
    /// Run the `before_agent` hooks.
    BeforeAgent,
    /// Run the `before_model` hooks.
    BeforeModel,
    /// Call the model. The answer gets this turn number.
    Model {
        /// The turn.
        turn: u32,
    },
    /// Run the `after_model` hooks.
    AfterModel,
    /// Run the calls of the last answer that have no result.
    Tools {
        /// The turn of the calls.
        turn: u32,
    },
    /// Run the `after_agent` hooks.
    AfterAgent,
    /// End the run.
    Finish(FinishReason),
}

/// What the driver reports after a phase.
#[derive(Clone, Debug, Default)]
pub struct StepInput {
    /// Number of calls of the last answer without a result.
    pub pending: usize,
    /// Whether the last answer had any calls.
    pub had_calls: bool,
    /// Whether the last answer was empty.
    pub empty: bool,
    /// Why the model stopped.
    pub stop: StopReason,
    /// Whether a structured answer was requested and is still missing.
    pub structured_missing: bool,
    /// Whether a message is pending for the next model call.
    pub steered: bool,
}

/// The node of a run that an application's state change stands for. The run continues with the step after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Node {
    /// The input of a run: the model is called next, after the hooks at the start.
    Input,
    /// An answer of the model: the hooks after it run next, with any interrupts, and then its calls are made.
    Model,
    /// The results of calls: the model is called next.
    Tools,
    /// The end: nothing is left to continue.
    End,
}
