//! Names of tools and arguments as hooks of other programs know them.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::permission_interrupts::path_argument;

/// Tools with a different name there.
const NAMES: [(&str, &str); 8] = [
    ("execute", "Bash"),
    ("write_file", "Write"),
    ("edit_file", "Edit"),
    ("read_file", "Read"),
    ("glob", "Glob"),
    ("grep", "Grep"),
    ("ls", "LS"),
    ("task", "Task"),
];

/// Returns the protocol name of a tool.
pub(super) fn on_wire(tool: &str) -> &str {
    NAMES.iter().find(|(ours, _)| *ours == tool).map_or(tool, |(_, theirs)| theirs)
}

/// Converts the arguments of a call to the protocol: real paths on disk, line numbers from 1, milliseconds.
pub(super) fn args_on_wire(tool: &str, args: &Value, root: Option<&Path>) -> Value {
    let mut args = args.clone();
    let Some(fields) = args.as_object_mut() else { return args };
    if let (Some(root), Some(path)) = (root, path_in(tool, fields)) {
        *path = root.join(path.trim_start_matches('/')).display().to_string();
    }
    match tool {
        "execute" => scale(fields, "timeout", |seconds| seconds.saturating_mul(1_000)),
        "read_file" => scale(fields, "offset", |offset| offset.saturating_add(1)),
        "task" => {
            if let Some(description) = fields.get("description").cloned() {
                fields.insert("prompt".to_owned(), description);
            }
        }
        _ => {}
    }
    args
}

/// Converts arguments from a hook to those of our tool.
pub(super) fn args_from_wire(tool: &str, args: Value, root: Option<&Path>) -> Value {
    let Value::Object(mut fields) = args else { return args };
    if let (Some(root), Some(path)) = (root, path_in(tool, &mut fields))
        && let Ok(inside) = Path::new(path.as_str()).strip_prefix(root)
    {
        *path = format!("/{}", inside.display());
    }
    match tool {
        "execute" => {
            scale(&mut fields, "timeout", |millis| millis.div_euclid(1_000).max(1));
            // Our tool would reject unknown arguments.
            fields.retain(|name, _| matches!(name.as_str(), "command" | "timeout"));
        }
        "read_file" => scale(&mut fields, "offset", |line| line.saturating_sub(1)),
        "task" => {
            if let Some(prompt) = fields.remove("prompt") {
                fields.insert("description".to_owned(), prompt);
            }
        }
        _ => {}
    }
    Value::Object(fields)
}

/// Returns the path in the arguments of a file tool.
fn path_in<'a>(tool: &str, fields: &'a mut Map<String, Value>) -> Option<&'a mut String> {
    match fields.get_mut(path_argument(tool)?)? {
        Value::String(path) => Some(path),
        _ => None,
    }
}

fn scale(fields: &mut Map<String, Value>, name: &str, change: impl FnOnce(i64) -> i64) {
    if let Some(number) = fields.get(name).and_then(Value::as_i64) {
        fields.insert(name.to_owned(), json!(change(number)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_survive_conversion_to_the_wire_and_back() {
        let root = Some(Path::new("/srv"));
        for (tool, args, wire) in [
            ("execute", json!({"command": "ls", "timeout": 5}), json!({"command": "ls", "timeout": 5_000})),
            ("read_file", json!({"file_path": "/a", "offset": 0}), json!({"file_path": "/srv/a", "offset": 1})),
            (
                "edit_file",
                json!({"file_path": "/a/b", "old_string": "x"}),
                json!({"file_path": "/srv/a/b", "old_string": "x"}),
            ),
            ("task", json!({"description": "do"}), json!({"description": "do", "prompt": "do"})),
            ("other", json!({"x": 1}), json!({"x": 1})),
        ] {
            let there = args_on_wire(tool, &args, root);
            assert_eq!(there, wire, "{tool}");
            assert_eq!(args_from_wire(tool, there, root), args, "{tool}");
        }
    }
}
