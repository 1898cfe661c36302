//! Pending questions: calls that need a decision of the user.

use std::time::{Duration, Instant};

use deepagents::remembered::{CommandReach, RememberedRule};
use deepagents::{ActionRequest, AnswerForm, Decision, DecisionAuthor, DecisionKind, DecisionRecord};

use super::event::PendingApproval;
use super::form::Form;
use crate::input::Editor;
use crate::policy::Rule;

/// How long a user who was typing when a question came up must pause before a key counts as an answer.
pub(super) const TYPING_PAUSE: Duration = Duration::from_millis(700);

/// What the keys do at a question.
#[derive(Clone, Debug, Default)]
pub(crate) enum Asking {
    /// They decide.
    #[default]
    Decide,
    /// They type the reason for a rejection.
    Reason(Editor),
    /// They edit the call.
    Change(Editor),
    /// They confirm that this rule is saved for the directory.
    Remember(RememberedRule),
    /// They type or choose an answer that replaces the call's result.
    Respond(Form),
}

/// The open questions in order, and the decisions on earlier ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Questions {
    open: Vec<PendingApproval>,
    decided: Vec<(ActionRequest, DecisionRecord)>,
    pub(crate) asking: Asking,
    /// Whether the current question has been on the screen, and whether the whole call has.
    shown: bool,
    all_shown: bool,
    /// When the user last typed, if that was before the question came up.
    typing: Option<Instant>,
    /// The text in the input when the current question came on the screen.
    before: String,
    /// Why the last answer was invalid.
    pub(crate) problem: Option<String>,
}

impl Questions {
    /// Returns the question to answer now.
    pub(crate) fn current(&self) -> Option<&PendingApproval> {
        self.open.first()
    }

