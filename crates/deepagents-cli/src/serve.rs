//! `deepagents serve`: agents over HTTP, for clients of the LangGraph server.

mod access;
mod build;
mod project;
mod storage;
mod watch;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use deepagents::core::store::Store;
use deepagents_server::{RunningServer, Server};
use tokio::net::TcpListener;

use crate::args::ServeArgs;
use crate::exit::{self, Exit, WrongUsage};
use crate::mcp::Servers;
use crate::stopping::{EndSignals, Hangup};
use crate::threads::note;
use crate::tracing::Tracing;
use crate::{browser, output, own_files, runtime};

use access::Access;
use build::{Built, Shared, build};
use project::{Project, ProjectFile};
use storage::Storage;

/// Serves agents until a signal ends the program.
pub(crate) fn serve(args: &ServeArgs) -> Result<Exit> {
    if args.schema {
        return exit::shown(&serde_json::to_string_pretty(&schemars::schema_for!(ProjectFile))?);
    }
    let project = Project::read(args)?;
    let listen = args.listen.or(project.settings.server.listen);
    let listen = listen.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 8123)));
    let access = Access::read(args, &project.settings)?;
    Access::remark_readable(args, &project.settings);
    if !listen.ip().is_loopback() && !access.asks() {
        bail!(WrongUsage::new(format!(
            "anyone who can reach {listen} could do everything; say who may call with --tokens FILE, or listen on an address of this \
             machine, such as 127.0.0.1:{}",
            listen.port()
        )));
    }
    if args.project.is_none() {
        own_files::check_root(args.agent.root.as_deref())?;
    }
    raise_open_files();
    let runtime = runtime::start()?;
    let storage = runtime.block_on(storage::open(&args.database, &project.settings.store))?;
    let tracing = runtime.block_on(Tracing::open(None, None))?;
    let handle = runtime.handle().clone();
    let Storage { journal, store, file: database, artifacts } = storage;
    let shared = Shared { journal, database, artifacts, tracing, runtime: handle };
    let hosting = Arc::new(Hosting { shared, store, servers: Mutex::default() });
    let built = hosting.build(args, &project)?;
    let names = watch::names(&built);
    let server = access.apply(hosting.with_agents(built)?)?;
    let served = runtime.block_on(async {
        let running = server.start().await?;
        let (running, scheme) = match access.tls() {
            Some(config) => (running.tls(config.clone()), "https"),
            None => (running, "http"),
        };
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("cannot listen on {listen}; --listen chooses another address"))?;
        let address = format!("{scheme}://{}", listener.local_addr()?);
        output::remark(&format!("serving {names} at {address}; Ctrl-C stops it"));
        if args.open {
            browser::open(&address);
        }
        let places = project.described_by.clone();
        let watching = watch::watch(args.clone(), hosting.clone(), running.clone(), places);
        let watching = args.watch.then(|| tokio::spawn(watching));
        let ended = listen_until_signal(running, listener).await;
        if let Some(watching) = watching {
            watching.abort();
        }
        ended?;
        hosting.close().await;
        Ok::<_, anyhow::Error>(())
    });
    // Work in progress is in the log; the next server resumes it.
    runtime.shutdown_background();
    served.map(|()| Exit::Done)
}

/// Raises the number of files that the process may open to what the system allows, because each connection is one.
fn raise_open_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let wanted = maximum.unwrap_or(MAX_OPEN_FILES).min(MAX_OPEN_FILES);
        if current.is_none_or(|current| current >= wanted) {
            return;
        }
        let current = Some(wanted);
        // The server keeps its connections below the limit that it has.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
}

/// Some programs that a server starts walk through all possible files, so the limit stays moderate.
#[cfg(unix)]
const MAX_OPEN_FILES: u64 = 65_536;

async fn listen_until_signal(running: RunningServer, listener: TcpListener) -> Result<()> {
    let mut signals = EndSignals::catch(Hangup::EndsUnlessIgnored)?;
    Ok(running
        .serve(listener, async move {
            signals.recv().await;
        })
        .await?)
}

/// State that outlives a set of agents.
struct Hosting {
    shared: Shared,
    store: Arc<dyn Store>,
    /// MCP servers of the agents currently served.
    servers: Mutex<Vec<Servers>>,
}

impl Hosting {
    fn build(&self, args: &ServeArgs, project: &Project) -> Result<Vec<Built>> {
        let hidden = project.own_files(args);
        let built = project.agents.iter().map(|plan| {
            // The program prints only the outermost error when it ends, so put the causes into it.
            build(plan, &self.shared, &hidden).map_err(|error| {
                let text = match project.agents.len() {
                    1 => format!("the agent cannot be served: {error:#}"),
                    _ => format!("agent `{}` cannot be served: {error:#}", plan.name),
                };
                if error.is::<WrongUsage>() { WrongUsage::new(text).into() } else { anyhow!(text) }
            })
        });
        built.collect()
    }

    /// Returns a server with these agents, and takes over their MCP servers. Those of the previous agents end with the
    /// last run that uses them.
    fn with_agents(&self, built: Vec<Built>) -> Result<Server> {
        let mut server = Server::new(self.shared.journal.clone(), self.store.clone());
        let mut servers = Vec::new();
        for one in built {
            let mode = one.approve;
            server = server.agent(one.name, one.agent)?.note(one.note);
            let option = |mode: &str| format!("approve = \"{mode}\"");
            server = server.check_threads(move |thread| note::keeps_mode(thread, mode, option));
            if let Some(description) = one.description {
                server = server.description(description);
            }
            servers.extend(one.servers);
        }
        *self.servers.lock().unwrap_or_else(PoisonError::into_inner) = servers;
        Ok(server)
    }

    /// Stores which tools of the current servers the user has agreed to, so that the servers of the next agents are
    /// compared with them. Blocks.
    fn save_consents(&self) {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        servers.iter().for_each(|servers| self.shared.runtime.block_on(servers.save()));
    }

    async fn close(&self) {
        let servers = std::mem::take(&mut *self.servers.lock().unwrap_or_else(PoisonError::into_inner));
        for server in servers {
            server.close().await;
        }
        self.shared.tracing.finish().await;
    }
}
