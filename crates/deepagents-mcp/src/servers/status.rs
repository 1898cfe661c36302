//! How servers are.

use serde::Serialize;

use super::{McpServers, Phase};
use crate::tool::McpTool;
use deepagents_core::tool::{DynTool, ToolSpec};

/// How a server is.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub state: ServerState,
    /// What a model is told of its tools, as far as they are known.
    pub tools: Vec<ToolSpec>,
    /// How many of its tools are not offered.
    pub hidden: usize,
    /// Whether it has resources, as far as that is known.
    pub resources: bool,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
#[non_exhaustive]
pub enum ServerState {
    /// It has not been needed yet.
    Idle,
    /// It is being started.
    Starting,
    /// It answers.
    Connected,
    /// It has ended, and is started by the next call.
    Ended,
    /// It could not be started.
    Failed {
        /// Why.
        problem: String,
    },
}

impl ServerStatus {
    /// Why it could not be started, if it could not.
    pub fn problem(&self) -> Option<&str> {
        match &self.state {
            ServerState::Failed { problem } => Some(problem),
            _ => None,
        }
    }
}

impl McpServers {
    /// How the servers are, by name.
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
            let offered =
                known.iter().flat_map(|known| &known.tools).filter(|tool| server.config.tools.offers(&tool.name));
            let tools: Vec<ToolSpec> = offered.filter_map(|tool| Some(McpTool::new(server, tool)?.spec())).collect();
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
