//! The state machine of a run: pure decisions without waiting, clocks or I/O, so that they can be stored and tested in
//! isolation.

mod budget;
mod jump;
mod open_turn;
mod step;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::model::StopReason;
use crate::status::FinishReason;
pub(crate) use budget::BudgetState;
pub use budget::{Budget, BudgetError, BudgetUsage, LimitExit};
pub use jump::{EndReason, JumpTo, RouteError};
pub(crate) use open_turn::{Open, committed, pairs, settle};
pub use step::{NextStep, Node, StepInput};

/// The state machine of a run. It is serialisable: stored with the state of the run, it can resume the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    phase: Phase,
    /// Number of model answers in the thread so far; the next turn number.
    turn: u32,
    /// Number of model calls of this run so far.
    calls: u32,
    /// Maximum number of model calls of this run.
    limit: u32,
    /// Maximum number of model calls of each agent of the run, by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent_calls: Option<u32>,
    /// Number of routes to the model since its last call, so that hooks that loop without calling it are stopped too.
    #[serde(default)]
    idle: u32,
    /// Why the run is about to end.
    stop: FinishReason,
    /// Why the run ends after its next answer, for which the model cannot call tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    closing: Option<FinishReason>,
    /// Why the last answer ended, for the hooks that follow, which may run in another process.
    #[serde(default, skip_serializing_if = "StopReason::is_end")]
    answer_stop: StopReason,
    /// What the run may spend and has spent, if limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ledger: Option<Box<BudgetState>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    BeforeAgent,
    BeforeModel,
    Model,
    AfterModel,
    Tools,
    AfterAgent,
    Finished,
}

impl Machine {
    /// Creates the machine of a new run on a thread with this many model answers.
    pub fn new(turn: u32, limit: u32) -> Self {
        let (stop, answer_stop) = (FinishReason::Done, StopReason::End);
        Self {
            phase: Phase::BeforeAgent,
            turn,
            calls: 0,
            limit,
            agent_calls: None,
            idle: 0,
            stop,
            closing: None,
            answer_stop,
            ledger: None,
        }
    }

    /// Creates the machine of a run that continues as if a node had just completed, on a thread with this many model
    /// answers.
    pub(crate) fn after(node: Node, turn: u32, limit: u32) -> Self {
        let phase = match node {
            Node::Input => Phase::BeforeAgent,
            Node::Model => Phase::AfterModel,
            Node::Tools => Phase::BeforeModel,
            Node::End => Phase::Finished,
        };
        Self {
            phase,
            stop: if node == Node::End { FinishReason::Ended } else { FinishReason::Done },
            ..Self::new(turn, limit)
        }
    }

    /// Returns the number of model answers in the thread so far.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// Returns the number of model calls of this run so far.
    pub fn calls(&self) -> u32 {
        self.calls
    }

    /// Returns why the run is about to end; meaningful in `after_agent` and later.
    pub(crate) fn stop(&self) -> &FinishReason {
        &self.stop
    }

    /// Counts model answers in the input.
    pub(crate) fn turns_given(&mut self, turns: u32) {
        self.turn = self.turn.saturating_add(turns);
    }

    /// Sets the number of the next turn.
    pub(crate) fn set_turn(&mut self, turn: u32) {
        self.turn = turn;
    }

    /// Sets the total number of model calls that the run may make.
    pub(crate) fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Stores the maximum number of model calls of each agent of the run, for a process that resumes it.
    pub(crate) fn set_agent_calls(&mut self, limit: Option<u32>) {
        self.agent_calls = limit;
    }

    /// Returns the maximum number of model calls of each agent of the run.
    pub(crate) fn agent_calls(&self) -> Option<u32> {
        self.agent_calls
    }

    /// Stores what the run has spent so far.
    pub(crate) fn set_budget_state(&mut self, budget_state: Option<BudgetState>) {
        self.ledger = budget_state.map(Box::new);
    }

