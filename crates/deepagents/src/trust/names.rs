//! Describes, for a person, what an item requests in addition to its text.

use std::collections::BTreeMap;

use bytes::Bytes;
use deepagents_fs::VPath;

use crate::front_matter::{self, Texts};
use crate::middleware::skills::{read_agents, read_skill};
use crate::middleware::subagents::{GENERAL_PURPOSE, define};
use crate::subagents::{SubAgentSpec, variables};

/// Returns the name of the sub-agent that a file defines, and its requests. An invalid file defines nothing and has no
/// requests.
pub(super) fn agent_file(bytes: &[u8], name: &str) -> (String, Vec<String>) {
    let text = String::from_utf8_lossy(bytes);
    match define(&text, name) {
        Ok((spec, _)) => {
            let asks_for = sub_agent(&spec);
            (spec.name, asks_for)
        }
        Err(_) => (name.to_owned(), Vec::new()),
    }
}

/// Returns the requests of a skill.
pub(super) fn skill(files: &BTreeMap<VPath, Bytes>, name: &str, [main, agents]: &[VPath; 2]) -> Vec<String> {
    let text = |path| files.get(path).map(|bytes| String::from_utf8_lossy(bytes));
    let Some(Ok((skill, _))) = text(main).map(|text| read_skill(&text, main, name)) else { return Vec::new() };
    let mut specs = skill.agents;
    if let Some(Ok(given)) = text(agents).map(|text| front_matter::yaml(&text, Texts::ByKey)) {
        specs.extend(read_agents(given, agents).0);
    }
    let tools = (!skill.tools.is_empty()).then(|| format!("the tools {}", skill.tools.join(", ")));
    let of_agents = specs.iter().flat_map(|spec| {
        let own = [format!("the sub-agent {}", spec.name)];
        own.into_iter().chain(sub_agent(spec).into_iter().map(|what| format!("{what} for {}", spec.name)))
    });
    tools.into_iter().chain(of_agents).collect()
}

/// Returns the requests of a sub-agent.
fn sub_agent(spec: &SubAgentSpec) -> Vec<String> {
    let model = spec.model.as_ref().and_then(|model| model.full_name()).map(|name| format!("the model {name}"));
    let tools = spec
        .tool_names
        .as_ref()
        .filter(|names| !names.is_empty())
        .map(|names| format!("the tools {}", names.join(", ")));
    let replaces = (spec.name == GENERAL_PURPOSE).then(|| format!("the role of the standard {GENERAL_PURPOSE}"));
    let runnable = spec.runnable.as_ref().map(|name| format!("the agent {name}"));
    let server = spec.url.as_ref().map(|url| format!("the server {url}, which gets the tasks it is given"));
    let mut names: Vec<&str> = spec.headers.0.values().flat_map(|value| variables(value)).collect();
    names.dedup();
    let variables = (!names.is_empty()).then(|| format!("the variables {}, which that server gets", names.join(", ")));
    [replaces, model, tools, runnable, server, variables].into_iter().flatten().collect()
}
