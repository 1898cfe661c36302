//! Puts action requests to the person in the editor.

use deepagents::core::interrupt::{Decision, DecisionAuthor, DecisionRecord};
use deepagents::remembered::{CommandReach, RememberedRule};
use deepagents::{ActionRequest, DecisionKind, State};

use super::Session;
use crate::editor::{EditorError, FormAnswer};
use crate::host::AgentHost;
use crate::policy::{ASKED, PolicyDecision, SessionRule};
use crate::show::{Presenter, old_text};
use crate::wire;

const ONCE: &str = "allow_once";
const ALWAYS: &str = "allow_always";
const ALWAYS_HERE: &str = "allow_always_in_directory";
const REJECT: &str = "reject_once";

impl<H: AgentHost> Session<H> {
    /// Asks one question at a time, because an "always" answer may decide later ones. Returns `None` if the person does
    /// not decide; the turn must then end, with the interrupts pending. The same applies if the editor cannot ask.
    pub(super) async fn decide(
        &self,
        run: &str,
        questions: &[ActionRequest],
        state: &State,
        presenter: &mut Presenter<'_>,
    ) -> Result<Option<Vec<(String, DecisionRecord)>>, EditorError> {
        let mut decisions = Vec::new();
        for question in questions {
            let Some(decision) = self.ask(run, question, state, presenter).await? else { return Ok(None) };
            // A call that raised its own interrupt resumes with the answer and reports the result itself.
            if question.is_gate() && matches!(decision.decision, Decision::Reject { .. }) {
                presenter.rejected(run, &question.call);
            }
            decisions.push((question.id.clone(), decision));
        }
        Ok(Some(decisions))
    }

    /// Whether commands may run outside a sandbox. The editor's terminals have none.
    fn is_unconfined(&self) -> bool {
        self.editor.has_terminals() || !self.policy.is_sandboxed()
    }

    /// Returns the narrow rule that covers a call, if a rule can determine what the call does.
    fn rule_covering(&self, question: &ActionRequest) -> Option<RememberedRule> {
        let rule = RememberedRule::covering(question).within(&self.reach());
        (!self.agent().shares_shell || !rule.is_about_commands()).then_some(rule)
    }

    /// Returns what commands can reach.
    fn reach(&self) -> CommandReach {
        let reach = self.agent().reach;
        CommandReach { unconfined: reach.unconfined || self.is_unconfined(), ..reach }
    }

    /// Returns the text of the session's or directory's rule that covers a call. An unreadable rules file counts as
    /// empty.
    async fn remembered(&self, question: &ActionRequest) -> Option<String> {
        self.rule_covering(question)?;
        if let Some(rule) = self.policy.rule(question) {
            return Some(rule.to_string());
        }
        let (store, scope) = self.agent().rules?;
        let (question, reach) = (question.clone(), self.reach());
        let found = tokio::task::spawn_blocking(move || store.find(&[scope], &question, &reach)).await;
        found.ok()?.ok()?.map(|rule| rule.to_string())
    }

    /// Stores a rule for the directory. If that fails, the rule applies to this session only.
    async fn remember(&self, rule: RememberedRule) {
        if let Some((store, scope)) = self.agent().rules {
            let kept = rule.clone();
            let kept = tokio::task::spawn_blocking(move || store.add(&scope, &kept)).await;
            if let Ok(Ok(())) = kept {
                return;
            }
            let title = "The rule could not be saved; it only holds in this session";
            let _ = self.editor.notice(wire::NoticeSeverity::Warning, title, None);
        }
        self.policy.allow_always(SessionRule::Calls(rule));
    }

    /// Returns the decision about one question. Returns `None` if the person does not decide.
    async fn ask(
        &self,
        run: &str,
        question: &ActionRequest,
        state: &State,
        presenter: &mut Presenter<'_>,
    ) -> Result<Option<DecisionRecord>, EditorError> {
        let can = |kind: DecisionKind| question.allowed.contains(&kind);
        // A gate interrupts before a call. Any other interrupt is raised by the tool itself.
        let is_gate = question.is_gate();
        // An interrupt by any other rule is asked each time: neither the mode nor remembered rules apply to it.
        let of_mode = is_gate && question.rule.as_deref() == Some(ASKED) && can(DecisionKind::Approve);
        if of_mode && let Some(approved) = self.approved_by_rule(question).await {
            return Ok(Some(approved));
        }
        let old = if question.tool == "write_file" {
            old_text(&*self.agent().workspace, state, &question.args).await
        } else {
            None
        };
        let call = presenter.question(run, question, old);
        if !is_gate && can(DecisionKind::Respond) && self.editor.has_forms() {
            return Ok(self.ask_in_form(&call, question).await?.map(DecisionRecord::from));
        }
        if let Some(hooks) = self.agent().hooks {
            if let Some(decision) = hooks.permission_request(self.thread(), question).await {
                let author = DecisionAuthor::Rule { text: "a hook".to_owned() };
                return Ok(Some(DecisionRecord::new(decision, author)));
            }
            // Notification hooks run in the background, so the question does not wait for them.
            tokio::spawn(hooks.question(self.thread(), question));
        }
        self.ask_for_permission(call, question, of_mode).await
    }

