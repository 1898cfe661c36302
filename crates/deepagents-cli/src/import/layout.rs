//! The layout of agents that are deployed: `agent.json`, `skills`, `subagents`, `tools.json`.

use std::path::Path;

use deepagents::subagents::SubAgentSpec;
use serde_json::Value;

use super::hooks::read;
use super::report::Report;
use crate::config::FILE;
use crate::sources::{AGENTS, SKILLS};

/// Takes over what `agent.json` describes; without it the directory is another one.
pub(super) fn import(from: &Path, to: &Path, report: &mut Report) {
    let file = from.join("agent.json");
    let Some(agent) = read(&file, report) else { return };
    for (key, value) in agent.as_object().into_iter().flatten() {
        match key.as_str() {
            "runtime" => runtime(&file, value, to, report),
            "model" => model(&file, value, to, report),
            // They name it, and are shown by whoever deploys it.
            "name" | "description" | "$schema" => {}
            "backend" if value.get("type").and_then(Value::as_str) == Some("state") => {
                report.left(&file, "its backend: here the agent works on the files of the directory");
            }
            other => report.left(&file, format!("its {other}")),
        }
    }
    report.copy_tree(&from.join("skills"), &to.join(SKILLS));
    for (name, path) in report.entries(&from.join("subagents")) {
        let main = path.join("AGENTS.md");
        if let Some(bytes) = report.read(&main) {
            match SubAgentSpec::from_markdown(&String::from_utf8_lossy(&bytes), &name) {
                Ok(_) => drop(report.write(&main, &to.join(AGENTS).join(&name).join("AGENTS.md"), &bytes)),
                Err(error) => report.left(&main, error.to_string()),
            }
        }
        for (inner, path) in report.entries(&path).into_iter().filter(|(inner, _)| inner != "AGENTS.md") {
            report.left(&path, format!("{inner} of a sub-agent has no place here"));
        }
    }
    let tools = from.join("tools.json");
    if tools.exists() {
        report.left(&tools, "its tools are those of a hosted service; servers of tools are in .mcp.json");
    }
}

fn runtime(file: &Path, value: &Value, to: &Path, report: &mut Report) {
    for (key, value) in value.as_object().into_iter().flatten() {
        match key.as_str() {
            "model" => model(file, value, to, report),
            other => report.left(file, format!("its runtime.{other}")),
        }
    }
}

/// The model, as a setting of the directory.
fn model(file: &Path, value: &Value, to: &Path, report: &mut Report) {
    let name = value.as_str().or_else(|| value.get("model").and_then(Value::as_str));
    match name {
        Some(name) => {
            let text = format!("model = {}\n", toml_edit::Value::from(name));
            report.write(file, &to.join(FILE), text.as_bytes());
        }
        None => report.left(file, "its model, which has no name"),
    }
}
