//! The sub-agents defined by a skill.

use deepagents_fs::VPath;
use serde_json::Value;

use crate::subagents::{self, SubAgentSpec};

/// Parses sub-agents from a list of records or a mapping from name to record. Also returns the problems with invalid
/// ones.
pub(crate) fn read(given: Value, path: &VPath) -> (Vec<SubAgentSpec>, Vec<String>) {
    let records: Vec<(Option<String>, Value)> = match given {
        Value::Null => Vec::new(),
        Value::Array(items) => items.into_iter().map(|item| (None, item)).collect(),
        Value::Object(entries) => entries.into_iter().map(|(name, record)| (Some(name), record)).collect(),
        _ => return (Vec::new(), vec![format!("{path}: sub-agents are given as a list or as a mapping by name")]),
    };
    let mut agents: Vec<SubAgentSpec> = Vec::new();
    let mut warnings = Vec::new();
    for (at, (name, record)) in records.into_iter().enumerate() {
        match subagents::read(record, name.as_deref()) {
            Ok((agent, _)) if agents.iter().any(|known| known.name == agent.name) => {
                warnings.push(format!("{path}: the sub-agent `{}` is defined twice; the first is used", agent.name));
            }
            Ok((agent, odd)) => {
                warnings.extend(odd.map(|odd| format!("{path}: the sub-agent `{}`: {odd}", agent.name)));
                agents.push(agent);
            }
            Err(why) => {
                let which = name.map_or_else(|| format!("number {}", at + 1), |name| format!("`{name}`"));
                warnings.push(format!("{path}: the sub-agent {which} was left out: {why}"));
            }
        }
    }
    (agents, warnings)
}