    /// Returns what an earlier part of the run left to spend.
    pub(crate) fn budget_state(&self) -> Option<&BudgetState> {
        self.ledger.as_deref()
    }

    /// Returns the next step.
    pub fn next(&self) -> NextStep {
        match self.phase {
            Phase::BeforeAgent => NextStep::BeforeAgent,
            Phase::BeforeModel => NextStep::BeforeModel,
            Phase::Model => NextStep::Model { turn: self.turn },
            Phase::AfterModel => NextStep::AfterModel,
            // The answer with the calls has been counted already.
            Phase::Tools => NextStep::Tools { turn: self.turn.saturating_sub(1) },
            Phase::AfterAgent => NextStep::AfterAgent,
            Phase::Finished => NextStep::Finish(self.stop.clone()),
        }
    }

    /// Reports that the hooks of the current phase have run. `go` is the first result that is not `Continue`, if any.
    ///
    /// # Errors
    /// Returns an error if the run cannot go there.
    pub fn hooks_done(&mut self, go: JumpTo, facts: &StepInput) -> Result<(), RouteError> {
        match (self.phase, go) {
            // A run at its limit ends, whatever a hook requests.
            (Phase::AfterAgent, _)
                if matches!(
                    self.stop,
                    FinishReason::StepLimit | FinishReason::NoProgress | FinishReason::Budget(_)
                ) =>
            {
                self.phase = Phase::Finished;
            }
            (from, JumpTo::Tools) => {
                if facts.pending == 0 {
                    return Err(RouteError {
                        from: from.as_str(),
                        jump_to: go.as_str(),
                        reason: "no call of the last answer is waiting for a result",
                    });
                }
                self.phase = Phase::Tools;
            }
            (Phase::BeforeModel, JumpTo::LastAnswer(reason)) => {
                self.close(reason.into());
                self.phase = Phase::Model;
            }
            (_, JumpTo::LastAnswer(reason)) => self.go_to_last_answer(reason.into()),
            (Phase::BeforeAgent, JumpTo::Continue | JumpTo::Model) => self.go_to_model(),
            (Phase::BeforeModel, JumpTo::Continue | JumpTo::Model) => self.phase = Phase::Model,
            (Phase::AfterModel, JumpTo::Continue) => self.after_answer(facts),
            (Phase::AfterModel, JumpTo::Model) => self.go_to_model(),
            (Phase::AfterAgent, JumpTo::Continue | JumpTo::End) => self.phase = Phase::Finished,
            (Phase::AfterAgent, JumpTo::Model) => self.go_to_model(),
            (Phase::AfterAgent, JumpTo::EndBecause(reason)) => self.abort(reason.into()),
            (_, JumpTo::EndBecause(reason)) => self.end(reason.into()),
            (_, JumpTo::End) => self.end(FinishReason::Ended),
            (Phase::Model | Phase::Tools | Phase::Finished, JumpTo::Continue | JumpTo::Model) => {}
        }
        // The next step has been decided, so the reason is no longer needed.
        self.answer_stop = StopReason::End;
        Ok(())
    }

    /// Counts a model call. Called before the answer arrives, so that a failing model cannot be called for ever.
    pub fn model_asked(&mut self) {
        self.calls = self.calls.saturating_add(1);
        self.idle = 0;
    }

    /// Returns why the last answer ended; meaningful in `after_model`.
    pub(crate) fn answer_stop(&self) -> &StopReason {
        &self.answer_stop
    }

    /// Reports that the model has answered, and why its answer ended.
    pub fn model_answered(&mut self, stop: StopReason) {
        self.answer_stop = stop;
        self.turn = self.turn.saturating_add(1);
        self.phase = Phase::AfterModel;
    }

    /// Reports that the calls of the turn have their results: `direct` if all of them are the run's answer, `shaped` if
    /// one was the structured answer.
    pub fn tools_done(&mut self, direct: bool, shaped: bool) {
        if let Some(stop) = self.closing.clone() {
            self.end(stop);
        } else if shaped {
            self.end(FinishReason::Done);
        } else if direct {
            self.end(FinishReason::ReturnDirect);
        } else {
            self.go_to_model();
        }
    }

