//! The text of a sub-agent's result.

use deepagents_core::run::{FinishReason, Outcome};
use deepagents_core::state::StructuredResponse;
use serde_json::Value;

/// Returns the text of a run's result: its structured response, or else the last text of the model.
pub(crate) fn result_text(outcome: &Outcome) -> String {
    if let Some(shaped) = outcome.state.get::<StructuredResponse>().and_then(Option::as_ref) {
        return spaced(shaped);
    }
    if outcome.stop == FinishReason::ReturnDirect {
        return outcome.text();
    }
    let answers = outcome.messages().iter().rev().filter_map(|m| m.as_assistant());
    answers.map(|a| a.text().trim_end().to_owned()).find(|text| !text.is_empty()).unwrap_or_default()
}

/// Formats JSON on one line as models write it, with a space after each comma and colon.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{}: {}", Value::from(name.as_str()), spaced(value));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}
