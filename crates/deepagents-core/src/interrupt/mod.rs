//! Interrupts: questions to a person, stored with the thread, that can be answered at any time and from any process.
//!
//! A call that needs a decision is stored as an [`ActionRequest`] under the harness's own id of the call. The run ends
//! with [`FinishReason::Interrupted`](crate::run::FinishReason::Interrupted), and nothing keeps running.
//! [`RunInput::resume`](crate::run::RunInput::resume) with [`decide`](crate::run::RunInput::decide) resumes it. Calls
//! that have finished are not repeated.

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
use crate::schema::{SchemaCheck, unnamed_fields};

pub use author::{DecisionAuthor, DecisionRecord};
pub use channel::{ActionRequestChange, ActionRequests, ActionReview};
pub(crate) use channel::{PausedChange, PausedChild, PausedChildren};
pub use decision::{Decision, DecisionError, DecisionKind, EditedAction};
pub use form::{AnswerForm, FieldKind, FieldOption, FormField};
pub use group::Interrupt;
pub use pending::PendingInterrupt;
pub(crate) use pending::{answers_below, answers_to, forget_asked, open_questions, renumber, without_questions};

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
    /// Identifies the question for as long as it is open.
    pub id: String,
    /// The call it is about.
    pub call: CallId,
    /// The tool to be called.
    pub tool: String,
    /// The arguments of the call.
    pub args: Value,
    /// The question, for a person.
    pub text: String,
    /// The rule that requires a person's decision, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The name of the sub-agent that made the call; `None` for the main agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The path that the call's own path resolves to, if links change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leads_to: Option<String>,
    /// The kinds of decisions allowed.
    pub allowed: Vec<DecisionKind>,
    /// The form of a text answer; free text if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<AnswerForm>,
    /// The tools that an edited call may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// When it was asked, as RFC 3339.
    pub asked_at: String,
    /// When it expires and counts as rejected, as RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

impl ActionRequest {
    /// Creates a question about a call that allows every decision. Its id is the call's own, so it blocks all calls of
    /// the turn. A question that a call [asks itself](crate::tool::ToolContext::interrupt) blocks only that call.
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

    /// Sets the question's text.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Sets the rule that requires a person's decision.
    #[must_use]
    pub fn rule(mut self, rule: impl Into<String>) -> Self {
        self.rule = Some(rule.into());
        self
    }

    /// Sets the name of the sub-agent that made the call, or `None` for the main agent.
    #[must_use]
    pub fn agent(mut self, sub_agent: Option<&str>) -> Self {
        self.agent = sub_agent.map(str::to_owned);
        self
    }

    /// Sets the path that the call's own path resolves to.
    #[must_use]
    pub fn leads_to(mut self, path: impl Into<String>) -> Self {
        self.leads_to = Some(path.into());
        self
    }

    /// Sets the kinds of decisions allowed.
    #[must_use]
    pub fn allowed(mut self, allowed: impl Into<Vec<DecisionKind>>) -> Self {
        self.allowed = allowed.into();
        self
    }

    /// Sets the form of a text answer.
    #[must_use]
    pub fn form(mut self, form: AnswerForm) -> Self {
        self.form = Some(form);
        self
    }

    /// Sets the tools that an edited call may use. By default this is only the call's own tool.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tools = tools.into_iter().map(Into::into).collect();
        self
    }

    /// Sets when the question expires and counts as rejected.
    #[must_use]
    pub fn expires_at(mut self, at: impl Into<String>) -> Self {
        self.expires_at = Some(at.into());
        self
    }

    /// Returns whether the question was asked before any call of the turn was made, not by the call itself.
    pub fn is_gate(&self) -> bool {
        self.id == self.call.to_string()
    }

    /// Returns whether the question has expired and counts as rejected.
    pub fn is_expired(&self, now: crate::env::Timestamp) -> bool {
        let at = self.expires_at.as_deref().and_then(|at| at.parse::<crate::env::Timestamp>().ok());
        at.is_some_and(|at| at <= now)
    }

    /// Checks whether a decision is a valid answer.
    ///
    /// # Errors
    /// Returns an error that says what is wrong with it.
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
                let (tool, own) = (edited_action.name.clone(), std::iter::once(&self.tool));
                let known = own.chain(self.tools.iter().filter(|tool| **tool != self.tool)).cloned().collect();
                return Err(DecisionError::UnknownTool { id, tool, known });
            }
            if !edited_action.args.is_object() {
                let reason = "the arguments of an edited call must be an object".to_owned();
                return Err(DecisionError::Arguments { id, reason });
            }
        }
        Ok(())
    }

    /// Checks that the tool of an edited call accepts the arguments and declares all of them, so that nothing a person
    /// has set is ignored. If the model's own call has arguments that the tool does not declare, undeclared arguments
    /// are accepted.
    ///
    /// # Errors
    /// Returns an error that says what is wrong with them.
    pub fn check_edit(&self, edited: &EditedAction, tool: &ToolSpec) -> Result<(), DecisionError> {
        let unnamed = |args: &Value| match unnamed_fields(&tool.schema, args) {
            Some(fields) => Err(format!("it does not name {fields}")),
            None => Ok(()),
        };
        let may_stay = edited.name == self.tool && unnamed(&self.args).is_err();
        let fits = SchemaCheck::new(tool.schema.clone()).check(&edited.args);
        fits.and_then(|()| if may_stay { Ok(()) } else { unnamed(&edited.args) }).map_err(|problem| {
            let reason = format!("{} does not take these arguments: {problem}", edited.name);
            DecisionError::Arguments { id: self.id.clone(), reason }
        })
    }

    /// Does the same for the agent at a path of the run, provided that it has the tool of the edit. A call of another
    /// agent, or of a tool that is offered only per request, is checked when it is made.
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
