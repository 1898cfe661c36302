//! Tools that are offered once the model has searched for them.
//!
//! A hundred tools cost more tokens than most conversations. Deferred tools are left out of requests; the tool
//! `tool_search` finds them by what they do, and the tools it finds are offered from the next request on.

mod index;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use deepagents_core::error::Result;
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::middleware::Middleware;
use deepagents_core::model::{ModelRequest, SystemBlock, ToolSpec};
use deepagents_core::run::Context;
use deepagents_core::state::{Channel, ChannelError, ChannelSpec, Sharing, Update};
use deepagents_core::tool::{DynTool, Effect, ToolContext, ToolError, ToolOutput, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::shared::Shared;
use crate::text::shorten;
use crate::tokens;
use index::Index;

/// The name of the search tool.
const SEARCH: &str = "tool_search";
/// The prefix of the tools of MCP servers.
const MCP: &str = "mcp__";
/// Number of tokens that deferred tools must exceed in total.
const MIN_DEFERRED_TOKENS: u64 = 1_500;
/// Maximum number of tools per search.
const MAX_RESULTS: usize = 5;
/// Maximum number of tool groups to name to the model.
const MAX_GROUPS: usize = 40;

type Deferred = dyn Fn(&ToolSpec) -> bool + Send + Sync;

/// The tools that searches of the thread have found, in that order.
#[derive(Debug)]
struct FoundTools;

impl Channel for FoundTools {
    const NAME: &'static str = "found_tools";
    const SHARING: Sharing<Vec<String>, Vec<String>> = Sharing::private();
    type Value = Vec<String>;
    type Update = Vec<String>;

    fn reduce(value: &mut Vec<String>, update: Vec<String>) -> Result<(), ChannelError> {
        for name in update {
            if !value.contains(&name) {
                value.push(name);
            }
        }
        Ok(())
    }
}

/// Leaves tools out of requests until the model has searched for them; see the [module](self).
///
/// By default, the tools of MCP servers are deferred if they exceed 1,500 tokens in total. The search covers names,
/// descriptions, and the names and descriptions of arguments; it runs locally. Tools that were found stay available for
/// the thread and come after the other tools, so that the provider's cached prefix stays valid. A call of a deferred
/// tool that was not searched for still works.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::middleware::tool_search::ToolSearch;
/// use deepagents::models::scripted::ScriptedModel;
/// let search = ToolSearch::default().deferring(|tool| tool.name.starts_with("mcp__") || tool.name.starts_with("admin_"));
/// let agent = DeepAgent::builder().model(ScriptedModel::new([])).middleware(search).build()?;
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ToolSearch {
    deferred: Shared<Deferred>,
    worth: u64,
    most: usize,
}

impl Default for ToolSearch {
    fn default() -> Self {
        let deferred: Arc<Deferred> = Arc::new(|tool: &ToolSpec| tool.name.starts_with(MCP));
        Self { deferred: Shared(deferred), worth: MIN_DEFERRED_TOKENS, most: MAX_RESULTS }
    }
}

impl ToolSearch {
    crate::shared::setters! {
        /// Defers the tools for which this returns `true`.
        deferring(deferred: impl Fn(&ToolSpec) -> bool + Send + Sync + 'static)
            => deferred = Shared(Arc::new(deferred));

        /// Defers tools only if they exceed this number of tokens in total; 1,500 by default.
        above_tokens(tokens: u64) => worth = tokens;

        /// Sets the maximum number of tools per search; 5 by default.
        most_results(most: usize) => most = most.max(1);
    }

    /// Defers the tools with these names.
    #[must_use]
    pub fn deferring_named<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
        self.deferring(move |tool| names.contains(&tool.name))
    }

    fn is_deferred(&self, tool: &ToolSpec) -> bool {
        tool.name != SEARCH && self.deferred.0(tool)
    }
}

/// Estimates the tokens that a tool adds to a request.
fn weight(tool: &ToolSpec) -> u64 {
    tokens::estimate(&tool.name) + tokens::estimate(&tool.description) + tokens::estimate(&tool.schema.to_string())
}

impl Middleware for ToolSearch {
    fn name(&self) -> &str {
        "ToolSearch"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<FoundTools>()]
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        let search = self.clone();
        let description = "Finds further tools. Those found can be called from then on.";
        let find = move |args: SearchArgs, cx| std::future::ready(search.find(&args.query, &cx));
        vec![Arc::new(tool_fn(SEARCH, description, find).effect(Effect::Read))]
    }

    async fn modify_request(&self, mut request: ModelRequest, cx: &Context) -> Result<ModelRequest> {
        let (deferred, kept): (Vec<_>, Vec<_>) = request
            .tools
            .into_iter()
            .partition(|tool| self.is_deferred(tool) && cx.answer_tool() != Some(tool.name.as_str()));
        request.tools = kept;
        // A tool that another middleware hides must not be found, wherever that one is in the stack.
        let names: HashSet<&str> = cx.tool_names().into_iter().collect();
        let deferred: Vec<_> = deferred.into_iter().filter(|tool| names.contains(tool.name.as_str())).collect();
        if !names.contains(SEARCH) || deferred.iter().map(|tool| weight(tool)).sum::<u64>() <= self.worth {
            // Offer them all if there is too little to search, or no search tool.
            request.tools.retain(|tool| tool.name != SEARCH);
            request.tools.extend(deferred);
            request.tools.sort_by(|a, b| a.name.cmp(&b.name));
            return Ok(request);
        }
        let found = cx.get::<FoundTools>();
        let offered = found.iter().filter_map(|name| deferred.iter().find(|tool| tool.name == *name).cloned());
        request.tools.extend(offered);
        let at = cx.static_system_blocks().min(request.system.len());
        request.system.insert(at, SystemBlock::new(announced(&deferred)));
        Ok(request)
    }
}

