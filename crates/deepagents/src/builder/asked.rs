//! Checks that the tools which need approval exist. A misspelt name would silently ask about nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use deepagents_core::agent::{Agent, BuildError};
use deepagents_core::middleware::DynMiddleware;
use deepagents_core::tool::DynTool;

use super::DeepAgentBuilder;
use crate::approvals::InterruptPolicy;
use crate::middleware::filesystem;
use crate::subagents::SubAgentSpec;

/// Tools of this library other than the file tools. A policy shared by many agents may name some that one of them
/// lacks.
const OTHERS: [&str; 13] = [
    "write_todos",
    "read_todos",
    "task",
    "start_async_task",
    "check_async_task",
    "update_async_task",
    "cancel_async_task",
    "list_async_tasks",
    "ask_user",
    "fetch_url",
    "web_search",
    "tool_search",
    "compact_conversation",
];

/// The tools that an agent may call.
#[derive(Default)]
struct Tools {
    names: BTreeSet<String>,
    /// Whether more tools may appear later.
    grows: bool,
}

impl Tools {
    fn of(agent: &Agent) -> Self {
        let mut tools = Self::default();
        tools.names.extend(agent.tools().iter().map(|tool| tool.name.clone()));
        tools.grows = agent.middlewares().any(|middleware| middleware.offers_tools());
        tools
    }

    fn add<'a>(
        &mut self,
        tools: impl IntoIterator<Item = &'a Arc<dyn DynTool>>,
        middlewares: impl IntoIterator<Item = &'a Arc<dyn DynMiddleware>>,
    ) {
        self.names.extend(tools.into_iter().map(|tool| tool.spec().name));
        for middleware in middlewares {
            self.names.extend(middleware.tools().iter().map(|tool| tool.spec().name));
            self.grows |= middleware.offers_tools();
        }
    }

    /// Adds the tools that a sub-agent and its descendants have in addition to inherited ones.
    fn add_below(&mut self, spec: &SubAgentSpec) {
        let code = &spec.code;
        self.add(code.tools.iter().flatten().map(|tool| &tool.0), code.middlewares.iter().map(|own| &own.0));
        spec.sub_agents.iter().for_each(|below| self.add_below(below));
    }

    fn has(&self, name: &str) -> bool {
        name.ends_with('*') || self.names.contains(name) || filesystem::TOOLS.contains(&name) || OTHERS.contains(&name)
    }

    /// Returns the names that no tool has. Returns an error if there are any and no more tools can appear.
    fn missing(&self, asked: BTreeSet<String>) -> Result<Vec<String>, String> {
        let missing: Vec<String> = asked.into_iter().filter(|name| !self.has(name)).collect();
        match missing.first() {
            Some(name) if !self.grows => {
                let known: Vec<&str> = self.names.iter().map(String::as_str).collect();
                Err(format!(
                    "calls of `{name}` are to be approved by a person, but no tool has that name; there are {}. A \
                     name that ends with `*` may match no tool yet",
                    known.join(", ")
                ))
            }
            _ => Ok(missing),
        }
    }
}

/// Returns the tools that a policy asks about.
fn asked_by(policy: &InterruptPolicy) -> impl Iterator<Item = String> {
    policy.clone().asking().tools.into_keys()
}

/// Returns the tools that a sub-agent and its descendants are asked about in addition to inherited policies.
fn asked_below(spec: &SubAgentSpec) -> BTreeSet<String> {
    let own = spec.interrupt_on.iter().chain([&spec.code.middleware_approvals]).flat_map(asked_by);
    own.chain(spec.sub_agents.iter().flat_map(asked_below)).collect()
}

impl DeepAgentBuilder {
    /// Returns the tools that need approval but do not exist yet.
    ///
    /// # Errors
    /// Returns an error if such a tool can never exist.
    pub(super) fn asked_about_later(&self, agent: &Agent) -> Result<Vec<String>, BuildError> {
        // The main agent checks for its sub-agents too: its policy may name a tool that only one of them has.
        if self.nesting.is_sub_agent() {
            return Ok(Vec::new());
        }
        let (mut tools, defaults) = (Tools::of(agent), &self.sub_agent_defaults);
        let of_all = defaults.tools.iter().flatten().map(|tool| &tool.0);
        tools.add(of_all, defaults.middlewares.iter().map(|middleware| &middleware.0));
        self.sub_agents.iter().for_each(|spec| tools.add_below(spec));
        let here = [&self.approvals, &defaults.middleware_approvals].into_iter().chain(&defaults.interrupt_on);
        let asked = here.flat_map(asked_by).chain(self.sub_agents.iter().flat_map(asked_below)).collect();
        tools.missing(asked).map_err(BuildError::Option)
    }
}

/// Rejects a sub-agent of a file or a skill whose policy names tools that it can never have.
pub(super) fn check_file(spec: &SubAgentSpec, agent: &Agent) -> Result<(), String> {
    Tools::of(agent).missing(asked_below(spec)).map(|_| ())
}
