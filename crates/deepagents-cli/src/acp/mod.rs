//! `deepagents acp`: an editor's agent.

mod commands;
mod host;
mod models;

use anyhow::{Result, anyhow, bail};
use tokio_util::sync::CancellationToken;

use crate::args::AcpArgs;
use crate::exit::{Exit, WrongUsage};
use crate::model_choice::{self, WithoutKey, env};
use crate::stopping::{EndSignals, Hangup, UntilStopped};
use crate::tracing::Tracing;
use crate::{agent, config, output, runtime};

use host::Host;

/// Serves the editor on stdin and stdout until it disconnects or a signal ends the program.
pub(crate) fn acp(args: &AcpArgs) -> Result<Exit> {
    if args.agent.root.is_some() {
        let words = "--root has no effect here: the editor names the directory of each session";
        bail!(WrongUsage(words.to_owned()));
    }
    // The user's own settings choose the first model; a directory's settings are read when its session opens.
    let (options, problems) = config::for_agent(&args.agent)?;
    for problem in problems {
        output::remark(&problem);
    }
    let options = &options;
    // Report errors in the command line at once, not in the first session.
    agent::Shape::from_args(options)?;
    let choice = model_choice::choose(options.model.as_deref(), options.base_url.as_deref(), &env)?;
    model_choice::make(&choice, options, &env, WithoutKey::Refuse)?;
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
        if let Some(lost) = tracing.finish().await {
            output::remark(&format!("tracing: {lost}"));
        }
        served.map_err(|error| anyhow!("{error}"))
    });
    // A blocking thread is still waiting for the next line of stdin.
    runtime.shutdown_background();
    served.map(|()| Exit::Done)
}
