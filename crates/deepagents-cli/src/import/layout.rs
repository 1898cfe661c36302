//! The layout of deployable agents: `agent.json`, `skills`, `subagents`, `tools.json`.

use std::path::Path;

use deepagents::subagents::SubAgentSpec;
use serde_json::Value;

use super::definition::plain;
use super::hooks::read;
use super::report::Report;
use crate::config::FILE;
use crate::context_files::{AGENTS, SKILLS};

/// Imports what `agent.json` describes; a directory without one does not have this layout.
pub(super) fn import(from: &Path, to: &Path, report: &mut Report) {
    let file = from.join("agent.json");
    let Some(agent) = read(&file, report) else { return };
    for (key, value) in agent.as_object().into_iter().flatten() {
        match key.as_str() {
            "runtime" => runtime(&file, value, to, report),
            "model" => model(&file, value, to, report),
            // They identify the agent to those who deploy it.
            "name" | "description" | "$schema" => {}
            "backend" if value.get("type").and_then(Value::as_str) == Some("state") => {
                report.note_skipped(&file, "its backend: here the agent works on the files of the directory");
            }
            other => report.note_skipped(&file, format!("its {other}")),
        }
    }
    report.copy_tree(&from.join("skills"), &to.join(SKILLS));
    for (name, path) in report.entries(&from.join("subagents")) {
        sub_agent(&name, &path, &to.join(AGENTS), report);
    }
    let tools = from.join("tools.json");
    if tools.exists() {
        report.note_skipped(&tools, "its tools belong to a hosted service; MCP servers are configured in .mcp.json");
    }
}

/// Imports a sub-agent: `agent.json` with the prompt in a second file, or both in one file.
fn sub_agent(name: &str, from: &Path, to: &Path, report: &mut Report) {
    let (file, main) = (from.join("agent.json"), from.join("AGENTS.md"));
    let described = read(&file, report);
    if let Some(prompt) = report.read(&main) {
        let prompt = String::from_utf8_lossy(&prompt);
        let made = match &described {
            Some(described) => defined(name, described, &prompt),
            None => Ok((prompt.into_owned(), Vec::new())),
        };
        let made = made.and_then(|(text, lost)| match SubAgentSpec::from_markdown(&text, name) {
            Ok(_) => Ok((text, lost)),
            Err(error) => Err(error.to_string()),
        });
        match made {
            Ok((text, lost)) => {
                let is_there = report.write(&main, &to.join(name).join("AGENTS.md"), text.as_bytes());
                if is_there && !lost.is_empty() {
                    report.note_skipped(&file, lost.join(", "));
                }
            }
            Err(why) => report.note_skipped(&main, why),
        }
    } else if described.is_some() && main.symlink_metadata().is_err() {
        // If AGENTS.md exists but could not be imported, the reason was already reported.
        report.note_skipped(&file, "there is no AGENTS.md beside it, which holds the instructions of the sub-agent");
    }
    for (inner, path) in report.entries(from) {
        if inner != "AGENTS.md" && inner != "agent.json" {
            report.note_skipped(&path, format!("{inner} of a sub-agent is not supported here"));
        }
    }
}

/// Returns the text of a sub-agent's file, and what could not be imported.
fn defined(name: &str, described: &Value, prompt: &str) -> Result<(String, Vec<String>), String> {
    let description = described.get("description").and_then(Value::as_str);
    let description = description.ok_or("its agent.json has no `description`, which says what it is for")?;
    let mut lines = vec![format!("name: {}", plain(name)), format!("description: {}", Value::from(description))];
    let mut model: Option<&str> = None;
    let mut lost = Vec::new();
    for (key, value) in described.as_object().into_iter().flatten() {
        match (key.as_str(), model_name(value)) {
            ("name" | "description" | "$schema", _) => {}
            // A sub-agent has one model: the first with a usable name.
            ("model" | "model_id", Some(given)) if given.contains(':') && model.is_none_or(|first| first == given) => {
                model = Some(given);
            }
            ("model" | "model_id", Some(given)) => lost.push(format!("without model {given}")),
            (other, _) => lost.push(format!("without {other}")),
        }
    }
    lines.extend(model.map(|model| format!("model: {}", plain(model))));
    Ok((format!("---\n{}\n---\n{prompt}", lines.join("\n")), lost))
}

fn runtime(file: &Path, value: &Value, to: &Path, report: &mut Report) {
    for (key, value) in value.as_object().into_iter().flatten() {
        match key.as_str() {
            "model" => model(file, value, to, report),
            other => report.note_skipped(file, format!("its runtime.{other}")),
        }
    }
}

/// Imports the model as a setting of the directory.
fn model(file: &Path, value: &Value, to: &Path, report: &mut Report) {
    match model_name(value) {
        Some(name) => {
            let text = format!("model = {}\n", toml_edit::Value::from(name));
            report.write(file, &to.join(FILE), text.as_bytes());
        }
        None => report.note_skipped(file, "its model, which has no name"),
    }
}

/// Returns a model name, given alone or in an object.
fn model_name(value: &Value) -> Option<&str> {
    let within = || value.get("model_id").or_else(|| value.get("model")).and_then(Value::as_str);
    value.as_str().or_else(within)
}
