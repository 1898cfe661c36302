//! Limits how long a request waits for starting servers.

use std::pin::pin;
use std::time::Duration;

use deepagents_core::event::MiddlewareEvent;
use deepagents_core::run::Context;
use futures_util::future::join_all;
use tokio::time::timeout;

use super::{McpServers, Server};
use crate::text;

/// Shorter waits are not reported.
const MIN_REPORTED_WAIT: Duration = Duration::from_secs(1);

impl McpServers {
    /// Waits until each server's tools are known, up to the [time limit](crate::McpOptions::ready_timeout). After that,
    /// requests proceed without the servers that are still starting, and do not wait for them again.
    pub(super) async fn wait(&self, cx: &Context) {
        let Some(limit) = self.0.shared.options.ready_timeout else { return self.ready().await };
        self.start().await;
        let mut settled = pin!(join_all(self.0.servers.iter().map(|server| server.wait_until_known())));
        let soon = MIN_REPORTED_WAIT.min(limit);
        if timeout(soon, settled.as_mut()).await.is_ok() {
            return;
        }
        for server in self.awaited() {
            report_wait(cx, server, "is still starting; waiting for it");
        }
        if timeout(limit.saturating_sub(soon), settled.as_mut()).await.is_ok() {
            return;
        }
        for server in self.awaited() {
            server.stop_waiting();
            report_wait(cx, server, "is still starting: going on without its tools, which are offered once it answers");
        }
    }

    fn awaited(&self) -> impl Iterator<Item = &Server> {
        self.0.servers.iter().map(|server| &**server).filter(|server| server.is_awaited())
    }
}

fn report_wait(cx: &Context, server: &Server, what: &str) {
    let problem = Some(format!("the MCP server {} {what}", text::line(&server.name, 100)));
    cx.report(MiddlewareEvent::McpServer { server: server.name.clone(), tools: 0, problem, starting: true });
}