    /// Returns the approval of a call about which the session's mode asks, if the present mode or a remembered rule
    /// allows it.
    async fn approved_by_rule(&self, question: &ActionRequest) -> Option<DecisionRecord> {
        let author = if self.policy.decide(&question.tool) == PolicyDecision::Allow {
            DecisionAuthor::Rule { text: self.policy.reason() }
        } else {
            DecisionAuthor::RememberedRule { text: self.remembered(question).await? }
        };
        Some(DecisionRecord::new(Decision::Approve, author))
    }

    /// Asks for a text, with the form of the question.
    async fn ask_in_form(
        &self,
        call: &wire::ToolCallUpdate,
        question: &ActionRequest,
    ) -> Result<Option<Decision>, EditorError> {
        if let Some(hooks) = self.agent().hooks {
            tokio::spawn(hooks.question(self.thread(), question));
        }
        let form = question.form.as_ref();
        let answer = self.editor.ask_for_answer(&call.tool_call_id.0, &question.text, form).await?;
        Ok(match answer {
            FormAnswer::Text(message) => Some(Decision::Respond { message }),
            FormAnswer::Declined if question.allowed.contains(&DecisionKind::Reject) => {
                Some(Decision::Reject { message: None })
            }
            FormAnswer::Declined => Some(Decision::Respond { message: "The person declined to answer.".to_owned() }),
            FormAnswer::Closed => None,
        })
    }

    /// Asks whether a call may be made. A rule is offered and remembered only if the session's mode asks.
    async fn ask_for_permission(
        &self,
        call: wire::ToolCallUpdate,
        question: &ActionRequest,
        of_mode: bool,
    ) -> Result<Option<DecisionRecord>, EditorError> {
        let rule = self.rule_covering(question).filter(|_| of_mode);
        let options = options(question, rule.as_ref(), self.agent().rules.is_some());
        if options.is_empty() {
            // The tool needs a text, which this editor cannot ask for.
            let message = "The person's editor cannot ask for a text. Ask in a message, and end the turn.".to_owned();
            let author = DecisionAuthor::Default { text: "the editor has no forms".to_owned() };
            return Ok(Some(DecisionRecord::new(Decision::Respond { message }, author)));
        }
        let offered: Vec<wire::PermissionOptionId> = options.iter().map(|option| option.option_id.clone()).collect();
        let Some(chosen) = self.editor.permission(call, options).await? else { return Ok(None) };
        if !offered.contains(&chosen) {
            // An unknown option must not count as approval.
            return Err(EditorError::Odd(format!("there is no option `{chosen}`")));
        }
        match (&*chosen.0, rule) {
            (ALWAYS, Some(rule)) => self.policy.allow_always(SessionRule::of_call(question, &rule)),
            (ALWAYS_HERE, Some(rule)) => self.remember(rule).await,
            (REJECT, _) => return Ok(Some(Decision::Reject { message: None }.into())),
            _ => {}
        }
        Ok(Some(Decision::Approve.into()))
    }
}

/// Returns the options to offer. An "always" option shows its rule in full.
fn options(question: &ActionRequest, rule: Option<&RememberedRule>, lasts: bool) -> Vec<wire::PermissionOption> {
    let option = |id: &'static str, name: &str, kind| wire::PermissionOption::new(id, name, kind);
    let mut options = Vec::new();
    if question.allowed.contains(&DecisionKind::Approve) {
        options.push(option(ONCE, "Allow", wire::PermissionOptionKind::AllowOnce));
        if let Some(rule) = rule {
            let always = wire::PermissionOptionKind::AllowAlways;
            let of_session = SessionRule::of_call(question, rule);
            options.push(option(ALWAYS, &format!("Always allow in this session: {of_session}"), always));
            if lasts {
                options.push(option(ALWAYS_HERE, &format!("Always allow in this directory: {rule}"), always));
            }
        }
    }
    if question.allowed.contains(&DecisionKind::Reject) {
        options.push(option(REJECT, "Reject", wire::PermissionOptionKind::RejectOnce));
    }
    options
}
