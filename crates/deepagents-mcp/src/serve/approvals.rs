//! Converts action requests to elicitation requests, and the responses to decisions.

use deepagents_core::interrupt::{ActionRequest, Decision, DecisionKind};
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, InputRequest,
    InputRequests, InputResponses,
};
use serde_json::{Value, json};

use crate::text;

/// Maximum length of a question, in characters. A longer one is rejected without asking: nobody would review it, and a
/// client might show only a part of it.
const MAX_QUESTION_CHARS: usize = 20_000;
/// Form field of the decision.
const FIELD: &str = "decision";
/// Form field of the reason.
const REASON: &str = "reason";

/// Converts an action request to a form with the decision and its reason.
pub(super) fn form(question: &ActionRequest) -> ElicitRequestParams {
    let word = |kind: &DecisionKind| kind.as_str();
    // Edited arguments do not fit into a flat form.
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
        message: question_text(question),
        // Cannot fail: the schema is constant.
        requested_schema: serde_json::from_value::<ElicitationSchema>(schema)
            .unwrap_or_else(|_| ElicitationSchema::new(Default::default())),
    }
}

/// Returns the text of a question, with the tool and its arguments unless the text has them.
fn question_text(question: &ActionRequest) -> String {
    let args = question.args.to_string();
    let mut words = question.text.clone();
    if !(words.contains(&question.tool) && words.contains(&args)) {
        words = format!("{words}\n\n{} {args}", question.tool);
    }
    if let Some(place) = &question.leads_to {
        words = format!("{words}\n\nThe path leads to {place}");
    }
    text::exact(&words)
}

/// Rejects a question that is too long to review.
pub(super) fn too_long(question: &ActionRequest) -> Option<Decision> {
    let length = question_text(question).chars().count();
    let why = || {
        format!(
            "nobody could be asked: the question would be {length} characters long, and a person is shown no more than \
             {MAX_QUESTION_CHARS}; do it in several smaller calls"
        )
    };
    (length > MAX_QUESTION_CHARS).then(|| Decision::Reject { message: Some(why()) })
}

/// Converts action requests to the input requests of an `input_required` result, by ID.
pub(super) fn requests(questions: &[ActionRequest]) -> InputRequests {
    let one =
        |question: &ActionRequest| (question.id.clone(), InputRequest::Elicitation(ElicitRequest::new(form(question))));
    questions.iter().filter(|question| too_long(question).is_none()).map(one).collect()
}

/// Converts a response to a decision. Anything but an allowed decision is a rejection.
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

/// Converts the input responses of a repeated call to decisions.
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

/// Rejects all requests because nobody can be asked.
pub(super) fn reject_all(questions: &[ActionRequest], asks: bool) -> Vec<(String, Decision)> {
    let why = if asks { "the client has no elicitation" } else { "this server does not ask" };
    let message = || Some(format!("nobody could be asked: {why}"));
    questions.iter().map(|question| (question.id.clone(), Decision::Reject { message: message() })).collect()
}
