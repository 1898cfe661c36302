//! Hooks and MCP servers from the settings of Claude Code.

use std::path::Path;

use serde_json::{Value, json};

use super::report::Report;

/// Imports hooks, and reports the other settings.
pub(super) fn import(from: &Path, to: &Path, report: &mut Report) {
    let Some(settings) = read(from, report) else { return };
    for (key, value) in settings.as_object().into_iter().flatten() {
        match key.as_str() {
            "hooks" if !value.is_object() => report.note_skipped(from, "its hooks, which are not an object of events"),
            "hooks" => {
                let text = format!("{:#}\n", json!({"hooks": value}));
                report.write(from, to, text.as_bytes());
            }
            "permissions" => report.note_skipped(
                from,
                "its permissions: here you make rules when you are asked (`a`), for the session or for the project",
            ),
            "$schema" => {}
            other => report.note_skipped(from, format!("its setting {other}")),
        }
    }
}

/// Imports the user's MCP servers.
pub(super) fn servers(from: &Path, to: &Path, report: &mut Report) {
    let Some(settings) = read(from, report) else { return };
    if let Some(servers) =
        settings.get("mcpServers").filter(|servers| servers.as_object().is_some_and(|all| !all.is_empty()))
    {
        let text = format!("{:#}\n", json!({"mcpServers": servers}));
        report.write(from, to, text.as_bytes());
    }
    for (project, about) in settings.get("projects").and_then(Value::as_object).into_iter().flatten() {
        let servers = about.get("mcpServers").and_then(Value::as_object);
        if servers.is_some_and(|servers| !servers.is_empty()) {
            report.note_skipped(from, format!("its servers for {project}; put them into {project}/.mcp.json"));
        }
    }
}

/// Reads a JSON file; `None` if it does not exist or cannot be imported.
pub(super) fn read(from: &Path, report: &mut Report) -> Option<Value> {
    match serde_json::from_slice(&report.read(from)?) {
        Ok(value) => Some(value),
        Err(error) => {
            report.note_skipped(from, format!("it is not valid JSON: {error}"));
            None
        }
    }
}
