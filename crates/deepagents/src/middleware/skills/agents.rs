//! The sub-agents that a skill defines.

use deepagents_fs::VPath;

use super::parse::one_line;
use crate::channels::SkillAgent;
use crate::front_matter::Node;

/// Sub-agents as a list of records, or as a mapping from name to record; and what is wrong with the others.
pub(super) fn read(node: &Node, path: &VPath) -> (Vec<SkillAgent>, Vec<String>) {
    let records: Vec<(Option<&str>, &Node)> = match node {
        Node::Null => Vec::new(),
        Node::List(items) => items.iter().map(|item| (None, item)).collect(),
        Node::Map(entries) => entries.iter().map(|(name, record)| (Some(name.as_str()), record)).collect(),
        Node::Text(_) => {
            return (Vec::new(), vec![format!("{path}: sub-agents are given as a list or as a mapping by name")]);
        }
    };
    let mut agents: Vec<SkillAgent> = Vec::new();
    let mut warnings = Vec::new();
    for (at, (name, record)) in records.into_iter().enumerate() {
        match agent(name, record) {
            Ok(agent) if agents.iter().any(|known| known.name == agent.name) => {
                warnings.push(format!("{path}: the sub-agent `{}` is defined twice; the first is used", agent.name));
            }
            Ok(agent) => agents.push(agent),
            Err(why) => {
                let which = name.map_or_else(|| format!("number {}", at + 1), |name| format!("`{name}`"));
                warnings.push(format!("{path}: the sub-agent {which} was left out: {why}"));
            }
        }
    }
    (agents, warnings)
}

fn agent(name: Option<&str>, record: &Node) -> Result<SkillAgent, String> {
    if !matches!(record, Node::Map(_)) {
        return Err("it is not a mapping".to_owned());
    }
    let text = |key: &str| match record.get(key) {
        None | Some(Node::Null) => Ok(None),
        Some(node @ Node::Text(_)) => Ok(node.text()),
        Some(_) => Err(format!("`{key}` is not a text")),
    };
    let words = |key: &str| match record.get(key) {
        None | Some(Node::Null) => Ok(None),
        Some(node) => node.words().map(Some).ok_or_else(|| format!("`{key}` is not a list of names")),
    };
    let missing = |key: &str| format!("it has no `{key}`");
    Ok(SkillAgent {
        name: text("name")?.or(name).map(one_line).filter(|n| !n.is_empty()).ok_or_else(|| missing("name"))?,
        description: text("description")?.map(one_line).ok_or_else(|| missing("description"))?,
        system_prompt: text("system_prompt")?.or(text("prompt")?).map(str::to_owned),
        tools: words("tools")?,
        model: text("model")?.map(str::to_owned),
        skills: words("skills")?.unwrap_or_default(),
    })
}
