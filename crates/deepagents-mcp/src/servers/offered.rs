//! The tools that the servers offer now.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use deepagents_core::tool::{DynTool, ToolSet};

use super::{McpServers, Server};
use crate::resources;
use crate::text;
use crate::tool::McpTool;

impl McpServers {
    /// Returns the tools of all servers that are known, except those that are not offered, which are reported.
    pub(super) fn build_tools(&self) -> ToolSet {
        let mut tools: BTreeMap<String, Arc<McpTool>> = BTreeMap::new();
        let mut ambiguous = BTreeSet::new();
        for server in self.servers() {
            for tool in self.tools_of(server) {
                match tools.entry(tool.spec().name) {
                    Entry::Vacant(free) => drop(free.insert(Arc::new(tool))),
                    // A server may list a tool twice.
                    Entry::Occupied(first)
                        if (first.get().server(), first.get().name()) == (tool.server(), tool.name()) => {}
                    Entry::Occupied(first) => {
                        self.report_ambiguous(first.get(), &tool);
                        ambiguous.insert(first.key().clone());
                    }
                }
            }
        }
        // A call must not go to another server than the one that a person or a rule had in mind.
        tools.retain(|name, _| !ambiguous.contains(name));
        let mut tools: BTreeMap<String, Arc<dyn DynTool>> =
            tools.into_iter().map(|(name, tool)| (name, tool as Arc<dyn DynTool>)).collect();
        if self.servers().iter().any(|server| server.known().is_some_and(|known| known.resources)) {
            tools.extend(resources::tools(self).into_iter().map(|tool| (tool.spec().name, tool)));
        }
        // Cannot fail: the names are valid and unique, and the schemas are objects.
        ToolSet::new(tools.into_values()).unwrap_or_default()
    }

    /// Returns the tools of a server that its entry and the review let through.
    fn tools_of(&self, server: &Arc<Server>) -> Vec<McpTool> {
        let Some(known) = server.known() else { return Vec::new() };
        let notices = &self.0.shared.notices;
        let shown = text::line(&server.name, 100);
        if server.config.tools.admits_none(known.tools.iter().map(|listed| &*listed.tool.name)) {
            let why = format!("MCP server {shown}: `allowedTools` matches none of its tools");
            notices.withheld(&server.name, known.tools.len(), why);
        }
        let mut tools = Vec::new();
        for listed in known.tools.iter().filter(|listed| server.config.tools.offers(&listed.tool.name)) {
            let tool = McpTool::new(server, listed).map_err(|why| {
                let name = text::line(&listed.tool.name, 100);
                format!("MCP server {shown}: the tool {name} is left out, as providers refuse it: {why}")
            });
            match tool.and_then(|tool| server.reviewed(&tool).map(|()| tool)) {
                Ok(tool) => tools.push(tool),
                Err(why) => notices.withheld(&server.name, known.tools.len(), why),
            }
        }
        tools
    }

    /// Reports two tools that the model would see under one name.
    fn report_ambiguous(&self, first: &McpTool, second: &McpTool) {
        let shown = |tool: &McpTool| format!("{} of {}", text::line(tool.name(), 100), text::line(tool.server(), 100));
        let why = format!(
            "the tools {} and {} are left out, as both would be called {}; exclude one with `disabledTools`",
            shown(first),
            shown(second),
            first.spec().name
        );
        let servers = BTreeSet::from([first.server(), second.server()]);
        servers.into_iter().for_each(|server| self.0.shared.notices.withheld(server, 1, why.clone()));
    }
}
