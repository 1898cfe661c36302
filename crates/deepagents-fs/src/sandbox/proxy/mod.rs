//! The way from a sandbox to the hosts of an allow-list.
//!
//! The sandbox's helper listens on the loopback of the command's network and hands that socket out to the program.
//! So this proxy, outside, takes connections from inside, and nothing has to run in the sandbox for it. It answers
//! `CONNECT` for TLS and whole addresses for plain HTTP, resolves names itself and connects to the very addresses it
//! has checked.

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

/// Connections of one command at one time; more wait.
const CONNECTIONS: usize = 64;
/// How long a name may take to resolve, and each address to answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// Addresses of one name that are tried.
const ADDRESSES: usize = 6;
/// Refused targets that are told.
const TOLD: usize = 20;

/// An HTTP proxy to the hosts of an allow-list, as commands in a sandbox get one; for a shell of your own that holds
/// commands in by other means. It works on a thread of its own, and ends with all its connections when it is finished
/// or dropped.
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
    /// Takes connections from a socket.
    ///
    /// # Errors
    /// When the socket or a thread cannot be had.
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
            // A name that is being resolved cannot be called back, and is not waited for.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("deepagents-proxy".to_owned()).spawn(work)?;
        Ok(Self { stop, thread: Some(thread), refused })
    }

    /// Ends it and tells what was asked for and refused, in order and each once.
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
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&room).acquire_owned().await {
        match listener.accept().await {
            Ok((client, _)) => {
                let gate = Arc::clone(&gate);
                tokio::spawn(async move {
                    exchange::exchange(client, &gate).await;
                    drop(place);
                });
            }
            // The program has too many files open; that may pass.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    Ok(())
}

/// What decides who is connected to.
#[derive(Debug)]
struct Gate {
    allowed: Vec<HostPattern>,
    refused: Arc<Mutex<BTreeSet<String>>>,
}

impl Gate {
    /// A connection to an allowed target.
    async fn connect(&self, target: &Target) -> Result<TcpStream, Refusal> {
        let result = self.try_connect(target).await;
        if let Err(Refusal::NotListed(_) | Refusal::NotPublic(_)) = &result {
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            if refused.len() < TOLD {
                refused.insert(target.to_string());
            }
        }
        result
    }

    async fn try_connect(&self, target: &Target) -> Result<TcpStream, Refusal> {
        if !self.lists(target) {
            return Err(Refusal::NotListed(target.clone()));
        }
        let unreachable = |reason: String| Refusal::Unreachable { target: target.clone(), reason };
        let late = || unreachable("it did not answer in time".to_owned());
        let addresses = match &target.host {
            // Listed as it is.
            Host::Address(address) => vec![(*address, target.port).into()],
            Host::Name(name) => {
                let found = tokio::time::timeout(PATIENCE, tokio::net::lookup_host((name.as_str(), target.port)));
                let found = found.await.map_err(|_| late())?.map_err(|error| unreachable(error.to_string()))?;
                let found: Vec<_> = found.filter(|found| self.may_be(name, *found)).take(ADDRESSES).collect();
                if found.is_empty() {
                    return Err(Refusal::NotPublic(target.clone()));
                }
                found
            }
        };
        let mut refusal = late();
        for address in addresses {
            match tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await {
                Ok(Ok(server)) => return Ok(server),
                Ok(Err(error)) => refusal = unreachable(error.to_string()),
                Err(_) => refusal = late(),
            }
        }
        Err(refusal)
    }

    fn lists(&self, target: &Target) -> bool {
        self.allowed.iter().any(|pattern| pattern.covers_target(target))
    }

    /// Whether an allowed name may stand for an address. Whoever answers for a name could have it stand for a service
    /// of this machine or its network.
    fn may_be(&self, name: &str, address: std::net::SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        is_elsewhere(address)
            || (name == "localhost" && ip.is_loopback())
            || self.lists(&Target { host: Host::Address(ip), port: address.port() })
    }
}
