//! JSON with parts from elsewhere, printed so that every character is visible.

use std::borrow::Cow;

use deepagents::escape::is_hidden;
use serde::Serialize;

pub(crate) use deepagents::escape::{escaped, escaped_lines};

/// Serialises a value as JSON for people and programs, see [`escaped_json`].
pub(crate) fn json_text(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(escaped_json(&serde_json::to_string_pretty(value)?).into_owned())
}

/// Escapes control characters and hidden characters in JSON. They occur only inside strings.
pub(crate) fn escaped_json(json: &str) -> Cow<'_, str> {
    let bad = |c: char| c != '\n' && (c.is_control() || !c.is_ascii() && is_hidden(c));
    if !json.contains(bad) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if bad(c) {
            out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_json_keeps_its_meaning() {
        let value = serde_json::json!({"text": "a\u{9b}1m\u{202e}\u{e0041}é\x1b"});
        let text = value.to_string();
        let shown = escaped_json(&text);
        assert!(shown.is_ascii() || shown.contains('é'), "{shown}");
        assert!(!shown.contains(['\u{9b}', '\u{202e}', '\u{e0041}']), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
