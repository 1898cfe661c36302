//! JSON in a model's answer, which may contain reasoning around it.

use serde::de::DeserializeOwned;
use serde_json::{Deserializer, Value};

/// Returns the last JSON object in a text that deserializes to `T`; the text around it may be a model's reasoning.
///
/// # Errors
/// Returns why there is none, as a message for the model.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let (mut found, mut problem) = (None, "there is no JSON object in the answer".to_owned());
    // The text up to `seen` belongs to an object that was already checked as a whole.
    let (mut from, mut seen) = (0, 0);
    while let Some((at, rest)) = next_brace(text, from) {
        let mut values = Deserializer::from_str(rest).into_iter::<Value>();
        let (value, end) = (values.next(), at + values.byte_offset());
        from = at + 1;
        match value {
            Some(Ok(value)) => match serde_json::from_value(value) {
                Ok(fits) => (found, from, seen) = (Some(fits), end, end),
                // An error about the whole object is more useful than one about its parts.
                Err(error) if at >= seen => (problem, seen) = (error.to_string(), end),
                Err(_) => {}
            },
            Some(Err(error)) if seen == 0 => problem = error.to_string(),
            _ => {}
        }
    }
    found.ok_or(problem)
}

/// Returns the position of the next opening brace and the text from there on.
fn next_brace(text: &str, from: usize) -> Option<(usize, &str)> {
    let at = from + text.get(from..)?.find('{')?;
    Some((at, text.get(at..)?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Answer {
        tools: Vec<String>,
    }

    fn tools(text: &str) -> Result<Vec<String>, String> {
        read::<Answer>(text).map(|answer| answer.tools)
    }

    #[test]
    fn the_last_matching_object_is_the_answer() {
        assert_eq!(tools(r#"<think>{hm} {"tools": ["a"]}?</think> {"tools": ["{b}"]} So be it. {}"#).unwrap(), ["{b}"]);
        assert_eq!(tools("```json\n{\"answer\": {\"tools\": []}}\n```").unwrap(), [""; 0]);
        assert_eq!(read::<BTreeMap<String, u32>>(r#"{"a": {"b": 1}}"#).unwrap(), BTreeMap::from([("b".to_owned(), 1)]));
    }

    #[test]
    fn an_error_describes_the_answer_as_a_whole() {
        assert_eq!(tools("None.").unwrap_err(), "there is no JSON object in the answer");
        assert!(tools(r#"{"tool": {"name": "a"}}"#).unwrap_err().contains("missing field `tools`"));
        assert!(tools(r#"{"tools": ["a"#).unwrap_err().contains("EOF"));
    }
}
