//! The state of a server, and what is known about it.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::Tool;
use tokio::time::Instant;

use crate::cache::Cached;
use crate::connection::{Connection, Protocol};
use crate::error::McpError;
use crate::tool::ListedTool;

/// Delay before a failed server may be started again. Doubles with each failure, up to 64 s.
const RESTART_DELAY: Duration = Duration::from_secs(1);
/// How many times the delay doubles.
pub(super) const MAX_DOUBLINGS: u32 = 6;

/// What a server offers.
#[derive(Clone, Debug)]
pub(crate) struct ServerOffer {
    pub(crate) tools: Vec<ListedTool>,
    pub(crate) resources: bool,
    /// Whether it comes from the cache.
    pub(crate) cached: bool,
    pub(super) protocol: Protocol,
}

impl ServerOffer {
    /// Returns what a connected server offers, with the tools that it has listed.
    pub(super) fn current(connection: &Connection, tools: Vec<Tool>) -> Self {
        let (resources, protocol) = (connection.capabilities().resources.is_some(), connection.protocol);
        Self { tools: tools.into_iter().map(ListedTool::new).collect(), resources, cached: false, protocol }
    }

    pub(super) fn cached(offer: Cached) -> Self {
        let Cached { protocol, resources, tools, .. } = offer;
        Self { tools: tools.into_iter().map(ListedTool::new).collect(), resources, cached: true, protocol }
    }
}

/// The state of a server.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// Not started yet.
    Idle,
    /// Starting, after this many failed starts.
    Starting(u32),
    /// Connected, though the connection may have closed since.
    Ready(Arc<Connection>),
    /// The start failed.
    Failed(Failure),
}

/// A failed start.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: McpError,
    pub(super) at: Instant,
    pub(super) times: u32,
}

impl Failure {
    /// Whether it is too early to try again. A server that requires a login is never tried again in this process.
    pub(super) fn is_recent(&self) -> bool {
        let pause = RESTART_DELAY * 2u32.pow((self.times - 1).min(MAX_DOUBLINGS));
        matches!(self.error, McpError::Unauthorized { .. } | McpError::Scope { .. }) || self.at.elapsed() < pause
    }
}
