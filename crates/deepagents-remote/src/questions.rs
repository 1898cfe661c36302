//! Questions of a remote agent to the local user, and the answers in the server's format.

use deepagents_core::agent::ChildScope;
use deepagents_core::interrupt::{ActionRequest, Decision, DecisionKind};
use deepagents_core::tool::ToolError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Maximum number of questions in one interrupt.
const MAX_QUESTIONS: usize = 100;
/// The tool name of a question that is not about a tool.
const NO_TOOL: &str = "question";

/// An interrupt of a remote run, as recorded in the local log until it is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RemoteInterrupt {
    /// Its remote id, if it has one.
    #[serde(default)]
    pub(crate) id: Option<String>,
    /// The questions, in order.
    pub(crate) asked: Vec<RemoteAction>,
    /// Whether the answer is a list of decisions on calls, rather than one text.
    pub(crate) decisions: bool,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RemoteAction {
    tool: String,
    args: Value,
    text: String,
    allowed: Vec<DecisionKind>,
}

impl RemoteAction {
    /// Creates a question that is answered with a text.
    pub(crate) fn text_question(text: impl Into<String>) -> Self {
        Self::of_value(&Value::String(text.into()))
    }

    fn of_value(value: &Value) -> Self {
        let field = || ["question", "description", "message"].iter().find_map(|key| value.get(key)?.as_str());
        let text = value.as_str().or_else(field).map_or_else(|| value.to_string(), str::to_owned);
        let args = json!({"question": value});
        Self { tool: NO_TOOL.to_owned(), args, text, allowed: vec![DecisionKind::Respond] }
    }

    fn to_request(&self, scope: &ChildScope) -> ActionRequest {
        let request = scope.question(self.tool.as_str(), self.args.clone()).text(self.text.as_str());
        request.agent(Some(scope.agent_name())).allowed(self.allowed.clone()).tools([self.tool.as_str()])
    }
}

/// Parses the interrupts of a thread: an object with a list per task, or one list.
pub(crate) fn read_pauses(interrupts: &Value) -> Vec<RemoteInterrupt> {
    let lists: Vec<&Value> = match interrupts {
        Value::Object(by_task) => by_task.values().filter_map(Value::as_array).flatten().collect(),
        Value::Array(list) => list.iter().collect(),
        _ => Vec::new(),
    };
    let mut room = MAX_QUESTIONS;
    let mut pauses: Vec<RemoteInterrupt> = Vec::new();
    for one in lists {
        let id = ["id", "interrupt_id"].iter().find_map(|key| one.get(key)?.as_str()).map(str::to_owned);
        if id.is_some() && pauses.iter().any(|pause| pause.id == id) {
            continue;
        }
        let pause = read_pause(id, one.get("value").unwrap_or(one), room);
        room = room.saturating_sub(pause.asked.len());
        if !pause.asked.is_empty() {
            pauses.push(pause);
        }
    }
    pauses
}

fn read_pause(id: Option<String>, value: &Value, room: usize) -> RemoteInterrupt {
    let Some(requests) = value.get("action_requests").and_then(Value::as_array) else {
        let asked = if room == 0 { Vec::new() } else { vec![RemoteAction::of_value(value)] };
        return RemoteInterrupt { id, asked, decisions: false };
    };
    let configs = value.get("review_configs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let one = |(at, request): (usize, &Value)| {
        let tool = text(request, "name").or_else(|| text(request, "action")).unwrap_or_else(|| NO_TOOL.to_owned());
        let named = |config: &&Value| text(config, "action_name").as_deref() == Some(&tool);
        // The order decides, unless the names differ.
        let config = configs.get(at).filter(named).or_else(|| configs.iter().find(named));
        let allowed = config.and_then(|config| config.get("allowed_decisions")).and_then(Value::as_array);
        let allowed: Vec<DecisionKind> = match allowed {
            Some(kinds) => kinds.iter().filter_map(|kind| serde_json::from_value(kind.clone()).ok()).collect(),
            None => DecisionKind::ALL.to_vec(),
        };
        let args = request.get("args").or_else(|| request.get("arguments")).cloned().unwrap_or_else(|| json!({}));
        RemoteAction { args, text: text(request, "description").unwrap_or_default(), allowed, tool }
    };
    RemoteInterrupt { id, asked: requests.iter().enumerate().take(room).map(one).collect(), decisions: true }
}

