//! The MCP servers that the screens use and list.

use std::time::Duration;

use anyhow::Result;
use deepagents::mcp::{ServerState, ServerStatus};
use deepagents::trust::{FoundItem, TrustItem};
use deepagents_tui::Servers;

use super::ProgramHost;
use crate::mcp;

/// How long to wait for servers before their state is shown.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The MCP servers of an agent.
#[derive(Clone, Default)]
pub(super) struct ServerSet {
    pub(super) servers: Option<mcp::Servers>,
    /// How they are defined.
    items: Vec<TrustItem>,
    /// Problems with other servers.
    problems: Vec<String>,
}

impl ProgramHost {
    pub(super) fn find_servers(&self) -> Result<mcp::ScreenServers> {
        mcp::for_screens(&self.loaded().args, self.with(|chosen| chosen.in_use.sampling.clone()).as_ref())
    }

    /// Returns the servers that may be used now: those of the agent if they are still defined in the same way. Others
    /// replace those once an [agent has them](Self::adopt_servers).
    pub(super) fn usable_servers(&self) -> Result<ServerSet> {
        let mcp::ScreenServers { usable, items, problems, .. } = self.find_servers()?;
        Ok(self.with(|chosen| {
            let known = if chosen.servers.items == items {
                chosen.next_servers = None;
                &mut chosen.servers
            } else {
                let next = chosen.next_servers.take().filter(|next| next.items == items);
                let found = || ServerSet { servers: usable, items, problems: Vec::new() };
                chosen.next_servers.insert(next.unwrap_or_else(found))
            };
            known.problems = problems;
            known.clone()
        }))
    }

    /// Notes that an agent with these servers was built, and ends those of the agent before it.
    pub(super) async fn adopt_servers(&self, used: ServerSet) {
        let before = self.with(|chosen| {
            if chosen.servers.items == used.items {
                return None;
            }
            chosen.next_servers = chosen.next_servers.take().filter(|next| next.items != used.items);
            std::mem::replace(&mut chosen.servers, used).servers
        });
        if let Some(before) = before {
            before.close().await;
        }
    }

    /// Returns the servers with their state, or what the untrusted ones would start.
    pub(super) async fn show_servers(&self) -> Result<Servers> {
        let untrusted = self.find_servers()?.untrusted;
        if !untrusted.is_empty() {
            let line = |found: &FoundItem| format!("{}: {}", found.item.name, found.asks_for.join(", "));
            return Ok(Servers::Untrusted(untrusted.iter().map(line).collect::<Vec<_>>().join("\n")));
        }
        let ServerSet { servers, problems: mut lines, .. } = self.usable_servers()?;
        let changed = servers.as_ref().map(mcp::Servers::changed).unwrap_or_default();
        if !changed.is_empty() {
            let line = |found: &FoundItem| format!("the tool {}, {}", found.item.name, found.asks_for.join(", "));
            return Ok(Servers::Changed(changed.iter().map(line).collect::<Vec<_>>().join("\n")));
        }
        if let Some(servers) = servers {
            // A server that does not answer in time is shown in its current state.
            let _ = tokio::time::timeout(CONNECT_TIMEOUT, servers.all.connect()).await;
            lines.extend(servers.all.status().iter().map(server_line));
        }
        if lines.is_empty() {
            lines.push("there are no MCP servers; see `deepagents mcp add --help`".to_owned());
        }
        Ok(Servers::Listed(lines.join("\n")))
    }
}

/// Describes a server and its state.
fn server_line(status: &ServerStatus) -> String {
    let state = match &status.state {
        ServerState::Connected => "connected".to_owned(),
        ServerState::Idle => "not started yet".to_owned(),
        ServerState::Starting => "starting".to_owned(),
        ServerState::Ended => "ended, restarts with the next call".to_owned(),
        ServerState::Failed { problem } => format!("failed: {problem}"),
        _ => "unknown".to_owned(),
    };
    let tools = if status.tools.is_empty() { String::new() } else { format!(", {}", mcp::cost(status)) };
    format!("{}: {state}{tools}", status.name)
}