/// Returns the number and groups of searchable tools; constant as long as the tools do not change.
fn announced(deferred: &[Arc<ToolSpec>]) -> String {
    let mut groups: Vec<(&str, usize)> = Vec::new();
    for tool in deferred {
        let group = group(&tool.name);
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, count)) => *count += 1,
            None => groups.push((group, 1)),
        }
    }
    let shown =
        groups.iter().take(MAX_GROUPS).map(|(name, count)| format!("{name} ({count})")).collect::<Vec<_>>().join(", ");
    let more = if groups.len() > MAX_GROUPS { ", and others" } else { "" };
    format!("{} further tools can be found with {SEARCH}, by what they do: {shown}{more}.", deferred.len())
}

/// Returns the server of a tool, or the first part of its name.
fn group(name: &str) -> &str {
    match name.strip_prefix(MCP) {
        Some(rest) => rest.split("__").next().unwrap_or(rest),
        None => name.split(['_', '-']).next().unwrap_or(name),
    }
}

#[derive(Deserialize, JsonSchema)]
struct SearchArgs {
    /// What the tool should do, in a few words; or its name.
    query: String,
}

impl ToolSearch {
    /// Finds deferred tools, which are offered from then on.
    fn find(&self, query: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let specs = cx.tool_names().into_iter().filter_map(|name| Some(cx.tool(name)?.spec()));
        let index = Index::new(specs.filter(|tool| self.is_deferred(tool)));
        let found = index.search(query, self.most);
        let tools: Vec<String> = found.iter().map(|tool| tool.name.clone()).collect();
        cx.report(MiddlewareEvent::ToolsFound { query: query.to_owned(), tools: tools.clone() });
        if found.is_empty() {
            return Ok(format!("No tool fits `{query}`. Say in other words what it should do.").into());
        }
        let line = |tool: &ToolSpec| {
            let first = tool.description.lines().next().unwrap_or_default();
            format!("- {}: {}", tool.name, shorten(first, 160))
        };
        let lines: Vec<String> = found.into_iter().map(line).collect();
        let text = format!("These tools can be called now:\n{}", lines.join("\n"));
        Ok(ToolOutput::text(text).with_update(Update::new::<FoundTools>(tools)))
    }
}