    /// Returns whether the run may call the model again.
    pub(crate) fn has_calls_left(&self) -> bool {
        self.calls < self.limit && self.closing.is_none()
    }

    /// Returns whether the next model call is the last one.
    pub(crate) fn is_at_last_call(&self) -> bool {
        self.calls.saturating_add(1) >= self.limit
    }

    /// Makes the next answer the last one; the run ends after it with this reason.
    pub(crate) fn close(&mut self, stop: FinishReason) {
        self.closing.get_or_insert(stop);
    }

    /// Returns why the run ends after its next or last answer, if that was decided before it was requested.
    pub(crate) fn closing(&self) -> Option<&FinishReason> {
        self.closing.as_ref()
    }

    /// Goes to the model for the last time, or ends if there has been a last answer or no call is left.
    pub(crate) fn go_to_last_answer(&mut self, stop: FinishReason) {
        self.go_to_model();
        if self.phase == Phase::BeforeModel {
            self.close(stop);
        }
    }

    /// Returns whether the run has finished in a way that lets it continue if a message is pending.
    pub(crate) fn can_be_prolonged(&self) -> bool {
        let by_itself = matches!(
            self.stop,
            FinishReason::Done
                | FinishReason::ReturnDirect
                | FinishReason::TokenLimit
                | FinishReason::Empty
                | FinishReason::Refused
                | FinishReason::BrokenOff
        );
        self.phase == Phase::Finished && by_itself && self.has_calls_left()
    }

    /// Makes a run that finished normally continue because a message is pending. Returns whether it does.
    pub fn prolong(&mut self) -> bool {
        let is_prolonged = self.can_be_prolonged();
        if is_prolonged {
            self.go_to_model();
        }
        is_prolonged
    }

    /// Ends a run whose budget is spent: through the `after_agent` hooks, or immediately if those are what failed.
    pub(crate) fn end_over_budget(&mut self, stop: FinishReason) {
        if self.phase == Phase::AfterAgent { self.abort(stop) } else { self.end(stop) }
    }

    /// Ends the run immediately, without further hooks.
    pub fn abort(&mut self, stop: FinishReason) {
        self.stop = stop;
        self.phase = Phase::Finished;
    }

    fn after_answer(&mut self, facts: &StepInput) {
        if facts.pending > 0 {
            self.phase = Phase::Tools;
        } else if let Some(stop) = self.closing.clone() {
            self.end(stop);
        } else if facts.steered
            || facts.stop == StopReason::Pause
            || (facts.had_calls && facts.stop != StopReason::Refusal)
        {
            self.go_to_model();
        } else {
            match facts.stop {
                StopReason::MaxTokens | StopReason::ContextWindow => self.end(FinishReason::TokenLimit),
                StopReason::Refusal => self.end(FinishReason::Refused),
                _ if facts.structured_missing => self.go_to_model(),
                StopReason::Other(_) => self.end(FinishReason::BrokenOff),
                _ if facts.empty => self.end(FinishReason::Empty),
                _ => self.end(FinishReason::Done),
            }
        }
    }

    fn go_to_model(&mut self) {
        if let Some(stop) = self.closing.clone() {
            self.end(stop);
        } else if self.calls >= self.limit || self.idle > self.limit {
            self.end(FinishReason::StepLimit);
        } else {
            self.idle = self.idle.saturating_add(1);
            self.phase = Phase::BeforeModel;
        }
    }

    fn end(&mut self, stop: FinishReason) {
        self.stop = stop;
        self.phase = Phase::AfterAgent;
    }
}

impl Phase {
    fn as_str(self) -> &'static str {
        match self {
            Self::BeforeAgent => "before_agent",
            Self::BeforeModel => "before_model",
            Self::Model => "model",
            Self::AfterModel => "after_model",
            Self::Tools => "tools",
            Self::AfterAgent => "after_agent",
            Self::Finished => "finished",
        }
    }
}
