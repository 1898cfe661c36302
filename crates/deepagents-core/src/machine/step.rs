//! What a run does next, what it sees after that, and what changes from outside stand for.

use crate::model::StopReason;
use crate::status::FinishReason;

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextStep {
    /// Run the `before_agent` hooks.
    BeforeAgent,
    /// Run the `before_model` hooks.
    BeforeModel,
    /// Ask the model; the answer gets this turn number.
    Model {
        /// The turn.
        turn: u32,
    },
    /// Run the `after_model` hooks.
    AfterModel,
    /// Run the calls without a result of the last answer.
    Tools {
        /// The turn the calls belong to.
        turn: u32,
    },
    /// Run the `after_agent` hooks.
    AfterAgent,
    /// End.
    Finish(FinishReason),
}

/// What the driver sees after a phase.
#[derive(Clone, Debug, Default)]
pub struct StepInput {
    /// Calls of the last answer that have no result.
    pub pending: usize,
    /// Whether the last answer had calls at all.
    pub had_calls: bool,
    /// Whether the last answer said nothing.
    pub empty: bool,
    /// Why the model stopped.
    pub stop: StopReason,
    /// Whether an answer in a given shape is wanted and still missing.
    pub shape_missing: bool,
    /// Whether somebody has something to say at the next model call.
    pub steered: bool,
}

/// What a change of the state by an application stands for: the run goes on with what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Node {
    /// The input of a run: the model is asked next, after the hooks at the beginning.
    Input,
    /// An answer of the model: the hooks after it follow, with the questions that they ask, and its calls are made.
    Model,
    /// The results of calls: the model is asked next.
    Tools,
    /// The end: there is nothing left to go on with.
    End,
}
