//! `deepagents replay`.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use deepagents::fs::permissions::Permissions;
use deepagents::fs::shell::{Command, CommandOutput, SessionOptions, Shell, ShellError, WithShell};
use deepagents::recording::{RecordingError, RunRecording, Tools};
use deepagents::{LimitExit, MemoryJournal};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::agent::{self, Shape};
use crate::args::ReplayArgs;
use crate::exit::{Exit, WrongUsage};
use crate::render::{AnswerOnly, JsonLines, Live, Renderer};
use crate::runtime::RunThread;
use crate::{context_files, output, run};

/// Replays a recorded run as if it happened now: without model, tools, files or network.
pub(crate) fn replay(args: &ReplayArgs) -> Result<Exit> {
    let runtime = RunThread::start()?;
    let recording = runtime.block_on(RunRecording::open(&args.file)).map_err(|error| unreadable(args, &error))?;
    let Ok(shape) = Shape::deserialize(&recording.header().options) else {
        let words = "the recording was not made with `deepagents run --record`, so its agent is not known here; \
                     replay it with the program that made it";
        bail!(WrongUsage::new(words));
    };
    let Some((task, answers)) = recording.inputs().split_first() else {
        bail!("the recording ends before its run began: there is nothing to replay");
    };
    if recording.is_cut() && !args.quiet {
        output::remark("the last line of the recording is incomplete and is ignored");
    }
    // Files that the harness itself writes go to a scratch directory with only the recorded memory and skills.
    let scratch =
        tempfile::tempdir().map_err(|error| anyhow!("no directory could be created for the replay: {error}"))?;
    let files = agent::open_at(scratch.path())?;
    runtime.block_on(context_files::unpack(&shape.carried, &files))?;
    let mut builder = shape.builder(recording.model());
    builder = if shape.execute { builder.backend(WithShell::new(files, NoShell)) } else { builder.backend(files) };
    if task.thread.is_some() {
        builder = builder.journal(MemoryJournal::new());
    }
    let agent = builder.build()?;
    let answers: Vec<run::Decisions> = answers.iter().map(|input| input.answers.clone()).collect();
    let input = task.clone().into_input(agent.schema())?;
    let answers_at_limit = task.budget.at_limit == Some(LimitExit::Answer);
    let replay = recording.replay(Tools::Recorded);
    let mut renderer: Box<dyn Renderer> = match (args.json, args.quiet) {
        (true, _) => Box::new(JsonLines),
        (false, true) => Box::new(AnswerOnly::new(false, answers_at_limit)),
        (false, false) => Box::new(Live::new(None)),
    };
    run::replay(runtime, &agent, input, &replay, answers, shape.max_turns, &mut *renderer)
}

fn unreadable(args: &ReplayArgs, error: &RecordingError) -> anyhow::Error {
    let file = args.file.display();
    let words = match error {
        RecordingError::Open { source, .. } => format!("the recording `{file}` cannot be opened: {source}"),
        error => format!("`{file}` cannot be replayed: {error}"),
    };
    WrongUsage::new(words).into()
}

/// Stands in for the shell of the recorded run, so that its agent is offered the same tools. Results come from the
/// recording.
struct NoShell;

impl Shell for NoShell {
    fn under(&self, _rules: &Permissions) -> Option<Arc<dyn Shell>> {
        Some(Arc::new(Self))
    }

    fn session(&self, _options: &SessionOptions) -> Option<Arc<dyn Shell>> {
        Some(Arc::new(Self))
    }

    fn run(
        &self,
        _command: Command,
        _cancel: CancellationToken,
        _progress: Option<mpsc::Sender<String>>,
    ) -> BoxFuture<'_, Result<CommandOutput, ShellError>> {
        Box::pin(async { Err(ShellError::Start("a replay runs no commands".to_owned())) })
    }
}
