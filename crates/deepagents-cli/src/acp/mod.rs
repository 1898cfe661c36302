//! `deepagents acp`: an editor's agent.

mod commands;
mod convert;
mod host;
mod models;

use anyhow::{Result, bail};
use tokio_util::sync::CancellationToken;

use crate::args::AcpArgs;
use crate::exit::{Exit, WrongUsage};
use crate::stopping::{EndSignals, Hangup, UntilStopped};
use crate::tracing::Tracing;
use crate::{agent, config, model_choice, runtime};

use host::Host;

/// Serves the editor on stdin and stdout until it disconnects or a signal ends the program.
pub(crate) fn acp(args: &AcpArgs) -> Result<Exit> {
    if args.agent.root.is_some() {
        bail!(WrongUsage::new("--root has no effect here: the editor names the directory of each session"));
    }
    // The user's own settings choose the first model; a directory's settings are read when its session opens.
    let options = &config::completed(&args.agent)?;
    // Report errors in the command line at once, not in the first session.
    agent::Shape::from_args(options)?;
    let (choice, _) = model_choice::chosen(options)?;
    let runtime = runtime::start()?;
    let served = runtime.block_on(async {
        let tracing = Tracing::open(None, None).await?;
        let host = Host::open(args, options, &choice.name, tracing.clone()).await?;
        let (stop, left) = (CancellationToken::new(), host.clone());
        let (mut signals, stopping) = (EndSignals::catch(Hangup::Ends)?, stop.clone());
        tokio::spawn(async move {
            signals.recv().await;
            stopping.cancel();
        });
        let editor = UntilStopped::new(tokio::io::stdin(), &stop);
        let served = deepagents_acp::serve(host, editor, tokio::io::stdout()).await;
        left.kill();
        tracing.finish().await;
        Ok::<_, anyhow::Error>(served?)
    });
    // A blocking thread is still waiting for the next line of stdin.
    runtime.shutdown_background();
    served.map(|()| Exit::Done)
}
