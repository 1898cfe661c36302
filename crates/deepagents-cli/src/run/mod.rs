//! `deepagents run`.

mod interrupt;
mod live;
mod stdin;
mod verdict;

use anyhow::{Result, anyhow};
use deepagents::{DeepAgent, RunInput};

use crate::args::RunArgs;
use crate::exit::Exit;
use crate::model_choice::{self, WithoutKey};
use crate::render::{AnswerOnly, JsonLines, Live, Renderer};
use crate::{agent, output};

pub(crate) use verdict::Limits;

/// Gives an agent a task and shows what it does.
pub(crate) fn run(args: &RunArgs) -> Result<Exit> {
    let options = &args.agent;
    let choice = model_choice::choose(options.model.as_deref(), options.base_url.as_deref(), &model_choice::env)?;
    let model = model_choice::make(&choice, options, &model_choice::env, WithoutKey::Refuse)?;
    let agent = agent::build(options, model)?;
    let task = stdin::task(args.task.as_deref())?;
    if choice.reason != model_choice::Reason::Named && !args.quiet {
        output::remark(&format!("using {choice}"));
    }
    let limits = Limits { turns: args.max_turns, time: args.timeout, key_variable: choice.key_variable() };
    if args.json {
        drive(&agent, task, &limits, &mut JsonLines)
    } else if args.quiet {
        drive(&agent, task, &limits, &mut AnswerOnly::new())
    } else {
        drive(&agent, task, &limits, &mut Live::new())
    }
}

/// Runs the task to its end and says on stderr what stood in its way.
pub(crate) fn drive(agent: &DeepAgent, task: String, limits: &Limits, renderer: &mut dyn Renderer) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| anyhow!("the program could not start its threads: {error}"))?;
    let mut input = RunInput::new(task);
    if let Some(turns) = limits.turns {
        input = input.max_model_calls(turns);
    }
    if let Some(time) = limits.time {
        input = input.timeout(time);
    }
    let ending = runtime.block_on(async {
        let ctrl_c = interrupt::catch().map_err(|error| anyhow!("Ctrl-C cannot be caught: {error}"))?;
        Ok::<_, anyhow::Error>(live::follow(agent, input, ctrl_c, renderer).await?)
    });
    // A tool that ignores its end must not hold the program.
    runtime.shutdown_background();
    let (exit, words) = verdict::of(&ending?, limits);
    if let Some(words) = words {
        output::complain(&words);
    }
    Ok(exit)
}
