//! The status of servers.

use serde::Serialize;

use super::{McpServers, Phase};
use crate::tool::McpTool;
use deepagents_core::tool::{DynTool, ToolSpec};

/// The status of a server.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ServerStatus {
    /// Name of the server.
    pub name: String,
    /// Its state.
    pub state: ServerState,
    /// Its tools as the model sees them, as far as known.
    pub tools: Vec<ToolSpec>,
    /// The number of its tools that are not offered.
    pub hidden: usize,
    /// Whether it has resources, as far as known.
    pub resources: bool,
}

/// The state of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
#[non_exhaustive]
pub enum ServerState {
    /// Not started yet.
    Idle,
    /// Starting.
    Starting,
    /// Connected.
    Connected,
    /// Ended. The next call restarts it.
    Ended,
    /// The start failed.
    Failed {
        /// Why it failed.
        problem: String,
    },
}

impl ServerStatus {
    /// Returns why the start failed, if it did.
    pub fn problem(&self) -> Option<&str> {
        match &self.state {
            ServerState::Failed { problem } => Some(problem),
            _ => None,
        }
    }
}

impl McpServers {
    /// Returns the status of each server, by name.
    pub fn status(&self) -> Vec<ServerStatus> {
        let one = |server: &std::sync::Arc<super::Server>| {
            let state = match server.phase() {
                Phase::Idle => ServerState::Idle,
                Phase::Starting(_) => ServerState::Starting,
                Phase::Ready(connection) if connection.is_closed() => ServerState::Ended,
                Phase::Ready(_) => ServerState::Connected,
                Phase::Failed(failure) => ServerState::Failed { problem: failure.error.line() },
            };
            let known = server.known();
            let all = known.as_ref().map_or(0, |known| known.tools.len());
            let offered = known
                .iter()
                .flat_map(|known| &known.tools)
                .filter(|listed| server.config.tools.offers(&listed.tool.name));
            let tools: Vec<ToolSpec> =
                offered.filter_map(|listed| Some(McpTool::new(server, listed).ok()?.spec())).collect();
            ServerStatus {
                name: server.name.clone(),
                state,
                hidden: all - tools.len(),
                tools,
                resources: known.is_some_and(|known| known.resources),
            }
        };
        self.servers().iter().map(one).collect()
    }
}
