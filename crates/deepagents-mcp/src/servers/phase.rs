//! Where a server is between its start and its end, and what is known of it.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::Tool;
use tokio::time::Instant;

use crate::connection::{Connection, Protocol};
use crate::error::McpError;
use crate::tool::ListedTool;

/// How long a server that failed is left alone at first; doubled each time, up to a minute.
const PAUSE: Duration = Duration::from_secs(1);
/// How often it is doubled.
pub(super) const DOUBLED: u32 = 6;

/// What a server has.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) tools: Vec<ListedTool>,
    pub(crate) resources: bool,
    /// Whether it stems from an earlier process.
    pub(crate) cached: bool,
    pub(super) protocol: Protocol,
}

impl Known {
    pub(super) fn new(tools: Vec<Tool>, resources: bool, cached: bool, protocol: Protocol) -> Self {
        Self { tools: tools.into_iter().map(ListedTool::new).collect(), resources, cached, protocol }
    }
}

/// Where a server is.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// Nobody has needed it yet.
    Idle,
    /// It is being started, after so many times that it could not be.
    Starting(u32),
    /// It answers, or did so last.
    Ready(Arc<Connection>),
    /// It could not be started.
    Failed(Failure),
}

/// Why a server could not be started, and when.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: McpError,
    pub(super) at: Instant,
    pub(super) times: u32,
}

impl Failure {
    /// Whether it is too early to try again. A server that wants a login is asked again by another process.
    pub(super) fn is_recent(&self) -> bool {
        let pause = PAUSE * 2u32.pow((self.times - 1).min(DOUBLED));
        matches!(self.error, McpError::Unauthorized { .. } | McpError::Scope { .. }) || self.at.elapsed() < pause
    }
}
