//! Questions about calls, put to the person in the editor.

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
    /// Puts questions one after the other, since what is allowed for good with one answers others. Nothing where nobody
    /// decides: the turn is to end then, and the questions stay open, as they do where the editor cannot ask them.
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
            // A call that asks by itself goes on with the answer, and says what comes of it.
            if question.is_gate() && matches!(decision.decision, Decision::Reject { .. }) {
                presenter.rejected(run, &question.call);
            }
            decisions.push((question.id.clone(), decision));
        }
        Ok(Some(decisions))
    }

    /// Whether commands may run without a sandbox: the editor's terminals have none.
    fn is_unconfined(&self) -> bool {
        self.editor.has_terminals() || !self.policy.is_sandboxed()
    }

    /// The rule that covers a call, where one can say what the call does.
    fn rule_covering(&self, question: &ActionRequest) -> Option<RememberedRule> {
        let rule = RememberedRule::covering(question).within(&self.reach());
        (!self.agent().shares_shell || !rule.is_about_commands()).then_some(rule)
    }

    /// What commands reach.
    fn reach(&self) -> CommandReach {
        let reach = self.agent().reach;
        CommandReach { unconfined: reach.unconfined || self.is_unconfined(), ..reach }
    }

    /// The rule of the session or of its directory that covers a call, in words. A file that cannot be read says nothing.
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

    /// Keeps a rule for the directory; for the session alone where that cannot be.
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

    async fn ask(
        &self,
        run: &str,
        question: &ActionRequest,
        state: &State,
        presenter: &mut Presenter<'_>,
    ) -> Result<Option<DecisionRecord>, EditorError> {
        let allows = |kind: DecisionKind| question.allowed.contains(&kind);
        // A gate is a question of ours about a call; anything else is one that the tool asks by itself.
        let is_gate = question.is_gate();
        // What another rule asks about is asked about each time: the mode and what was always allowed say nothing of it.
        let of_mode = is_gate && question.rule.as_deref() == Some(ASKED) && allows(DecisionKind::Approve);
        if of_mode {
            if self.policy.decide(&question.tool) == PolicyDecision::Allow {
                let author = DecisionAuthor::Rule { text: self.policy.reason() };
                return Ok(Some(DecisionRecord::new(Decision::Approve, author)));
            }
            if let Some(rule) = self.remembered(question).await {
                let author = DecisionAuthor::RememberedRule { text: rule };
                return Ok(Some(DecisionRecord::new(Decision::Approve, author)));
            }
        }
        let old = if question.tool == "write_file" {
            old_text(&*self.agent().workspace, state, &question.args).await
        } else {
            None
        };
        let call = presenter.question(run, question, old);
        let hooks = self.agent().hooks;
        if !is_gate && allows(DecisionKind::Respond) && self.editor.has_forms() {
            if let Some(hooks) = &hooks {
                tokio::spawn(hooks.question(&self.thread, question));
            }
            let form = question.form.as_ref();
            let answer = self.editor.ask_for_answer(&call.tool_call_id.0, &question.text, form).await?;
            return Ok(match answer {
                FormAnswer::Text(message) => Some(Decision::Respond { message }.into()),
                FormAnswer::Declined if allows(DecisionKind::Reject) => Some(Decision::Reject { message: None }.into()),
                FormAnswer::Declined => {
                    Some(Decision::Respond { message: "The person declined to answer.".to_owned() }.into())
                }
                FormAnswer::Closed => None,
            });
        }
        if let Some(hooks) = hooks {
            if let Some(decision) = hooks.permission_request(&self.thread, question).await {
                let author = DecisionAuthor::Rule { text: "a hook".to_owned() };
                return Ok(Some(DecisionRecord::new(decision, author)));
            }
            // The question does not wait for whoever is told of it.
            tokio::spawn(hooks.question(&self.thread, question));
        }
        let rule = self.rule_covering(question).filter(|_| of_mode);
        let options = options(question, rule.as_ref(), self.agent().rules.is_some());
        if options.is_empty() {
            // A text is wanted, and this editor has nowhere to type one.
            let message = "The person's editor cannot ask for a text. Ask in a message, and end the turn.".to_owned();
            let author = DecisionAuthor::Default { text: "the editor has no forms".to_owned() };
            return Ok(Some(DecisionRecord::new(Decision::Respond { message }, author)));
        }
        let offered: Vec<wire::PermissionOptionId> = options.iter().map(|option| option.option_id.clone()).collect();
        let Some(chosen) = self.editor.permission(call, options).await? else { return Ok(None) };
        if !offered.contains(&chosen) {
            // Whatever it means, it is no yes.
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

/// What a person may choose; the rule that an "always" makes is shown whole.
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
