//! Answering requests from a socket until it is time to end.

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

/// How long a client may take for the head of a request, and may leave a connection unused.
const HEAD: Duration = Duration::from_secs(30);

/// How long a client may take to agree on keys.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Headers that a request may have.
const MAX_HEADERS: usize = 100;

/// Bytes that the head of a request may have.
const MAX_HEAD: usize = 64 << 10;

/// Connections at a time; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 20_000;

/// How long runs may take to come to a step from which they can go on, and connections to end.
const GRACE: Duration = Duration::from_secs(20);

/// A server whose runs have been taken up.
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

    /// Speaks TLS, with these certificates.
    #[must_use]
    pub fn tls(mut self, mut config: ServerConfig) -> Self {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        self.app.tls.store(true, Ordering::Relaxed);
        self.tls = Some(TlsAcceptor::from(Arc::new(config)));
        self
    }

    /// The routes, to be mounted beside others.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Answers requests until a future is ready, then [ends](Self::shutdown). Heads of requests have limits in time and size,
    /// so a client that is slow on purpose holds nothing but its own connection.
    ///
    /// # Errors
    /// When the socket cannot be listened on any more.
    pub async fn serve(self, listener: TcpListener, until: impl Future<Output = ()> + Send) -> io::Result<()> {
        let (connections, room) = (TaskTracker::new(), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
        let mut until = std::pin::pin!(until);
        loop {
            let accepted = async {
                // It is never closed.
                let permit = room.clone().acquire_owned().await.ok();
                (listener.accept().await, permit)
            };
            let (stream, permit) = tokio::select! {
                (accepted, permit) = accepted => match accepted {
                    Ok((stream, _)) => (stream, permit),
                    Err(error) if is_fatal(&error) => return Err(error),
                    // There are as many files open as may be; some will be closed.
                    Err(_) => {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
                () = &mut until => break,
            };
            connections.spawn(self.clone().connection(stream, permit));
        }
        drop(listener);
        self.shutdown().await;
        connections.close();
        // Whoever does not let go of a connection does not hold up the end.
        let _ = tokio::time::timeout(GRACE, connections.wait()).await;
        Ok(())
    }

    /// Ends: no run is accepted any more, what is under way stops at its next step and is gone on with by the next server on
    /// this storage, streams end so that clients reconnect there.
    pub async fn shutdown(&self) {
        self.app.closing.send_replace(true);
        // What does not come to a step in time is taken up as after a crash.
        let _ = tokio::time::timeout(GRACE, runs::settled(&self.app)).await;
    }

    async fn connection(self, stream: TcpStream, _permit: Option<OwnedSemaphorePermit>) {
        // Pieces of answers are small and wanted at once; without it they only come later.
        let _ = stream.set_nodelay(true);
        match self.tls.clone() {
            None => self.speak(stream).await,
            Some(tls) => {
                if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                    self.speak(stream).await;
                }
            }
        }
    }

    async fn speak(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let service = TowerToHyperService::new(self.router.clone());
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD).max_headers(MAX_HEADERS).max_buf_size(MAX_HEAD);
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let mut connection = std::pin::pin!(connection);
        // What goes wrong with a connection is its client's.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = self.app.closed() => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }
}

/// Whether accepting cannot go on.
fn is_fatal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotConnected | io::ErrorKind::Unsupported)
}

impl std::fmt::Debug for RunningServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningServer").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}
