//! A tool call on one line.

use deepagents::middleware::filesystem::exit_failure;
use serde_json::Value;

use super::escaped;
use super::style::first_line;

/// Maximum number of characters shown of an argument.
const MAX_ARGUMENT_CHARS: usize = 80;

/// The most telling arguments; the first one present is shown.
const MAIN_ARGUMENTS: [&str; 9] =
    ["file_path", "path", "command", "pattern", "query", "url", "description", "name", "content"];

/// Formats a tool and its main argument: `read_file /notes.md`.
pub(crate) fn call(name: &str, args: &Value) -> String {
    let name = shortened(name);
    let arg = MAIN_ARGUMENTS
        .iter()
        .find_map(|key| args.get(key)?.as_str())
        .or_else(|| args.as_object()?.values().find_map(Value::as_str))
        .map(shortened)
        .filter(|text| !text.is_empty());
    match arg {
        Some(arg) => format!("{name} {arg}"),
        None => name,
    }
}

/// Returns the first non-blank line with hidden characters escaped; `…` marks what is left out.
fn shortened(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = escaped(lines.next().unwrap_or_default());
    match (line.char_indices().nth(MAX_ARGUMENT_CHARS), lines.next()) {
        (Some((at, _)), _) => format!("{}…", line.get(..at).unwrap_or_default()),
        (None, Some(_)) => format!("{line} …"),
        (None, None) => line,
    }
}

/// Returns the failure in a result: an error, or a command's non-zero exit, which is not an error for the model.
pub(crate) fn failure(tool: &str, is_error: bool, text: &str) -> Option<String> {
    if is_error { Some(error(text)) } else { exit_failure(tool, text).map(error) }
}

/// Returns an error's first line without the word that the symbol already stands for.
fn error(text: &str) -> String {
    let line = first_line(text, 2 * MAX_ARGUMENT_CHARS);
    line.strip_prefix("Error: ").map_or_else(|| line.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_most_telling_argument_is_shown_truncated() {
        assert_eq!(call("grep", &json!({"glob": "*.rs", "pattern": "fn\nmain"})), "grep fn …");
        assert_eq!(call("x\n? y", &json!({"path": "a\u{202e}b"})), "x … a\\u{202e}b");
        assert_eq!(call("odd", &json!({"n": 3, "word": "yes"})), "odd yes");
        assert_eq!(call("read_todos", &json!({})), "read_todos");
        assert_eq!(call("run", &json!({"command": "x".repeat(200)})).chars().count(), 85);
        assert_eq!(error("Error: no such file\nmore"), "no such file");
    }
}
