//! Elicitation: questions of a server to a person.

use std::sync::Arc;

use deepagents_core::interrupt::{Decision, DecisionKind};
use deepagents_core::tool::{SchemaCheck, ToolContext, ToolError};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value};

use super::fields;
use crate::text;

/// How often to ask for an answer that fits the schema.
const MAX_ATTEMPTS: usize = 3;
/// Maximum length of a question, in characters.
const MAX_QUESTION_CHARS: usize = 2_000;

/// Puts an elicitation request to a person, as an interrupt of the call that it belongs to. Returns the answer once the
/// call is made again with it.
///
/// # Errors
/// Returns [`ToolError::Interrupted`] until there is an answer.
pub(crate) fn ask(server: &str, params: &ElicitRequestParams, cx: &ToolContext) -> Result<ElicitResult, ToolError> {
    match params {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let schema = serde_json::to_value(requested_schema).unwrap_or_default();
            fill_in(server, message, schema, cx)
        }
        // Other URL schemes can open files and programs on a desktop.
        ElicitRequestParams::UrlElicitationParams { url, .. } if !crate::http::is_page(url) => {
            Ok(ElicitResult::new(ElicitationAction::Decline))
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            let words = text::cut(&text::visible(message), MAX_QUESTION_CHARS);
            let url = text::line(url, MAX_QUESTION_CHARS);
            let question =
                format!("MCP server {server} asks you to open {url} in a browser: {words}\nApprove once that is done.");
            let decision = cx.interrupt(question, [DecisionKind::Approve, DecisionKind::Reject])?;
            let accepted = matches!(decision, Decision::Approve);
            Ok(ElicitResult::new(if accepted { ElicitationAction::Accept } else { ElicitationAction::Decline }))
        }
        // An unknown kind of request.
        _ => Ok(ElicitResult::new(ElicitationAction::Decline)),
    }
}

fn fill_in(server: &str, message: &str, schema: Value, cx: &ToolContext) -> Result<ElicitResult, ToolError> {
    let words = text::cut(&text::visible(message), MAX_QUESTION_CHARS);
    let properties =
        schema.get("properties").filter(|fields| fields.as_object().is_some_and(|fields| !fields.is_empty()));
    let wanted = match properties {
        Some(fields) => {
            let listed = text::cut(&fields.to_string(), MAX_QUESTION_CHARS);
            format!("Respond with a JSON object of these fields, or reject: {listed}")
        }
        None => "Respond with {} to agree, or reject.".to_owned(),
    };
    let form = fields::form(&schema);
    let check = SchemaCheck::new(Arc::new(schema));
    let mut problem = String::new();
    for _ in 0..MAX_ATTEMPTS {
        let question = format!("{problem}MCP server {server} asks: {words}\n{wanted}");
        let answer = match cx.interrupt_for_answer(question, form.clone())? {
            Decision::Respond { message } => message,
            _ => return Ok(ElicitResult::new(ElicitationAction::Decline)),
        };
        match read(&answer, &check) {
            Ok(content) => return Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content)),
            Err(why) => problem = format!("The answer `{}` does not fit: {why}.\n", text::line(&answer, 80)),
        }
    }
    Ok(ElicitResult::new(ElicitationAction::Cancel))
}

/// Parses a person's answer: a JSON object, or the value of the only field. Omitted fields get their defaults.
fn read(answer: &str, check: &SchemaCheck) -> Result<Value, String> {
    let none = Map::new();
    let fields = check.schema().get("properties").and_then(Value::as_object).unwrap_or(&none);
    let mut content = match serde_json::from_str(answer) {
        Ok(Value::Object(content)) => content,
        _ if fields.is_empty() && answer.trim().is_empty() => Map::new(),
        other => {
            let mut names = fields.iter();
            let (Some((name, field)), None) = (names.next(), names.next()) else {
                return Err("it is not a JSON object".to_owned());
            };
            let wants_text = field.get("type").and_then(Value::as_str) == Some("string");
            let value = other.ok().filter(|_| !wants_text).unwrap_or_else(|| answer.trim().into());
            Map::from_iter([(name.clone(), value)])
        }
    };
    for (name, field) in fields {
        if let Some(default) = field.get("default").filter(|_| !content.contains_key(name)) {
            content.insert(name.clone(), default.clone());
        }
    }
    let content = Value::Object(content);
    check.check(&content).map(|()| content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(fields: &Value) -> SchemaCheck {
        SchemaCheck::new(Arc::new(json!({"type": "object", "properties": fields, "required": ["n"]})))
    }

    #[test]
    fn an_answer_is_an_object_or_the_value_of_the_only_field() {
        let number = check(&json!({"n": {"type": "integer"}}));
        assert_eq!(read("{\"n\": 3}", &number), Ok(json!({"n": 3})));
        assert_eq!(read("3", &number), Ok(json!({"n": 3})));
        assert!(read("three", &number).is_err());
        let words = check(&json!({"n": {"type": "string"}}));
        assert_eq!(read("42", &words), Ok(json!({"n": "42"})));
    }

    #[test]
    fn a_form_without_fields_is_accepted_with_an_empty_answer() {
        let none = SchemaCheck::new(Arc::new(json!({"type": "object", "properties": {}})));
        assert_eq!((read("{}", &none), read(" ", &none)), (Ok(json!({})), Ok(json!({}))));
        assert!(read("no", &none).is_err());
    }

    #[test]
    fn omitted_fields_get_their_defaults() {
        let two = check(&json!({"n": {"type": "integer"}, "size": {"type": "string", "default": "small"}}));
        assert_eq!(read("{\"n\": 1}", &two), Ok(json!({"n": 1, "size": "small"})));
        assert!(read("1", &two).is_err());
    }
}
