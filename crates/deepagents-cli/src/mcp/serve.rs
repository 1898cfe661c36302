//! `deepagents mcp serve`.

use std::sync::Arc;

use anyhow::Result;
use deepagents::DeepAgentBuilder;
use deepagents::core::journal::Journal;
use deepagents::mcp::serve::AgentServer;
use tokio_util::sync::CancellationToken;

use crate::args::{Approve, McpServeArgs};
use crate::exit::Exit;
use crate::own_files::{self, OwnFiles};
use crate::run::ThisProcess;
use crate::stopping::{EndSignals, Hangup};
use crate::threads::artifacts::remove_leftovers_rarely;
use crate::threads::{Artifacts, Noted, database, note};
use crate::trust::Undecided;
use crate::{agent, config, model_choice, output, runtime};

/// The tools offered with `--files`.
const FILES: [&str; 7] = ["ls", "read_file", "write_file", "edit_file", "delete", "glob", "grep"];
/// Those that change nothing.
const READING: [&str; 4] = ["ls", "read_file", "glob", "grep"];

/// Offers the agent to other programs. Stdout belongs to the client.
pub(super) fn serve(args: &McpServeArgs) -> Result<Exit> {
    let options = &config::completed(&args.agent)?;
    own_files::check_root(options.root.as_deref())?;
    let mut shape = agent::Shape::from_args(options)?;
    shape.check()?;
    shape.decide_for_clients(args.approve)?;
    // Calls of file tools are independent, so none could prove that the file was read before.
    shape.edits_unread = args.files;
    let (choice, model) = model_choice::chosen(options)?;
    let runtime = runtime::start()?;
    let files = agent::open(options, None)?;
    // Stdin belongs to the client, so nobody can be asked there.
    let undecided = Undecided::for_run(options, true);
    let own = OwnFiles::inside(options.directory(), args.database.db.as_deref(), None)?;
    let surroundings = runtime.block_on(shape.enter(options, files, &own, undecided))?;
    let hooks = runtime.block_on(surroundings.hooks(options))?;
    let servers = super::servers(options, undecided, args.approve == Approve::Ask, Vec::new(), &model)?;
    let known = (choice.name.as_str(), options.base_url.as_deref());
    let noted =
        Noted { root: Some(options.directory()), model: Some(known), approve: args.approve, redact: &options.redact };
    let served = runtime.block_on(async {
        let journal: Arc<dyn Journal> = Arc::new(database::open(&args.database).await?);
        let builder = surroundings.give(shape.builder(model)).journal(journal.clone()).process(ThisProcess);
        let artifacts = Artifacts::beside(&args.database)?;
        remove_leftovers_rarely(artifacts.clone(), journal.clone());
        let builder = artifacts.iter().fold(builder, |builder, own| own.give(builder, options.directory()));
        let builder = hooks.into_iter().fold(agent::with_agents(builder, options)?, DeepAgentBuilder::hooks);
        let agent = servers.iter().fold(builder, |builder, servers| builder.mcp(&servers.all)).build()?;
        let tools = FILES.iter().filter(|_| args.files).copied();
        let server = AgentServer::new(&agent).tools(tools).read_only(READING).asks(args.approve == Approve::Ask);
        let mode = args.approve;
        let option = |mode: &str| format!("--approve {mode}");
        let server = server.note(noted.metadata()).check_threads(move |thread| note::keeps_mode(thread, mode, option));
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
        served = &mut serving => return Ok(served?),
        _ = signals.recv() => {}
    }
    stop.cancel();
    // Without HTTP, it may wait for the client, who need not disconnect.
    if args.http.is_some() {
        serving.await?;
    }
    Ok(())
}
