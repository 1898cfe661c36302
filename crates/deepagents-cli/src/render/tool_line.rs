//! A tool call in a line.

use serde_json::Value;

use super::style::first_line;

/// Characters of an argument that are shown.
const SHOWN: usize = 80;

/// Arguments that say best what a call is about, the first one found is shown.
const TELLING: [&str; 9] =
    ["file_path", "path", "command", "pattern", "query", "url", "description", "name", "content"];

/// The tool and what it is called with: `read_file /notes.md`.
pub(crate) fn call(name: &str, args: &Value) -> String {
    let name = first_line(name, SHOWN);
    let arg = TELLING
        .iter()
        .find_map(|key| args.get(key)?.as_str())
        .or_else(|| args.as_object()?.values().find_map(Value::as_str))
        .map(|text| first_line(text, SHOWN))
        .filter(|text| !text.is_empty());
    match arg {
        Some(arg) => format!("{name} {arg}"),
        None => name,
    }
}

/// What an error says, without the word that the symbol already stands for.
pub(crate) fn error(text: &str) -> String {
    let line = first_line(text, 2 * SHOWN);
    line.strip_prefix("Error: ").map_or_else(|| line.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_telling_argument_is_shown_and_cut() {
        assert_eq!(call("grep", &json!({"glob": "*.rs", "pattern": "fn\nmain"})), "grep fn");
        assert_eq!(call("odd", &json!({"n": 3, "word": "yes"})), "odd yes");
        assert_eq!(call("read_todos", &json!({})), "read_todos");
        assert_eq!(call("run", &json!({"command": "x".repeat(200)})).chars().count(), 85);
        assert_eq!(error("Error: no such file\nmore"), "no such file");
    }
}