/// Asks the local user all questions at once. Returns the answers grouped by interrupt.
pub(crate) async fn ask(scope: &ChildScope, pauses: &[RemoteInterrupt]) -> Result<Vec<Vec<Decision>>, ToolError> {
    let questions = pauses.iter().flat_map(|pause| &pause.asked).map(|asked| asked.to_request(scope)).collect();
    let mut decisions = scope.interrupt_all(questions).await?.into_iter();
    Ok(pauses.iter().map(|pause| decisions.by_ref().take(pause.asked.len()).collect()).collect())
}

/// Returns the value that resumes a run.
pub(crate) fn resume_value(pauses: &[RemoteInterrupt], answers: &[Vec<Decision>]) -> Value {
    let one = |pause: &RemoteInterrupt, answers: &[Decision]| match pause.decisions {
        true => json!({"decisions": answers}),
        false => Value::String(answers.first().map(decision_text).unwrap_or_default()),
    };
    let all: Vec<(&RemoteInterrupt, Value)> =
        pauses.iter().zip(answers).map(|(pause, given)| (pause, one(pause, given))).collect();
    match all.as_slice() {
        [(_, only)] => only.clone(),
        several => {
            let named = several.iter().filter_map(|(pause, value)| Some((pause.id.clone()?, value.clone())));
            Value::Object(named.collect::<Map<String, Value>>())
        }
    }
}

/// Returns an answer as text.
pub(crate) fn decision_text(decision: &Decision) -> String {
    match decision {
        Decision::Respond { message } => message.clone(),
        Decision::Reject { message } => message.clone().unwrap_or_else(|| "No.".to_owned()),
        Decision::Edit { edited_action } => edited_action.args.to_string(),
        _ => "Yes.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_calls_keep_their_allowed_decisions_and_other_pauses_take_text() {
        let interrupts = json!({"task-1": [
            {"id": "a", "value": {
                "action_requests": [{"name": "book", "args": {"city": "Rome"}, "description": "Book?"}, {"name": "pay", "args": {}}],
                "review_configs": [{"action_name": "pay", "allowed_decisions": ["approve"]}, {"action_name": "book", "allowed_decisions": ["reject"]}],
            }},
            {"id": "b", "value": "Which city?"},
            {"id": "b", "value": "Which city?"},
        ]});
        let pauses = read_pauses(&interrupts);
        assert_eq!(pauses.len(), 2);
        assert_eq!(pauses[0].asked[0].allowed, [DecisionKind::Reject]);
        assert_eq!(pauses[0].asked[1].allowed, [DecisionKind::Approve]);
        assert_eq!(pauses[1].asked[0].text, "Which city?");
        let respond = Decision::Respond { message: "Rome".to_owned() };
        let answers = vec![vec![Decision::Reject { message: None }, Decision::Approve], vec![respond.clone()]];
        let wanted = json!({"a": {"decisions": [{"type": "reject"}, {"type": "approve"}]}, "b": "Rome"});
        assert_eq!(resume_value(&pauses, &answers), wanted);
        assert_eq!(resume_value(&pauses[1..], &[vec![respond]]), json!("Rome"));
    }

    #[test]
    fn a_value_that_is_no_pause_asks_nothing_and_questions_are_capped() {
        assert!(read_pauses(&json!(null)).is_empty() && read_pauses(&json!({"t": 3})).is_empty());
        let many: Vec<Value> = (0..500).map(|n| json!({"id": n.to_string(), "value": "?"})).collect();
        assert_eq!(read_pauses(&Value::Array(many)).len(), MAX_QUESTIONS);
    }
}
