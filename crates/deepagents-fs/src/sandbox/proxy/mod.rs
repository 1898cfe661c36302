//! Proxy from a sandbox to the hosts of an allow-list.
//!
//! The sandbox helper listens on the loopback of the command's network and sends that socket to the program. So this
//! proxy, outside, accepts connections from inside, and nothing needs to run in the sandbox. It handles `CONNECT` for
//! TLS and absolute URIs for plain HTTP, resolves names itself, and connects to exactly the addresses it has checked.

mod activity;
mod exchange;
mod refusal;
mod rewrite;

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::refusal::Refusal;
use super::hosts::{Host, HostPattern, Target};
use super::is_elsewhere;

/// Maximum number of concurrent connections of one command; more wait.
const MAX_CONCURRENT_CONNECTIONS: usize = 64;
/// Time limit for resolving a name, and for connecting to each address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of addresses tried for a name.
const MAX_ADDRESSES: usize = 6;
/// Maximum number of refused targets reported.
const MAX_REPORTED: usize = 20;

/// HTTP proxy to the hosts of an allow-list, as used by commands in a sandbox. Available separately for shells that
/// confine commands by other means. Runs on its own thread; finishing or dropping it closes all its connections.
///
/// ```
/// use deepagents_fs::sandbox::Proxy;
/// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// let proxy = Proxy::start(listener, vec!["example.org".parse()?])?;
/// assert!(proxy.finish().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Proxy {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
    refused: Arc<Mutex<BTreeSet<String>>>,
}

impl Proxy {
    /// Starts a proxy that accepts connections from a socket.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be used or a thread cannot be started.
    pub fn start(listener: TcpListener, allowed: Vec<HostPattern>) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(4).build()?;
        let (stop, refused) = (CancellationToken::new(), Arc::default());
        let gate = Arc::new(Gate { allowed, refused: Arc::clone(&refused) });
        let stopped = stop.clone();
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = stopped.cancelled() => {}
                    _ = serve(listener, gate) => {}
                }
            });
            // A pending name resolution cannot be cancelled and is not waited for.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("deepagents-proxy".to_owned()).spawn(work)?;
        Ok(Self { stop, thread: Some(thread), refused })
    }

    /// Stops the proxy and returns the refused targets, sorted and without duplicates.
    pub fn finish(mut self) -> Vec<String> {
        self.end();
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *refused).into_iter().collect()
    }

    fn end(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.end();
    }
}

async fn serve(listener: TcpListener, gate: Arc<Gate>) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let room = Arc::new(Semaphore::new(MAX_CONCURRENT_CONNECTIONS));
    while let Ok(place) = Arc::clone(&room).acquire_owned().await {
        match listener.accept().await {
            Ok((client, _)) => {
                let gate = Arc::clone(&gate);
                tokio::spawn(async move {
                    exchange::exchange(client, &gate).await;
                    drop(place);
                });
            }
            // The program has too many open files, which may be temporary.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    Ok(())
}

/// Decides which targets may be connected to.
#[derive(Debug)]
struct Gate {
    allowed: Vec<HostPattern>,
    refused: Arc<Mutex<BTreeSet<String>>>,
}

impl Gate {
    /// Connects to an allowed target.
    async fn connect(&self, target: &Target) -> Result<TcpStream, Refusal> {
        let result = self.try_connect(target).await;
        if let Err(Refusal::NotListed(_) | Refusal::NotPublic(_)) = &result {
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            if refused.len() < MAX_REPORTED {
                refused.insert(target.to_string());
            }
        }
        result
    }

    async fn try_connect(&self, target: &Target) -> Result<TcpStream, Refusal> {
        if !self.is_listed(target) {
            return Err(Refusal::NotListed(target.clone()));
        }
        let unreachable = |reason: String| Refusal::Unreachable { target: target.clone(), reason };
        let late = || unreachable("it did not answer in time".to_owned());
        let addresses = match &target.host {
            // The address itself is listed.
            Host::Address(address) => vec![(*address, target.port).into()],
            Host::Name(name) => {
                let found =
                    tokio::time::timeout(CONNECT_TIMEOUT, tokio::net::lookup_host((name.as_str(), target.port)));
                let found = found.await.map_err(|_| late())?.map_err(|error| unreachable(error.to_string()))?;
                let found: Vec<_> = found.filter(|found| self.may_be(name, *found)).take(MAX_ADDRESSES).collect();
                if found.is_empty() {
                    return Err(Refusal::NotPublic(target.clone()));
                }
                found
            }
        };
        let mut refusal = late();
        for address in addresses {
            match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
                Ok(Ok(server)) => return Ok(server),
                Ok(Err(error)) => refusal = unreachable(error.to_string()),
                Err(_) => refusal = late(),
            }
        }
        Err(refusal)
    }

    fn is_listed(&self, target: &Target) -> bool {
        self.allowed.iter().any(|pattern| pattern.covers_target(target))
    }

    /// Returns whether an allowed name may resolve to an address. Whoever controls the name could point it at a service
    /// of this machine or its network.
    fn may_be(&self, name: &str, address: std::net::SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        is_elsewhere(address)
            || (name == "localhost" && ip.is_loopback())
            || self.is_listed(&Target { host: Host::Address(ip), port: address.port() })
    }
}
