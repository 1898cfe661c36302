//! `deepagents serve`: the agent over HTTP, for clients of the LangGraph server.

mod access;

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use deepagents::DeepAgentBuilder;
use deepagents::core::journal::Journal;
use deepagents::core::store::Store;
use deepagents_server::Server;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::ServeArgs;
use crate::exit::Exit;
use crate::model_choice::{self, WithoutKey};
use crate::own_files::{self, OwnFiles};
use crate::threads::database;
use crate::tracing::Tracing;
use crate::trust::{Brought, Undecided};
use crate::{agent, browser, hooks, output, runtime, sources};

/// Serves the agent until a signal ends it.
pub(crate) fn serve(args: &ServeArgs) -> Result<Exit> {
    let options = &args.agent;
    if !args.listen.ip().is_loopback() && args.tokens.is_none() {
        bail!(
            "whoever reaches {} could do everything; name who may call with --tokens FILE, or listen on an address of this \
             machine, such as 127.0.0.1:{}",
            args.listen,
            args.listen.port()
        );
    }
    let access = access::Access::read(args)?;
    own_files::check_root(options)?;
    let mut shape = agent::Shape::from_args(options)?;
    shape.check()?;
    shape.decide_for_clients(args.approve)?;
    let choice = model_choice::choose(options.model.as_deref(), options.base_url.as_deref(), &model_choice::env)?;
    let model = model_choice::make(&choice, options, &model_choice::env, WithoutKey::Refuse)?;
    let runtime = runtime::start()?;
    let files = agent::open(options.directory())?;
    let brought = runtime.block_on(Brought::find(options, &files, Undecided::for_run(options, true)))?;
    let (found, outside) = sources::find(options, &brought)?;
    shape.sources = found;
    let own = OwnFiles::inside(options.directory(), args.database.db.as_deref(), None)?;
    let workspace = agent::workspace(options, files, &own, &outside)?;
    let definitions = outside.beside(brought.files.clone());
    let hooks = runtime.block_on(hooks::find(options, &brought))?;
    let served = runtime.block_on(async {
        let database = Arc::new(database::open(&args.database).await?);
        let (journal, store): (Arc<dyn Journal>, Arc<dyn Store>) = (database.clone(), database);
        let builder = shape.builder(model).backend(workspace).definitions_from(definitions).journal(journal.clone());
        let builder = hooks.into_iter().fold(builder, DeepAgentBuilder::hooks);
        let tracing = Tracing::open(None, None).await?;
        let builder = tracing.watch_runs(agent::with_agents(builder, options)?);
        let agent = builder.build().map_err(|error| anyhow!("{error}"))?;
        let mut server = Server::new(journal, store).agent(&args.name, agent)?;
        for host in &args.hosts {
            server = server.host(host);
        }
        let running = access.apply(server).start().await?;
        let (running, scheme) = match access.tls() {
            Some(config) => (running.tls(config.clone()), "https"),
            None => (running, "http"),
        };
        let listener = TcpListener::bind(args.listen).await.with_context(|| format!("listening on {}", args.listen))?;
        let address = format!("{scheme}://{}", listener.local_addr()?);
        output::remark(&format!("serving {} at {address}; Ctrl-C ends it", choice.name));
        if args.open {
            browser::open(&address);
        }
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let end = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        running.serve(listener, end).await?;
        if let Some(lost) = tracing.finish().await {
            output::remark(&format!("tracing: {lost}"));
        }
        Ok::<_, anyhow::Error>(())
    });
    // What is under way is in the log, and is gone on with by the next server.
    runtime.shutdown_background();
    served.map(|()| Exit::Done)
}
