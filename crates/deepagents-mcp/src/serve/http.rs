//! Serves over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::sessions::Sessions;
use super::{AgentServer, ServeError};

/// Path of the MCP endpoint.
const PATH: &str = "/mcp";
/// Delay after a failed `accept`.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

impl AgentServer {
    /// Serves clients over HTTP at `/mcp` on a loopback address, until `stop` is cancelled. `ready` gets the URL once
    /// the server listens. Requests with another `Host` or `Origin` are refused, because a browser could be tricked
    /// into sending them.
    ///
    /// # Errors
    /// Returns an error if the server cannot listen on the address, or the address is not loopback: there is no
    /// authorization.
    pub async fn serve_http(
        self,
        address: SocketAddr,
        stop: CancellationToken,
        ready: impl FnOnce(&str),
    ) -> Result<(), ServeError> {
        if !address.ip().is_loopback() {
            let why = format!("{address} can be reached by others, but there is no authorization; listen on 127.0.0.1");
            return Err(ServeError::Address(why));
        }
        let unusable = |error: std::io::Error| ServeError::Address(format!("cannot listen on {address}: {error}"));
        let listener = TcpListener::bind(address).await.map_err(unusable)?;
        let bound = listener.local_addr().map_err(unusable)?;
        let origins = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];
        let config = StreamableHttpServerConfig::default()
            .with_allowed_origins(origins)
            .with_cancellation_token(stop.child_token());
        let sessions = Arc::new(Sessions::new(self.session_idle));
        let service = StreamableHttpService::new(move || Ok(self.clone()), sessions, config);
        ready(&format!("http://{bound}{PATH}"));
        let connections = TaskTracker::new();
        loop {
            let stream = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    // The connection was aborted, or too many files are open. Neither must stop the server.
                    Err(_) => {
                        sleep(ACCEPT_RETRY_DELAY).await;
                        continue;
                    }
                },
                () = stop.cancelled() => break,
            };
            let (service, stop) = (service.clone(), stop.clone());
            connections.spawn(async move {
                let answer = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    let service = service.clone();
                    async move { Ok::<_, std::convert::Infallible>(service.handle(request).await) }
                });
                let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
                tokio::select! {
                    // A client that disconnects is not an error.
                    _ = connection => {}
                    () = stop.cancelled() => {}
                }
            });
        }
        connections.close();
        connections.wait().await;
        Ok(())
    }
}
