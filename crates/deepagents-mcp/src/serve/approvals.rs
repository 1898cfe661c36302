//! What a person is asked before the agent does it.

use deepagents_core::interrupt::{ActionRequest, Decision, DecisionKind};
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, InputRequest,
    InputRequests, InputResponses,
};
use serde_json::{Value, json};

use crate::text;

/// Characters of a question that is shown whole; of a longer one the beginning and the end are.
const SHOWN: usize = 20_000;
/// Characters of a question; nobody is asked a longer one, as nobody could look at it.
const MOST: usize = 200_000;
/// The field of the answer.
const FIELD: &str = "decision";
/// The field of the reason.
const REASON: &str = "reason";

/// A question as a form: what may be decided, and why.
pub(super) fn form(question: &ActionRequest) -> ElicitRequestParams {
    let word = |kind: &DecisionKind| kind.as_str();
    // An edited call does not fit into a form of plain fields.
    let kinds: Vec<&str> = question.allowed.iter().filter(|kind| **kind != DecisionKind::Edit).map(word).collect();
    let schema = json!({
        "type": "object",
        "properties": {
            FIELD: {"type": "string", "enum": kinds, "description": "What is to be done about the call"},
            REASON: {"type": "string", "description": "Why it is rejected, or the answer to give instead"},
        },
        "required": [FIELD],
    });
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: text::ends(&words(question), SHOWN),
        // The schema is a constant of this form.
        requested_schema: serde_json::from_value::<ElicitationSchema>(schema)
            .unwrap_or_else(|_| ElicitationSchema::new(Default::default())),
    }
}

/// A question in words: what is asked, and of which call, once.
fn words(question: &ActionRequest) -> String {
    let args = question.args.to_string();
    let mut words = question.text.clone();
    if !(words.contains(&question.tool) && words.contains(&args)) {
        words = format!("{words}\n\n{} {args}", question.tool);
    }
    if let Some(place) = &question.leads_to {
        words = format!("{words}\n\nThe path leads to {place}");
    }
    text::visible(&words)
}

/// What is decided about a question that is too long for anybody to look at.
pub(super) fn too_long(question: &ActionRequest) -> Option<Decision> {
    let length = words(question).chars().count();
    let why = || format!("nobody could be asked: the call is {length} characters long, and {MOST} can be shown");
    (length > MOST).then(|| Decision::Reject { message: Some(why()) })
}

/// The questions as what a result of the kind `input_required` asks for, by their ids.
pub(super) fn requests(questions: &[ActionRequest]) -> InputRequests {
    let one =
        |question: &ActionRequest| (question.id.clone(), InputRequest::Elicitation(ElicitRequest::new(form(question))));
    questions.iter().filter(|question| too_long(question).is_none()).map(one).collect()
}

/// What was decided about a question. Whatever is not a decision that it allows is a refusal.
pub(super) fn decision(question: &ActionRequest, answer: &ElicitResult) -> Decision {
    let field = |name: &str| answer.content.as_ref().and_then(|content| content.get(name)).and_then(Value::as_str);
    let reason = field(REASON).map(str::to_owned);
    let allows = |kind| question.allowed.contains(&kind);
    if answer.action != ElicitationAction::Accept {
        return Decision::Reject { message: Some("the person who was asked declined".to_owned()) };
    }
    match field(FIELD) {
        Some("approve") if allows(DecisionKind::Approve) => Decision::Approve,
        Some("respond") if allows(DecisionKind::Respond) => Decision::Respond { message: reason.unwrap_or_default() },
        _ => Decision::Reject { message: reason },
    }
}

/// What was decided about questions, by the answers of a call that is made again.
pub(super) fn decisions(questions: &[ActionRequest], answers: &InputResponses) -> Vec<(String, Decision)> {
    let one = |question: &ActionRequest| {
        if let Some(refusal) = too_long(question) {
            return Some((question.id.clone(), refusal));
        }
        let answer = answers.get(&question.id)?;
        let answer =
            serde_json::from_value(answer.clone()).unwrap_or_else(|_| ElicitResult::new(ElicitationAction::Cancel));
        Some((question.id.clone(), decision(question, &answer)))
    };
    questions.iter().filter_map(one).collect()
}

/// What is decided where nobody can be asked.
pub(super) fn nobody(questions: &[ActionRequest]) -> Vec<(String, Decision)> {
    let message = || Some("nobody could be asked: the client has no elicitation".to_owned());
    questions.iter().map(|question| (question.id.clone(), Decision::Reject { message: message() })).collect()
}
