//! Whether a decision may be given, looked at while whoever gives it can still put it right.

use std::sync::Arc;

use deepagents::core::env::Timestamp;
use deepagents::core::interrupt::DecisionError;
use deepagents::core::tool::ToolSpec;
use deepagents::{ActionRequest, Decision, DeepAgent};

/// The agent's own tools, which say what an edited call may have.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnTools(Vec<Arc<ToolSpec>>);

impl OwnTools {
    pub(super) fn of(agent: &DeepAgent) -> Self {
        Self(agent.definition().tools().to_vec())
    }

    /// Whether a decision answers a question, as the run that goes on with it would find. A call of a sub-agent, which may
    /// have other tools, is looked at when it is made.
    pub(super) fn check(&self, question: &ActionRequest, decision: &Decision) -> Result<(), DecisionError> {
        question.check(decision, Timestamp::now())?;
        let Decision::Edit { edited_action } = decision else { return Ok(()) };
        let is_own = question.is_gate() && question.call.path.is_empty();
        match self.0.iter().find(|tool| is_own && tool.name == edited_action.name) {
            Some(tool) => question.check_edit(edited_action, tool),
            None => Ok(()),
        }
    }
}
