//! `deepagents serve`: the agent over HTTP, for clients of the LangGraph server.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
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
use crate::trust::{Brought, Undecided};
use crate::{agent, output, runtime, sources};

/// Serves the agent until a signal ends it.
pub(crate) fn serve(args: &ServeArgs) -> Result<Exit> {
    let options = &args.agent;
    if !args.listen.ip().is_loopback() {
        bail!(
            "there is no authentication, so only addresses of this machine are listened on, such as 127.0.0.1:{}; put \
             something before it that has one",
            args.listen.port()
        );
    }
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
    let served = runtime.block_on(async {
        let database = Arc::new(database::open(&args.database).await?);
        let (journal, store): (Arc<dyn Journal>, Arc<dyn Store>) = (database.clone(), database);
        let builder = shape.builder(model).backend(workspace).definitions_from(definitions).journal(journal.clone());
        let agent = agent::with_agents(builder, options)?.build().map_err(|error| anyhow!("{error}"))?;
        let mut server = Server::new(journal, store).agent(&args.name, agent)?;
        for host in &args.hosts {
            server = server.host(host);
        }
        let router = server.router().await?;
        let listener = TcpListener::bind(args.listen).await.with_context(|| format!("listening on {}", args.listen))?;
        output::remark(&format!("serving {} at http://{}; Ctrl-C ends it", choice.name, listener.local_addr()?));
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! {
            served = async { axum::serve(listener, router).await } => served?,
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok::<_, anyhow::Error>(())
    });
    // What is under way is in the log, and is gone on with by the next server.
    runtime.shutdown_background();
    served.map(|()| Exit::Done)
}
