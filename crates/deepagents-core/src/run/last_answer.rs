//! The last request that the limits of a run allow, which asks the model for an answer.

use super::driver::Driver;
use crate::error::Result;
use crate::machine::{BudgetUsage, LimitExit};
use crate::message::{Message, Pending};
use crate::model::{ModelRequest, ToolChoice};
use crate::state::Update;
use crate::status::FinishReason;

impl Driver {
    /// Makes the next answer the last one if no other can follow it and the limits provide for one.
    pub(super) fn close_if_last(&mut self) {
        if self.shared.budget.limit_exit() != LimitExit::Answer {
            return;
        }
        let last = match self.machine.is_at_last_call() {
            true => Some(FinishReason::StepLimit),
            false => self.shared.budget.ends_after_next(&self.last_spent()),
        };
        if let Some(stop) = last {
            self.machine.close(stop);
        }
    }

    /// Returns what the request before has spent; nothing if there was none.
    fn last_spent(&self) -> BudgetUsage {
        let answers = self.state.messages().iter().rev().filter_map(|message| message.as_assistant());
        let Some(usage) = answers.map(|answer| answer.usage).find(Option::is_some).flatten() else {
            return BudgetUsage::default();
        };
        let price = self.shared.agent.model.profile().price;
        BudgetUsage { usage, cost: price.map_or(0.0, |price| price.cost(usage)), ..BudgetUsage::default() }
    }

    /// Tells the model that its next answer is the last one, unless an earlier process has.
    pub(super) fn announce_last_answer(&mut self) -> Result<()> {
        let Some(stop) = self.machine.closing() else { return Ok(()) };
        let note = format!(
            "This is a message of the system, not of the user: {}. You cannot call tools any more, and your next message \
             is your last one. Answer now with what you have, and say what is missing.",
            stop.reason()
        );
        let messages = self.state.messages();
        let is_new = |message: &&std::sync::Arc<Message>| message.as_assistant().is_none();
        if messages.iter().rev().take_while(is_new).any(|message| message.text() == note) {
            return Ok(());
        }
        self.update(Update::message(Message::harness(note)))
    }

    /// Forbids calls in the request for the last answer. Its tools stay, because what the provider has cached begins with
    /// them, and because some providers refuse calls in the history without them.
    pub(super) fn forbid_calls(&self, request: &mut ModelRequest) {
        if self.machine.closing().is_none() || (request.tools.is_empty() && request.provider_tools.is_empty()) {
            return;
        }
        request.tool_choice = match &self.shared.agent.format {
            Some(format) if self.structured_by_tool => ToolChoice::Tool(format.name().to_owned()),
            _ => ToolChoice::None,
        };
    }

    /// Answers the calls of a last answer, except the one that gives the structured answer.
    pub(super) fn refuse_calls_of_last_answer(&mut self) -> Result<()> {
        let Some(stop) = self.machine.closing() else { return Ok(()) };
        let (why, answer_tool) = (stop.reason(), self.shared.agent.answer_tool());
        let mut open: Vec<Pending> = crate::message::pending(self.state.messages());
        open.retain(|open| Some(open.call.name()) != answer_tool);
        let ops = super::left_calls::answers(&open, |call| format!("The call of {} was not made: {why}.", call.name()));
        self.update(Update::messages(ops))
    }
}