    /// Returns the number of the current question and the total.
    pub(crate) fn position(&self) -> (usize, usize) {
        (self.decided.len() + 1, self.decided.len() + self.open.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Adds a question. Returns `false` if it is already known.
    pub(crate) fn ask(&mut self, question: PendingApproval, typing: Option<Instant>) -> bool {
        if self.knows(&question.request.id) {
            return false;
        }
        self.open.push(question);
        if self.open.len() == 1 {
            self.begin(typing);
        }
        true
    }

    fn begin(&mut self, typing: Option<Instant>) {
        (self.shown, self.all_shown, self.typing) = (false, false, typing);
        self.ask_plainly();
    }

    /// Returns to the initial keys of the question. If it offers answers, one of them is selected.
    pub(crate) fn ask_plainly(&mut self) {
        self.problem = None;
        self.asking = match self.current() {
            Some(question) if self.has_choices() => Asking::Respond(Form::of(&question.request)),
            _ => Asking::Decide,
        };
    }

    /// Returns whether there is a question that has not been on the screen yet.
    pub(crate) fn is_unseen(&self) -> bool {
        !self.open.is_empty() && !self.shown
    }

    /// Returns whether the whole call of the current question has been on the screen, as a yes requires.
    pub(crate) fn is_all_shown(&self) -> bool {
        self.all_shown
    }

    /// Returns whether the next frame may show more of the current question than has been on the screen.
    pub(crate) fn has_unseen_part(&self) -> bool {
        !self.open.is_empty() && !self.all_shown
    }

    /// Marks the current question as shown, with `typed` in the input. `all` says whether the whole call was visible.
    pub(crate) fn drawn(&mut self, typed: &str, all: bool) {
        if self.is_unseen() {
            typed.clone_into(&mut self.before);
            self.shown = true;
        }
        self.all_shown |= all;
    }

    /// Returns whether the text in the input was begun after the current question appeared.
    pub(crate) fn is_begun_after_question(&self, typed: &str) -> bool {
        self.shown && self.typing.is_none() && !typed.trim().is_empty() && typed != self.before
    }

    /// Returns whether a key is an answer now, and not the continuation of what the user was typing. `typed` is the
    /// text in the input.
    pub(crate) fn takes_keys(&mut self, now: Instant, typed: &str) -> bool {
        if !self.shown {
            return false;
        }
        match self.typing {
            Some(last) if now.saturating_duration_since(last) < TYPING_PAUSE => {
                self.typing = Some(now);
                false
            }
            Some(_) => {
                // Text finished after the question appeared does not count as begun at it.
                typed.clone_into(&mut self.before);
                self.typing = None;
                true
            }
            None => true,
        }
    }

    /// Decides on the current question.
    pub(crate) fn decide(&mut self, decision: Decision) {
        if !self.open.is_empty() {
            let question = self.open.remove(0);
            self.decided.push((question.request, decision.into()));
        }
        // The next question must be shown before it can be answered.
        self.begin(None);
    }

    /// Makes the same decision on all open questions that meet a condition.
    fn decide_where(&mut self, is_meant: impl Fn(&PendingApproval) -> bool, decided: &DecisionRecord) {
        let meant = self.open.extract_if(.., |question| is_meant(question));
        self.decided.extend(meant.map(|question| (question.request, decided.clone())));
        self.begin(None);
    }

    /// Returns the calls that can be approved or rejected together, the current one first. Empty if there is only one.
    pub(crate) fn together(&self) -> Vec<PendingApproval> {
        let both = [DecisionKind::Approve, DecisionKind::Reject];
        let decides = |one: &&PendingApproval| both.iter().all(|kind| one.request.allowed.contains(kind));
        let calls: Vec<PendingApproval> = self.open.iter().filter(decides).cloned().collect();
        if calls.len() > 1 && self.current().is_some_and(|current| decides(&current)) { calls } else { Vec::new() }
    }

    /// Makes the same decision on those of the calls that are still open.
    pub(crate) fn decide_together(&mut self, calls: &[PendingApproval], decision: &Decision) {
        let is_meant = |open: &PendingApproval| calls.iter().any(|call| call.request.id == open.request.id);
        self.decide_where(is_meant, &decision.clone().into());
    }

    /// Approves the current call, and all others that the rule covers and that are asked for the same reason. A
    /// question that a call asks by itself, such as before it changes files that steer the agent, is asked each time.
    pub(crate) fn allow(&mut self, rule: &Rule) {
        let reason = self.current().and_then(|question| question.request.rule.clone());
        self.decide(Decision::Approve);
        let covered = |question: &PendingApproval| {
            let request = &question.request;
            let alike = request.is_gate() && request.leads_to.is_none() && request.rule == reason;
            alike && rule.covers(&request.tool, &request.args)
        };
        self.decide_where(covered, &by_rule(rule));
    }

    /// Approves the current call and all others that a rule for the directory covers.
    pub(crate) fn remember(&mut self, rule: &RememberedRule) {
        self.decide(Decision::Approve);
        self.decide_where(|open| open.request.is_gate() && rule.covers(&open.request), &by_rule(rule));
    }

    /// Records a decision on a question that the user is not asked.
    pub(crate) fn record(&mut self, question: PendingApproval, decided: DecisionRecord) {
        self.decided.push((question.request, decided));
    }

    /// Returns the decisions so far.
    pub(crate) fn decided(&self) -> &[(ActionRequest, DecisionRecord)] {
        &self.decided
    }

    /// Returns whether a question is open or has been decided.
    pub(crate) fn knows(&self, id: &str) -> bool {
        self.open.iter().any(|open| open.request.id == id) || self.decided.iter().any(|(other, _)| other.id == id)
    }

    /// Takes the decisions once no question is open.
    pub(crate) fn answers(&mut self) -> Option<Vec<(String, DecisionRecord)>> {
        (self.open.is_empty() && !self.decided.is_empty()).then(|| by_id(std::mem::take(&mut self.decided)))
    }

    /// Takes the tools of the open questions, and the decisions on the others. Removes all questions.
    pub(crate) fn take_open(&mut self) -> (Vec<String>, Vec<(ActionRequest, DecisionRecord)>) {
        let Self { open, decided, .. } = std::mem::take(self);
        (open.into_iter().map(|question| question.request.tool).collect(), decided)
    }

    /// Returns whether the current question allows this kind of decision.
    pub(crate) fn allows(&self, kind: DecisionKind) -> bool {
        self.current().is_some_and(|question| question.request.allowed.contains(&kind))
    }

    /// Returns the session rule that `always` creates at the current question. Returns `None` if it is not a yes-or-no
    /// question about a call.
    pub(crate) fn rule(&self) -> Option<Rule> {
        self.about_call().map(|request| Rule::for_call(&request.tool, &request.args))
    }

    /// Returns the rule for the directory that it creates, as narrow as the call.
    pub(crate) fn lasting_rule(&self, reach: &CommandReach) -> Option<RememberedRule> {
        let request = self.about_call().filter(|request| request.is_gate())?;
        Some(RememberedRule::covering(request).within(reach))
    }

    /// Returns the current question if it is a yes-or-no question about a call.
    fn about_call(&self) -> Option<&ActionRequest> {
        let request = &self.current()?.request;
        let asks_itself = !request.text.is_empty() && !request.allowed.contains(&DecisionKind::Edit);
        (request.allowed.contains(&DecisionKind::Approve) && !asks_itself).then_some(request)
    }

    /// Returns whether the current question accepts only a text.
    pub(crate) fn accepts_only_text(&self) -> bool {
        let is_open = self.current().is_some_and(|question| question.request.form.is_none());
        is_open && self.allows(DecisionKind::Respond) && !self.allows(DecisionKind::Approve)
    }

    /// Returns the editor in use at the question: for a reason, an edited call or a field.
    pub(crate) fn written(&mut self) -> Option<&mut Editor> {
        match &mut self.asking {
            Asking::Reason(editor) | Asking::Change(editor) => Some(editor),
            Asking::Respond(form) => form.written(),
            Asking::Decide | Asking::Remember(_) => None,
        }
    }

    /// Returns whether the current question offers answers to choose from.
    pub(crate) fn has_choices(&self) -> bool {
        self.current().is_some_and(|question| matches!(question.request.form, Some(AnswerForm::Choices { .. })))
    }
}

/// Returns the approval of a call by a rule.
pub(super) fn by_rule(rule: &impl ToString) -> DecisionRecord {
    DecisionRecord::new(Decision::Approve, DecisionAuthor::RememberedRule { text: rule.to_string() })
}

/// Returns the decisions in the form that a run takes.
pub(super) fn by_id(decided: Vec<(ActionRequest, DecisionRecord)>) -> Vec<(String, DecisionRecord)> {
    decided.into_iter().map(|(request, decision)| (request.id, decision)).collect()
}

pub(super) fn is_command(tool: &str) -> bool {
    tool == "execute"
}
