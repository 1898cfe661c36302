//! The open interrupts of a state.

use super::{
    ActionRequest, ActionRequestChange, ActionRequests, ActionReview, Decision, DecisionAuthor, DecisionError,
    DecisionRecord, PausedChange, PausedChildren,
};
use crate::env::Timestamp;
use crate::state::{ChannelError, ChildState, State, Undelivered, Update};

/// Why a call did not finish: it waits for answers.
#[derive(Debug)]
pub struct PendingInterrupt {
    pub(crate) questions: Vec<ActionRequest>,
    /// The initial and current states of the sub-agent that asks, if the call runs one.
    pub(crate) child: Option<Box<ChildState>>,
}

impl PendingInterrupt {
    /// Returns the questions of the call and of the agents below it.
    pub fn action_requests(&self) -> &[ActionRequest] {
        &self.questions
    }

    /// Creates the interrupt of a waiting sub-agent, with its initial and current states.
    pub(crate) fn child(child: ChildState) -> Self {
        Self { questions: open_questions(&child.left).cloned().collect(), child: Some(Box::new(child)) }
    }
}

/// Renumbers the waiting turn, with its calls and the questions about them. `path` is the path of the thread's own
/// agent.
pub(crate) fn renumber(state: &mut State, path: &[String], turn: u32) -> Result<(), ChannelError> {
    let asked = state.get::<ActionRequests>().cloned().unwrap_or_default();
    let paused = state.get::<PausedChildren>().cloned().unwrap_or_default();
    let mut update = Update::none();
    if !asked.is_empty() {
        let mut changes = vec![ActionRequestChange::Clear];
        for ActionReview { request: mut question, decision: answer } in asked.into_values() {
            // The paths of sub-agents do not change.
            if question.call.path == path {
                let rest = question.id.strip_prefix(&question.call.to_string()).unwrap_or_default().to_owned();
                question.call.turn = turn;
                question.id = format!("{}{rest}", question.call);
            }
            let answer = answer.map(|answer| ActionRequestChange::Decide(question.id.clone(), answer));
            changes.push(ActionRequestChange::Request(Box::new(question)));
            changes.extend(answer);
        }
        update = update.with::<ActionRequests>(changes);
    }
    if !paused.is_empty() {
        let again = paused.into_values().map(|mut child| {
            child.call.turn = turn;
            PausedChange::Put(Box::new(child))
        });
        update = update.with::<PausedChildren>([PausedChange::Clear].into_iter().chain(again).collect());
    }
    state.apply(&update)
}

/// Returns the questions of a state that have no answer.
pub(crate) fn open_questions(state: &State) -> impl Iterator<Item = &ActionRequest> {
    let asked = state.get::<ActionRequests>().into_iter().flat_map(|asked| asked.values());
    asked.filter(|asked| asked.decision.is_none()).map(|asked| &asked.request)
}

impl State {
    /// Returns the calls that wait for a decision, in order, whichever process left them.
    ///
    /// ```
    /// # async fn f(agent: deepagents_core::agent::Agent) -> Result<(), Box<dyn std::error::Error>> {
    /// for request in agent.state("t1").await?.action_requests() {
    ///     println!("{}: {}", request.id, request.text);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn action_requests(&self) -> Vec<ActionRequest> {
        let mut open: Vec<ActionRequest> = open_questions(self).cloned().collect();
        open.sort_by(|a, b| (&a.call, &a.id).cmp(&(&b.call, &b.id)));
        open
    }
}

/// Returns the answers that a state holds for a subtree of agents, as changes for the sub-agent there.
pub(crate) fn answers_below(state: &State, path: &[String]) -> Vec<ActionRequestChange> {
    let asked = state.get::<ActionRequests>().into_iter().flat_map(|asked| asked.values());
    asked
        .filter(|asked| asked.request.call.path.starts_with(path))
        .filter_map(|ActionReview { request: question, decision: answer }| {
            Some(ActionRequestChange::Decide(question.id.clone(), answer.clone()?))
        })
        .collect()
}

/// Converts the answers to changes, all of them or none, and adds rejections for expired questions.
pub(crate) fn answers_to(
    state: &State,
    answers: Vec<(String, DecisionRecord)>,
    now: Timestamp,
) -> Result<Vec<ActionRequestChange>, DecisionError> {
    let asked = state.get::<ActionRequests>().cloned().unwrap_or_default();
    let mut changes = Vec::new();
    for (id, decision) in answers {
        let Some(ActionReview { request: question, decision: answer }) = asked.get(&id) else {
            let open = open_questions(state).map(|q| q.id.clone()).collect();
            return Err(DecisionError::Unknown { id, open });
        };
        let twice = changes.iter().any(|c| matches!(c, ActionRequestChange::Decide(other, _) if *other == id));
        if answer.is_some() || twice {
            return Err(DecisionError::Answered { id });
        }
        question.check(&decision.decision, now)?;
        changes.push(ActionRequestChange::Decide(id, decision));
    }
    for question in open_questions(state).filter(|q| q.is_expired(now)) {
        let text = "nobody decided in time".to_owned();
        let decision = Decision::Reject { message: Some(text.clone()) };
        let decision = DecisionRecord::new(decision, DecisionAuthor::Default { text });
        changes.push(ActionRequestChange::Decide(question.id.clone(), decision));
    }
    Ok(changes)
}

/// Returns the update that discards all questions of a state.
pub(crate) fn without_questions(state: &State) -> Update {
    let mut update = Update::none();
    if state.get::<ActionRequests>().is_some_and(|asked| !asked.is_empty()) {
        update = update.with::<ActionRequests>(vec![ActionRequestChange::Clear]);
    }
    if state.get::<PausedChildren>().is_some_and(|paused| !paused.is_empty()) {
        update = update.with::<PausedChildren>(vec![PausedChange::Clear]);
    }
    update
}

/// Discards questions and undelivered messages, for a state that another run starts with.
pub(crate) fn forget_asked(state: &mut State) -> Result<(), ChannelError> {
    let mut update = without_questions(state);
    if state.get::<Undelivered>().is_some_and(|kept| !kept.is_empty()) {
        update = update.with::<Undelivered>(Vec::new());
    }
    state.apply(&update)
}
