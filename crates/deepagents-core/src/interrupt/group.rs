//! Groups the questions of a turn into one interrupt, in the JSON format of other implementations.

use serde_json::{Value, json};

use super::{ActionRequest, Decision, DecisionError};

/// The open questions of one turn of one agent.
///
/// ```
/// use deepagents_core::interrupt::Interrupt;
/// # fn f(outcome: deepagents_core::run::Outcome) {
/// for interrupt in Interrupt::group(outcome.action_requests()) {
///     println!("{}", interrupt.to_json());
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Interrupt {
    /// The questions, in order of their calls.
    pub action_requests: Vec<ActionRequest>,
}

impl Interrupt {
    /// Groups open questions by agent and turn.
    pub fn group(mut questions: Vec<ActionRequest>) -> Vec<Self> {
        questions.sort_by(|a, b| (&a.call, &a.id).cmp(&(&b.call, &b.id)));
        let groups = questions.chunk_by(|a, b| a.call.path == b.call.path && a.call.turn == b.call.turn);
        groups.map(|group| Self { action_requests: group.to_vec() }).collect()
    }

    /// Returns
    /// `{"action_requests":[{"name","args","description"}],"review_configs":[{"action_name","allowed_decisions"}]}`.
    pub fn to_json(&self) -> Value {
        let described = |q: &ActionRequest| match &q.leads_to {
            Some(path) => format!("{} (its path leads to {path})", q.text),
            None => q.text.clone(),
        };
        let requests =
            self.action_requests.iter().map(|q| json!({"name": q.tool, "args": q.args, "description": described(q)}));
        let configs =
            self.action_requests.iter().map(|q| json!({"action_name": q.tool, "allowed_decisions": q.allowed}));
        json!({"action_requests": requests.collect::<Vec<_>>(), "review_configs": configs.collect::<Vec<_>>()})
    }

    /// Reads decisions given in the order of the questions.
    ///
    /// # Errors
    /// Returns an error if there are more or fewer decisions than questions, or one is not a decision.
    pub fn decisions(&self, given: Vec<Value>) -> Result<Vec<(String, Decision)>, DecisionError> {
        if given.len() != self.action_requests.len() {
            return Err(DecisionError::Count { given: given.len(), open: self.action_requests.len() });
        }
        let pairs = self.action_requests.iter().zip(given);
        pairs.map(|(question, value)| Ok((question.id.clone(), Decision::from_json(value, &question.tool)?))).collect()
    }
}
