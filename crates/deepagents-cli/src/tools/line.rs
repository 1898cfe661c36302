//! The line protocol: one call in, one answer out.

use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use serde_json::{Map, Value};

/// A call on an input line.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) name: String,
    #[serde(default)]
    pub(super) args: Map<String, Value>,
}

/// The result of a call.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) error: bool,
}

impl Answer {
    /// Returns the answer to a line that is not a call, or to a call that could not be made.
    pub(super) fn error(problem: impl Into<String>) -> Self {
        Self { text: problem.into(), error: true }
    }
}

/// Parses a line.
pub(super) fn call(line: &[u8]) -> Result<Call, String> {
    let wrong = |why: &str| format!("Error: the line is not a call {{\"name\": TOOL, \"args\": {{...}}}}: {why}");
    let line = line.trim_ascii();
    match line.first() {
        None => return Err(wrong("it is empty")),
        // Serde would accept a list as the fields in order.
        Some(b'[') => return Err(wrong("it is a list")),
        Some(_) => {}
    }
    let call: Call = serde_json::from_slice(line).map_err(|error| match error.classify() {
        Category::Syntax | Category::Eof | Category::Io => wrong("it is not valid JSON"),
        Category::Data => wrong(&error.to_string()),
    })?;
    if call.name.is_empty() {
        return Err("Error: the name of the tool is empty".to_owned());
    }
    Ok(call)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_call_requires_a_name_and_object_arguments() {
        assert_eq!(call(br#"{"name":"ls","args":{"path":"/"}}"#).unwrap().args["path"], "/");
        assert!(call(br#"{"name":"ls"}"#).unwrap().args.is_empty());
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"name":""}"#,
            r#"{"name":"ls","args":[]}"#,
            r#"{"name":"ls","arg":{}}"#,
            r#"["ls",{}]"#,
            "\n",
        ] {
            assert!(call(wrong.as_bytes()).unwrap_err().starts_with("Error: "), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_tool_line_is_parsed_or_rejected(line in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = call(&line);
        }
    }
}
