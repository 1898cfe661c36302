//! `deepagents mcp serve`.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use deepagents::DeepAgentBuilder;
use deepagents::core::journal::Journal;
use deepagents::mcp::serve::AgentServer;
use tokio_util::sync::CancellationToken;

use crate::args::{Approve, McpServeArgs};
use crate::exit::Exit;
use crate::model_choice::{self, WithoutKey};
use crate::own_files::{self, OwnFiles};
use crate::run::ThisProcess;
use crate::stopping::{EndSignals, Hangup};
use crate::threads::{Noted, database};
use crate::trust::{Brought, Undecided};
use crate::{agent, config, hooks, output, runtime, sources};

/// The tools offered with `--files`.
const FILES: [&str; 7] = ["ls", "read_file", "write_file", "edit_file", "delete", "glob", "grep"];
/// Those that change nothing.
const READING: [&str; 4] = ["ls", "read_file", "glob", "grep"];

/// Offers the agent to other programs. Stdout belongs to the client.
pub(super) fn serve(args: &McpServeArgs) -> Result<Exit> {
    let (options, problems) = config::for_agent(&args.agent)?;
    for problem in problems {
        output::remark(&problem);
    }
    let options = &options;
    own_files::check_root(options.root.as_deref())?;
    let mut shape = agent::Shape::from_args(options)?;
    shape.check()?;
    shape.decide_for_clients(args.approve)?;
    // Calls of file tools are independent, so none could prove that the file was read before.
    shape.edits_unread = args.files;
    let choice = model_choice::choose(options.model.as_deref(), options.base_url.as_deref(), &model_choice::env)?;
    let model = model_choice::make(&choice, options, &model_choice::env, WithoutKey::Refuse)?;
    let runtime = runtime::start()?;
    let files = agent::open(options)?;
    // Stdin belongs to the client, so nobody can be asked there.
    let undecided = Undecided::for_run(options, true);
    let brought = runtime.block_on(Brought::find(options, &files, undecided))?;
    let (found, outside) = sources::find(options, &brought)?;
    shape.sources = found;
    let own = OwnFiles::inside(options.directory(), args.database.db.as_deref(), None)?;
    let confinement = shape.confinement(&files, &own);
    let workspace = agent::workspace(options, files, &own, &outside)?;
    let definitions = outside.add_to(brought.files.clone());
    let hooks = runtime.block_on(hooks::find(options, &brought, confinement))?;
    let servers = super::servers(options, undecided, args.approve == Approve::Ask, false, &model)?;
    let known = (choice.name.as_str(), options.base_url.as_deref());
    let noted =
        Noted { root: Some(options.directory()), model: Some(known), approve: args.approve, redact: &options.redact };
    let served = runtime.block_on(async {
        let journal: Arc<dyn Journal> = Arc::new(database::open(&args.database).await?);
        let builder = shape.builder(model).backend(workspace).definitions_from(definitions);
        let mut builder = agent::with_agents(builder.journal(journal).process(ThisProcess), options)?;
        builder = hooks.iter().cloned().fold(builder, DeepAgentBuilder::hooks);
        if let Some(servers) = &servers {
            builder = builder.mcp(&servers.all);
        }
        let agent = builder.build().map_err(|error| anyhow!("{error}"))?;
        let tools = FILES.iter().filter(|_| args.files).copied();
        let server = AgentServer::new(&agent).tools(tools).read_only(READING).asks(args.approve == Approve::Ask);
        let server = server.note(noted.metadata());
        let served = until_stopped(server, args).await;
        if let Some(servers) = &servers {
            servers.close().await;
        }
        served
    });
    // A blocking read of stdin cannot be cancelled.
    runtime.shutdown_background();
    served.map(|()| Exit::Done)
}

/// Serves until the client disconnects or a signal arrives.
async fn until_stopped(server: AgentServer, args: &McpServeArgs) -> Result<()> {
    // An HTTP server may be meant to outlive the terminal that started it.
    let hangup = if args.http.is_some() { Hangup::EndsUnlessIgnored } else { Hangup::Ends };
    let mut signals = EndSignals::catch(hangup)?;
    let stop = CancellationToken::new();
    let told = |address: &str| output::remark(&format!("serving at {address}; Ctrl-C stops it"));
    let serving = async {
        match args.http {
            Some(address) => server.serve_http(address, stop.clone(), told).await,
            None => server.serve_stdio().await,
        }
    };
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        served = &mut serving => return served.map_err(|error| anyhow!("{error}")),
        _ = signals.recv() => {}
    }
    stop.cancel();
    match args.http {
        Some(_) => serving.await.map_err(|error| anyhow!("{error}")),
        None => Ok(()),
    }
}
