//! Questions to a person: kept with the thread, answered whenever, by whichever process.
//!
//! A call that needs a decision is kept as a [`ActionRequest`] under our own identity of the call. The run ends with
//! [`FinishReason::Interrupted`](crate::run::FinishReason::Interrupted); nothing stays running. [`RunInput::resume`](crate::run::RunInput::resume)
//! with [`decide`](crate::run::RunInput::decide) goes on: calls that have finished are not made again.

mod author;
mod channel;
mod decision;
mod form;
mod group;
mod pending;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::CallId;
use crate::model::ToolSpec;
use crate::schema::{SchemaCheck, closed};

pub use author::{DecisionAuthor, DecisionRecord};
pub use channel::{ActionRequestChange, ActionRequests, ActionReview};
pub(crate) use channel::{PausedChange, PausedChild, PausedChildren};
pub use decision::{Decision, DecisionError, DecisionKind, EditedAction};
pub use form::{AnswerForm, FieldKind, FieldOption, FormField};
pub use group::Interrupt;
pub use pending::PendingInterrupt;
pub(crate) use pending::{answers_below, answers_to, forget_asked, open_questions, renumber};

/// A call that waits for a decision.
///
/// ```
/// use deepagents_core::interrupt::{ActionRequest, Decision};
/// use deepagents_core::run::RunInput;
/// /// Approves every call that waits.
/// fn approve_all(thread: &str, requests: Vec<ActionRequest>) -> RunInput {
///     requests.into_iter().fold(RunInput::resume(thread), |input, request| input.decide(request.id, Decision::Approve))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ActionRequest {
    /// Names the question; the same for as long as it is open.
    pub id: String,
    /// The call it is about.
    pub call: CallId,
    /// The tool that is to be called.
    pub tool: String,
    /// With these arguments.
    pub args: Value,
    /// What is asked, for a person.
    pub text: String,
    /// The rule that wants a person to be asked, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The name of the sub-agent whose call it is; none where it is the main agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The path that the call's own path leads to, where links make that another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leads_to: Option<String>,
    /// What may be decided.
    pub allowed: Vec<DecisionKind>,
    /// What an answer in words has to be; a text where that is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<AnswerForm>,
    /// The tools that an edited call may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// When it was asked, RFC 3339.
    pub asked_at: String,
    /// From when on it counts as rejected, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

impl ActionRequest {
    /// A question about a call, of which anything may be decided. Under this id, which is the call's own, it holds back
    /// all calls of the turn; one that a call [asks itself](crate::tool::ToolContext::interrupt) holds back that call alone.
    pub fn about(call: &CallId, tool: impl Into<String>, args: Value, asked_at: impl Into<String>) -> Self {
        Self {
            id: call.to_string(),
            call: call.clone(),
            tool: tool.into(),
            args,
            text: String::new(),
            rule: None,
            agent: None,
            leads_to: None,
            allowed: DecisionKind::ALL.to_vec(),
            form: None,
            tools: Vec::new(),
            asked_at: asked_at.into(),
            expires_at: None,
        }
    }

    /// Says what is asked.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Says which rule wants a person to be asked.
    #[must_use]
    pub fn rule(mut self, rule: impl Into<String>) -> Self {
        self.rule = Some(rule.into());
        self
    }

    /// Says whose call it is: a sub-agent's, by its name, or the main agent's.
    #[must_use]
    pub fn agent(mut self, sub_agent: Option<&str>) -> Self {
        self.agent = sub_agent.map(str::to_owned);
        self
    }

    /// Says which path the call's own path leads to.
    #[must_use]
    pub fn leads_to(mut self, path: impl Into<String>) -> Self {
        self.leads_to = Some(path.into());
        self
    }

    /// Says what may be decided.
    #[must_use]
    pub fn allowed(mut self, allowed: impl Into<Vec<DecisionKind>>) -> Self {
        self.allowed = allowed.into();
        self
    }

    /// Says what an answer in words has to be.
    #[must_use]
    pub fn form(mut self, form: AnswerForm) -> Self {
        self.form = Some(form);
        self
    }

    /// Says which tools an edited call may use; only its own otherwise.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tools = tools.into_iter().map(Into::into).collect();
        self
    }

    /// Says from when on it counts as rejected.
    #[must_use]
    pub fn expires_at(mut self, at: impl Into<String>) -> Self {
        self.expires_at = Some(at.into());
        self
    }

    /// Whether it was asked before any call of the turn was made, and not by the call itself.
    pub fn is_gate(&self) -> bool {
        self.id == self.call.to_string()
    }

    /// Whether it counts as rejected by now.
    pub fn is_expired(&self, now: crate::env::Timestamp) -> bool {
        let at = self.expires_at.as_deref().and_then(|at| at.parse::<crate::env::Timestamp>().ok());
        at.is_some_and(|at| at <= now)
    }

    /// Whether a decision may be given as an answer.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, decision: &Decision, now: crate::env::Timestamp) -> Result<(), DecisionError> {
        let id = self.id.clone();
        if self.is_expired(now) {
            return Err(DecisionError::Expired { id });
        }
        if !self.allowed.contains(&decision.kind()) {
            return Err(DecisionError::NotAllowed { id, given: decision.kind(), allowed: self.allowed.clone() });
        }
        if let Decision::Edit { edited_action } = decision {
            if edited_action.name != self.tool && !self.tools.contains(&edited_action.name) {
                let tool = edited_action.name.clone();
                return Err(DecisionError::UnknownTool { id, tool, known: self.tools.clone() });
            }
            if !edited_action.args.is_object() {
                let why = "the arguments of an edited call must be an object".to_owned();
                return Err(DecisionError::Arguments { id, why });
            }
        }
        Ok(())
    }

    /// Whether the tool of an edited call takes its arguments and names all of them: what a person has set must not come
    /// to nothing. Of arguments that the model's own call has and the tool does not name, any may stay.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check_edit(&self, edited: &EditedAction, tool: &ToolSpec) -> Result<(), DecisionError> {
        let closed = SchemaCheck::new(closed(&tool.schema).into());
        let check = if edited.name == self.tool && closed.check(&self.args).is_err() {
            SchemaCheck::new(tool.schema.clone())
        } else {
            closed
        };
        check.check(&edited.args).map_err(|problem| {
            let why = format!("{} does not take these arguments: {problem}", edited.name);
            DecisionError::Arguments { id: self.id.clone(), why }
        })
    }

    /// The same for the agent at a path of the run, with the tool of the edit where that has it. A call of another agent, or of a
    /// tool that is only offered while the model is asked, is looked at when it is made.
    pub(crate) fn check_edit_in(
        &self,
        path: &[String],
        edited: &EditedAction,
        tool: Option<&ToolSpec>,
    ) -> Result<(), DecisionError> {
        let is_own = self.is_gate() && self.call.path == *path;
        tool.filter(|_| is_own).map_or(Ok(()), |tool| self.check_edit(edited, tool))
    }
}
