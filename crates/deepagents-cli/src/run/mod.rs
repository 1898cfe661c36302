//! `deepagents run`.

mod decide;
mod interrupt;
mod live;
mod prompt;
mod session;
mod stdin;
mod verdict;

use anyhow::{Result, anyhow, bail};
use deepagents::{Approvals, AskBefore, DeepAgent, RunInput};
use tokio::runtime::Runtime;

use crate::args::{Approve, RunArgs};
use crate::exit::Exit;
use crate::model_choice::{self, WithoutKey};
use crate::render::{AnswerOnly, JsonLines, Live, Renderer};
use crate::{agent, output, runtime};

use decide::Decider;
use session::Session;
pub(crate) use verdict::Limits;

/// Calls that change something outside of the conversation.
const GATED: [&str; 4] = ["write_file", "edit_file", "delete", "execute"];

/// Gives an agent a task and shows what it does.
pub(crate) fn run(args: &RunArgs) -> Result<Exit> {
    let options = &args.agent;
    let choice = model_choice::choose(options.model.as_deref(), options.base_url.as_deref(), &model_choice::env)?;
    let model = model_choice::make(&choice, options, &model_choice::env, WithoutKey::Refuse)?;
    let mut builder = agent::builder(options, model)?;
    let task = task(args)?;
    let runtime = runtime::start()?;
    let session = runtime.block_on(Session::open(args, task, &choice.name))?;
    if let Some(journal) = &session.journal {
        builder = builder.dyn_journal(journal.clone());
    }
    if args.approve != Approve::Auto {
        let approvals = GATED.iter().fold(Approvals::new(), |all, tool| all.before(*tool, AskBefore::any()));
        builder = builder.interrupt_on(approvals);
    }
    let agent = builder.build().map_err(|error| anyhow!("{error}"))?;
    if choice.reason != model_choice::Reason::Named && !args.quiet {
        output::remark(&format!("using {choice}"));
    }
    let limits = Limits {
        turns: args.max_turns,
        time: args.timeout,
        key_variable: choice.key_variable(),
        thread: session.kept.clone(),
    };
    let mut decider = match args.approve {
        // What an earlier run has asked about is approved too.
        Approve::Auto => Decider::Approve,
        Approve::Deny => Decider::Reject,
        Approve::Ask if args.json => Decider::lines(),
        Approve::Ask => Decider::person(),
    };
    if args.json {
        drive(runtime, &agent, session.input, &limits, &mut decider, &mut JsonLines)
    } else if args.quiet {
        drive(runtime, &agent, session.input, &limits, &mut decider, &mut AnswerOnly::new())
    } else {
        drive(runtime, &agent, session.input, &limits, &mut decider, &mut Live::new(session.kept))
    }
}

/// What is to be done; nothing where an earlier run is gone on with as it is.
fn task(args: &RunArgs) -> Result<Option<String>> {
    match args.task.as_deref() {
        None if args.resumes() => Ok(None),
        None | Some("-") if args.approve == Approve::Ask => {
            bail!("with --approve ask stdin is for your answers: give the task on the command line")
        }
        given => stdin::task(given).map(Some),
    }
}

/// Plays the model's part by a script: nothing is kept and nothing is asked.
pub(crate) fn play(agent: &DeepAgent, task: String, renderer: &mut dyn Renderer) -> Result<Exit> {
    let runtime = runtime::start()?;
    drive(runtime, agent, RunInput::new(task), &Limits::default(), &mut Decider::Approve, renderer)
}

/// Runs to the end and says on stderr what stood in the way.
fn drive(
    runtime: Runtime,
    agent: &DeepAgent,
    input: RunInput,
    limits: &Limits,
    decider: &mut Decider,
    renderer: &mut dyn Renderer,
) -> Result<Exit> {
    let ending = runtime.block_on(async {
        let ctrl_c = interrupt::catch().map_err(|error| anyhow!("Ctrl-C cannot be caught: {error}"))?;
        Ok::<_, anyhow::Error>(live::follow(agent, input, limits, ctrl_c, decider, renderer).await?)
    });
    // A tool that ignores its end must not hold the program.
    runtime.shutdown_background();
    let (exit, words) = verdict::of(&ending?, limits);
    if let Some(words) = words {
        output::complain(&words);
    }
    Ok(exit)
}
