//! Serving connections until shutdown.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_util::task::TaskTracker;

use crate::app::App;
use crate::runs;
use crate::server::{Server, ServerError};

/// How long a client may take to send the head of a request, and may leave a connection idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of headers per request.
const MAX_HEADERS: usize = 100;

/// Maximum size of a request's head, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// The same if most connections are taken.
const SHORT_HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of concurrent connections. Further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 20_000;

/// Minimum number of files that connections leave to runs: their database, models, commands and servers.
const FILES_OF_RUNS: usize = 256;

/// Returns how many connections the process's limit of open files allows beside what runs need.
fn max_connections() -> usize {
    #[cfg(unix)]
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    #[cfg(not(unix))]
    let limit: Option<u64> = None;
    let files = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    files.saturating_sub(FILES_OF_RUNS.max(files / 4)).clamp(16, MAX_CONNECTIONS)
}

/// How long runs may take to reach a step from which they can resume, and connections to close.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// A started server, whose runs have been recovered.
///
/// ```no_run
/// # async fn example(server: deepagents_server::Server) -> Result<(), Box<dyn std::error::Error>> {
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8123").await?;
/// let ready = server.start().await?;
/// ready.serve(listener, std::future::pending()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RunningServer {
    router: Router,
    app: Arc<App>,
    tls: Option<TlsAcceptor>,
}

impl RunningServer {
    pub(crate) fn new(router: Router, app: Arc<App>) -> Self {
        Self { router, app, tls: None }
    }

    /// Serves TLS with the given configuration.
    #[must_use]
    pub fn tls(mut self, mut config: ServerConfig) -> Self {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        self.app.tls.store(true, Ordering::Relaxed);
        self.tls = Some(TlsAcceptor::from(Arc::new(config)));
        self
    }

    /// Replaces the agents with those of another server, under the names they have there. Runs in flight continue with
    /// the agent they started with; pending runs start with the new one. Nothing else of the other server is used.
    ///
    /// # Errors
    /// Returns an error if the other server has no agents.
    pub fn replace_agents(&self, server: Server) -> Result<(), ServerError> {
        self.app.set_agents(server.into_agents()?);
        Ok(())
    }

    /// Returns the routes, to be mounted beside others.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Serves requests until a future completes, then [shuts down](Self::shutdown). Request heads are limited in time
    /// and size, so a deliberately slow client holds up only its own connection. A quarter of the files that the process
    /// may open is left to the runs; the other connections wait to be accepted.
    ///
    /// # Errors
    /// Returns an error if the socket can no longer accept connections.
    pub async fn serve(self, listener: TcpListener, until: impl Future<Output = ()> + Send) -> io::Result<()> {
        let max = max_connections();
        let (connections, room) = (TaskTracker::new(), Arc::new(Semaphore::new(max)));
        let mut until = std::pin::pin!(until);
        loop {
            let accepted = async {
                // The semaphore is never closed.
                let permit = room.clone().acquire_owned().await.ok();
                (listener.accept().await, permit)
            };
            let (stream, permit) = tokio::select! {
                (accepted, permit) = accepted => match accepted {
                    Ok((stream, _)) => (stream, permit),
                    Err(error) if is_fatal(&error) => return Err(error),
                    // The process is out of file descriptors; some will be closed.
                    Err(_) => {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
                () = &mut until => break,
            };
            let is_crowded = room.available_permits() < max / 4;
            let head_timeout = if is_crowded { SHORT_HEAD_TIMEOUT } else { HEAD_TIMEOUT };
            connections.spawn(self.clone().connection(stream, permit, head_timeout));
        }
        drop(listener);
        self.shutdown().await;
        connections.close();
        // A connection that does not close must not hold up the shutdown.
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, connections.wait()).await;
        Ok(())
    }

    /// Shuts down. New runs are rejected, and runs in flight stop at their next step, from which the next server on
    /// this storage resumes them. Streams end, so that clients reconnect to that server.
    pub async fn shutdown(&self) {
        self.app.closing.send_replace(true);
        // A run that does not reach a step in time is recovered as after a crash.
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, runs::wait_until_idle(&self.app)).await;
        // The runs left for the next server are not failed by another one that lacks their agents.
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, runs::announce(&self.app)).await;
    }

    async fn connection(self, stream: TcpStream, _permit: Option<OwnedSemaphorePermit>, head_timeout: Duration) {
        // Pieces of a response are small and wanted at once. A failure only delays them.
        let _ = stream.set_nodelay(true);
        match self.tls.clone() {
            None => self.serve_http(stream, head_timeout).await,
            Some(tls) => {
                if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
                    self.serve_http(stream, head_timeout).await;
                }
            }
        }
    }

    async fn serve_http(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, head_timeout: Duration) {
        let service = TowerToHyperService::new(self.router.clone());
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(head_timeout)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEAD_BYTES);
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let mut connection = std::pin::pin!(connection);
        // Connection errors concern only their client.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = self.app.closed() => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }
}

/// Whether no further connection can be accepted.
fn is_fatal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotConnected | io::ErrorKind::Unsupported)
}

impl std::fmt::Debug for RunningServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningServer").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}
