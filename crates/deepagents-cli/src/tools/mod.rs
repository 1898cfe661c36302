//! `deepagents tools`: tool calls made by hand.

mod driver;
mod line;

mod seed;

use std::io::{self, BufRead, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use deepagents::core::agent::Agent;
use deepagents::fs::permissions::{OnAsk, PermissionedBackend, Permissions};
use deepagents::fs::shell::SessionOptions;
use deepagents::fs::{Backend, StateBackend};
use deepagents::middleware::filesystem::{BackgroundCommands, Filesystem, FilesystemOptions};
use deepagents::{RunInput, Update};

use crate::args::{AgentArgs, BackendKind, Switch, ToolsArgs};
use crate::exit::Exit;
use crate::own_files::OwnFiles;
use crate::render::JsonLines;
use crate::rules::Rules;
use crate::{agent, output, own_files, runtime};
use line::Answer;

/// Answers each line of stdin with a line on stdout.
pub(crate) fn tools(args: &ToolsArgs) -> Result<Exit> {
    let rules = args.rules.as_deref().map(Rules::read).transpose()?;
    let rules = rules.map(|rules| rules.permissions());
    let runtime = runtime::start()?;
    let (backend, files) = runtime.block_on(files(args, rules))?;
    let options = FilesystemOptions {
        read_before_edit: args.read_before_edit == Switch::On,
        background_commands: BackgroundCommands::EndWithRun,
        shell_session: args.commands.shell_session.then(SessionOptions::default),
        ..FilesystemOptions::default()
    };
    let (driver, mut session) = driver::pair();
    // A single run for all lines, so that its state carries over from one to the next.
    let agent = Agent::builder(driver)
        .middleware(Filesystem::new(backend).options(options))
        .max_model_calls(u32::MAX)
        .build()?;
    let run = runtime.spawn(async move { agent.invoke(RunInput::new("Make the calls.").update(files)).await });
    if io::stdin().is_terminal() {
        output::remark("calls are lines such as {\"name\":\"ls\",\"args\":{\"path\":\"/\"}}; Ctrl-D ends");
    }
    let mut input = io::stdin().lock();
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let read = input.read_until(b'\n', &mut bytes).map_err(|error| anyhow!("stdin could not be read: {error}"))?;
        if read == 0 {
            break;
        }
        let answer = match line::call(&bytes) {
            Err(problem) => Answer::error(problem),
            Ok(call) => match session.make(call) {
                Some(answer) => answer,
                // The run has failed.
                None => break,
            },
        };
        JsonLines.line(&answer)?;
    }
    drop(session);
    match runtime.block_on(run) {
        Ok(Ok(_)) => Ok(Exit::Done),
        Ok(Err(error)) => {
            JsonLines.line(&Answer::error(error.to_string()))?;
            Err(anyhow!("the calls could not continue: {error}"))
        }
        Err(error) => Err(anyhow!("the calls could not continue: {error}")),
    }
}

/// Returns the backend, and the update that puts the initial files into state.
async fn files(args: &ToolsArgs, rules: Option<Permissions>) -> Result<(Arc<dyn Backend>, Update)> {
    let (backend, files): (Arc<dyn Backend>, Update) = match args.backend {
        BackendKind::State => {
            let backend = StateBackend::new();
            let files = match args.root.as_deref() {
                Some(root) => seed::files(&backend, root).await?,
                None => Update::none(),
            };
            (Arc::new(backend), files)
        }
        BackendKind::Local => {
            own_files::check_root(args.root.as_deref())?;
            let root = args.root.as_deref().unwrap_or(Path::new("."));
            let (local, own) =
                (agent::open_async(&AgentArgs::at(root), None).await?, OwnFiles::inside(root, None, None)?);
            (agent::with_commands(local, &args.commands, &own)?, Update::none())
        }
    };
    Ok(match rules {
        Some(rules) => (Arc::new(PermissionedBackend::new(backend, rules, OnAsk::Refuse)), files),
        None => (backend, files),
    })
}
