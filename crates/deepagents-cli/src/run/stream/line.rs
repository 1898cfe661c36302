//! A line of JSON in the input stream.

use deepagents::core::json::mend_escapes;
use serde_json::Value;

use crate::small_file::without_mark;

/// The meaning of a line.
#[derive(Debug, PartialEq)]
pub(super) enum InputLine {
    /// Starts a turn, or steers the current one.
    User(String),
    /// Decides on a call.
    Answer(String, Value),
    /// Ends the turn.
    Interrupt,
}

/// Parses a line.
pub(super) fn parse_line(line: &str) -> Result<InputLine, String> {
    let wrong = |why: &str| {
        format!(
            "a line on stdin is not one of {{\"type\":\"user\",\"text\":…}}, {{\"answer\":ID,\"decision\":{{…}}}} and \
             {{\"type\":\"interrupt\"}}: {why}"
        )
    };
    let line = mend_escapes(without_mark(line));
    let value: Value = serde_json::from_str(&line).map_err(|error| wrong(&error.to_string()))?;
    if let Some(id) = value.get("answer") {
        let id = id.as_str().ok_or_else(|| wrong("`answer` is not a string"))?;
        let decision = value.get("decision").ok_or_else(|| wrong("`decision` is missing"))?;
        return Ok(InputLine::Answer(id.to_owned(), decision.clone()));
    }
    match value.get("type").and_then(Value::as_str) {
        Some("user") => match said(&value).map_err(|why| wrong(&why))? {
            text if text.trim().is_empty() => Err(wrong("`text` is empty")),
            text => Ok(InputLine::User(text)),
        },
        Some("interrupt") => Ok(InputLine::Interrupt),
        Some(other) => Err(wrong(&format!("there is no type `{other}`"))),
        None => Err(wrong("`type` is missing")),
    }
}

/// Returns the text of a message: `text`, or as other programs send it, the `content` of a `message`, which may consist
/// of blocks.
fn said(line: &Value) -> Result<String, String> {
    if let Some(text) = line.get("text").and_then(Value::as_str) {
        return Ok(text.to_owned());
    }
    match line.get("message").and_then(|message| message.get("content")) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(blocks)) => {
            let text = |block: &Value| block.get("text").and_then(Value::as_str).map(str::to_owned);
            let texts: Option<Vec<String>> = blocks.iter().map(text).collect();
            texts.map(|texts| texts.join("\n")).ok_or_else(|| "`content` has a block that is not text".to_owned())
        }
        _ => Err("`text` is missing".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_parsed_as_a_message_an_answer_an_interrupt_or_an_error() {
        assert_eq!(parse_line(r#"{"type":"user","text":"Hi"}"#), Ok(InputLine::User("Hi".to_owned())));
        let cut = parse_line(r#"{"type":"user","text":"Hi \ud83d"}"#);
        assert_eq!(cut, Ok(InputLine::User("Hi \u{fffd}".to_owned())));
        assert_eq!(parse_line("\u{feff}{\"type\":\"interrupt\"}"), Ok(InputLine::Interrupt));
        let answer = parse_line(r#"{"answer":"0.0","decision":{"type":"approve"}}"#);
        assert_eq!(answer, Ok(InputLine::Answer("0.0".to_owned(), json!({"type": "approve"}))));
        let other =
            |content| parse_line(&json!({"type": "user", "message": {"role": "user", "content": content}}).to_string());
        assert_eq!(other(json!("Hi")), Ok(InputLine::User("Hi".to_owned())));
        let blocks = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        assert_eq!(other(blocks), Ok(InputLine::User("a\nb".to_owned())));
        for wrong in [json!([{"type": "image"}]), json!(""), json!([]), json!(1)] {
            assert!(other(wrong.clone()).is_err(), "{wrong}");
        }
        for wrong in ["no JSON", "{}", r#"{"type":"user"}"#, r#"{"type":"user","text":" "}"#, r#"{"answer":1}"#, "[]"] {
            assert!(parse_line(wrong).is_err(), "{wrong}");
        }
    }
}
